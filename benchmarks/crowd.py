"""Many sessions on one server:

    python -m benchmarks.crowd --sessions 40 --seconds 600

Websocket clients that speak Streamlit's protocol (its own BackMsg and ForwardMsg) open the Token
budget page and move the budget's dial every two seconds, as the component in a browser does. One
Chromium beside them measures the time to a real picture. Prints response times of both and memory
over time."""

import argparse
import asyncio
import json
import random
import threading
import time

import websockets
from playwright.sync_api import sync_playwright
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from benchmarks.browser import opened, releases
from benchmarks.running_app import app, chromium, resident_mib, told

EVERY_S = 2.0
BUDGETS = tuple((base * q) // 4 for base in (64, 256, 1024, 2048, 4096) for q in range(4, 8))


class Client:
    """One session: what it received of the page, and the time of each answer."""

    def __init__(self, url: str, number: int):
        self.url = "ws" + url.removeprefix("http") + "/_stcore/stream"
        self.random = random.Random(number)
        self.widget = self.fragment = ""
        self.epoch = 0
        self.seq = int(time.time() * 1000)
        self.times: list[float] = []

    async def run(self, until: float) -> None:
        async with websockets.connect(
            self.url, subprotocols=["streamlit"], max_size=None
        ) as socket:
            message = BackMsg()
            message.rerun_script.page_name = "token_budget"
            await socket.send(message.SerializeToString())
            await self.answer(socket)
            await asyncio.sleep(self.random.uniform(0, EVERY_S))
            while time.monotonic() < until:
                began = time.monotonic()
                await socket.send(self.turn())
                await self.answer(socket)
                self.times.append(1e3 * (time.monotonic() - began))
                await asyncio.sleep(max(0.0, EVERY_S - (time.monotonic() - began)))

    def turn(self) -> bytes:
        """The message of a dial released at a new budget."""
        self.seq += 1
        value = {
            "budget": self.random.choice(BUDGETS), "cap": 0, "released": True,
            "epoch": self.epoch, "seq": self.seq,
        }  # fmt: skip
        message = BackMsg()
        message.rerun_script.fragment_id = self.fragment
        state = message.rerun_script.widget_states.widgets.add()
        state.id = self.widget
        state.json_value = json.dumps({"dials": value})
        return message.SerializeToString()

    async def answer(self, socket: websockets.ClientConnection) -> None:
        """Read until the script has finished; keep the component and its epoch."""
        while True:
            message = ForwardMsg()
            message.ParseFromString(await asyncio.wait_for(socket.recv(), 60))
            kind = message.WhichOneof("type")
            if kind == "delta" and message.delta.new_element.HasField("bidi_component"):
                self.see(message)
            if kind == "script_finished":
                return

    def see(self, message: ForwardMsg) -> None:
        component = message.delta.new_element.bidi_component
        self.widget = component.id
        self.fragment = message.delta.fragment_id or self.fragment
        data = component.bytes
        if data:
            size = int.from_bytes(data[:4], "little")
            self.epoch = json.loads(data[4 : 4 + size])["epoch"]


async def crowd(url: str, sessions: int, until: float) -> list[Client]:
    clients = [Client(url, number) for number in range(sessions)]
    await asyncio.gather(*(client.run(until) for client in clients))
    return clients


def watch(pid: int, until: float, seen: list[tuple[float, float]]) -> None:
    began = time.monotonic()
    while time.monotonic() < until:
        seen.append((time.monotonic() - began, resident_mib(pid)))
        time.sleep(5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sessions", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=60)
    asked = parser.parse_args()
    with app() as (url, pid), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox"], timeout=60_000
        )
        page = browser.new_page(viewport={"width": 1340, "height": 1255})
        opened(page, url, preset="four_chats_one_document")
        print(told("one Chromium alone", releases(page, 20)), flush=True)
        until = time.monotonic() + asked.seconds
        memory: list[tuple[float, float]] = []
        threading.Thread(target=watch, args=(pid, until, memory), daemon=True).start()
        done: list[Client] = []
        thread = threading.Thread(
            target=lambda: done.extend(asyncio.run(crowd(url, asked.sessions, until)))
        )
        thread.start()
        page.wait_for_timeout(8000)  # all sessions are open
        pictures: list[float] = []
        while time.monotonic() < until - EVERY_S:
            pictures += releases(page, 5, pause=1000)
        thread.join()
        browser.close()
    answers = [ms for client in done for ms in client.times[1:]]
    print(told(f"{asked.sessions} sessions, change to answered", answers))
    print(told(f"one Chromium beside {asked.sessions} sessions", pictures))
    print("memory of the server, MiB:")
    shown = memory[:: max(1, len(memory) // 12)] + memory[-1:]
    print("  " + "  ".join(f"{at:.0f} s {mib:.0f}" for at, mib in shown))


if __name__ == "__main__":
    main()

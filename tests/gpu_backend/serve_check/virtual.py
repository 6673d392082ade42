"""A server and a client in virtual time: the event loop's clock jumps to whatever is due next, so
every measured time is exact and nothing waits."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

import httpx

from gpu_backend.serve_check.client import Client
from gpu_backend.serve_check.endpoint_policy import Endpoint
from sim.scenario.load import Scenario, parse_scenario
from sim.workload.workload import Workload, build_workload

Script = Sequence[tuple[float, bytes]]  # wait so long, then send


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in which waiting takes no time."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__()

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        loop: Any = self
        if not loop._ready and loop._scheduled:
            self.now = max(self.now, loop._scheduled[0]._when)
        super()._run_once()  # type: ignore[misc]


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine, in virtual time from 0."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def now() -> float:
    return asyncio.get_running_loop().time()


class ScriptedServer(httpx.AsyncBaseTransport):
    """Answers each request with the bytes that `script(body)` lists. `asked`: when and what."""

    def __init__(self, script: Callable[[dict[str, Any]], Script], headers_s: float = 0.0) -> None:
        self.script, self.headers_s = script, headers_s
        self.asked: list[tuple[float, dict[str, Any]]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/models"):
            return httpx.Response(200, content=sent([(0.0, b'{"data": [{"id": "tiny"}]}')]))
        body = json.loads(await request.aread())
        self.asked.append((now(), body))
        await asyncio.sleep(self.headers_s)
        headers = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=headers, content=sent(self.script(body)))


async def sent(script: Script) -> AsyncIterator[bytes]:
    for wait_s, data in script:
        await asyncio.sleep(wait_s)
        yield data


def client_of(server: httpx.AsyncBaseTransport, api: Any = "completions", **fields: Any) -> Client:
    endpoint = Endpoint("http://localhost:1/v1", api)
    return Client(endpoint, transport=server, clock=now, **fields)


# --- what a server sends --------------------------------------------------------------------------


def event(chunk: Any) -> bytes:
    return f"data: {json.dumps(chunk)}\n\n".encode()


def text(words: str, **more: Any) -> bytes:
    return event({"choices": [{"index": 0, "text": words}], **more})


def delta(**fields: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": fields}], "usage": None})


def finish(reason: str = "length") -> bytes:
    return event({"choices": [{"index": 0, "delta": {}, "text": "", "finish_reason": reason}]})


def usage(output: int, prompt: int = 10, **details: Any) -> bytes:
    counts = {"prompt_tokens": prompt, "completion_tokens": output, **details}
    return event({"choices": [], "usage": counts})


DONE = b"data: [DONE]\n\n"


# --- what is asked --------------------------------------------------------------------------------


def scenario_of(
    times_s: Sequence[float], prompt: int = 10, output: int = 3, **more: Any
) -> Scenario:
    """One class at the given times, on the linear toy."""
    spec = {
        "name": "chat",
        "arrivals": {"kind": "at", "times_s": list(times_s)},
        "prompt": {"kind": "fixed", "tokens": prompt},
        "output": {"kind": "fixed", "tokens": output},
        **more,
    }
    replica = {"latency": {"kind": "linear"}, "policy": {"engine": "vllm_v1"}}
    return parse_scenario({"workload": {"classes": [spec]}, "replicas": [replica]})


def requests(times_s: Sequence[float], **fields: Any) -> Workload:
    return build_workload(scenario_of(times_s, **fields).workload, 0)

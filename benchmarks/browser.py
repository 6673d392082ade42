"""The response time of the page in a real Chromium:

    python -m benchmarks.browser

Measures the time from a dial's release to the new picture, at the default and at 2,000 requests,
alone and with a pinned run; pictures per second while a dial is dragged; frames per second while
the run plays. The clock is the browser's: from the input event to the frame in which the new packet
is on the canvas."""

from urllib.parse import urlencode

import numpy as np
from playwright.sync_api import Page, sync_playwright

from benchmarks.running_app import app, chromium, told

ROOT = "[...document.querySelectorAll('*')].find((e) => e.shadowRoot?.querySelector('.bs'))"
MEASURE = (
    """async ({ values, pause }) => {
  const bs = ROOT.shadowRoot.querySelector('.bs'), dial = bs.querySelector('#bs-budget');
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const times = [];
  for (const value of values) {
    const before = bs.dataset.packet, began = performance.now();
    dial.value = value;
    dial.dispatchEvent(new Event('input', { bubbles: true }));
    dial.dispatchEvent(new Event('change', { bubbles: true }));
    while (bs.dataset.packet === before && performance.now() - began < 5000) await frame();
    await frame();
    times.push(performance.now() - began);
    await new Promise((done) => setTimeout(done, pause));
  }
  return times;
}"""
).replace("ROOT", ROOT)
DRAG = (
    """async (seconds) => {
  const bs = ROOT.shadowRoot.querySelector('.bs'), dial = bs.querySelector('#bs-budget');
  let pictures = 0, jumps = 0, last = bs.dataset.packet;
  const began = performance.now();
  dial.dispatchEvent(new Event('pointerdown'));
  for (let i = 0; performance.now() - began < 1000 * seconds; i++) {
    const value = 4 + Math.abs((i % 68) - 34);
    dial.value = value;
    dial.dispatchEvent(new Event('input', { bubbles: true }));
    await new Promise((done) => requestAnimationFrame(done));
    if (+dial.value !== value) jumps++;
    if (bs.dataset.packet !== last) { pictures++; last = bs.dataset.packet; }
  }
  dial.dispatchEvent(new Event('change', { bubbles: true }));
  return { rate: pictures / seconds, jumps };
}"""
).replace("ROOT", ROOT)
PLAY = (
    """async (seconds) => {
  const bs = ROOT.shadowRoot.querySelector('.bs');
  bs.querySelector('.btn-play').click();
  let frames = 0;
  const began = performance.now();
  while (performance.now() - began < 1000 * seconds) {
    await new Promise((done) => requestAnimationFrame(done));
    frames++;
  }
  bs.querySelector('.btn-play').click();
  return frames / seconds;
}"""
).replace("ROOT", ROOT)


def trace(num_requests: int) -> bytes:
    """A trace file: Poisson arrivals, prompts and outputs of chats."""
    rng = np.random.default_rng(0)
    arrival = np.cumsum(rng.exponential(0.12, num_requests))
    prompt = np.clip(rng.lognormal(5.8, 1.0, num_requests), 10, 6000).astype(int)
    output = np.clip(rng.lognormal(4.8, 0.7, num_requests), 4, 800).astype(int)
    rows = zip(arrival, prompt, output, strict=True)
    lines = ["arrival_s,prompt_tokens,output_tokens", *(f"{a:.4f},{p},{o}" for a, p, o in rows)]
    return "\n".join(lines).encode()


def opened(page: Page, url: str, **query: str) -> Page:
    page.goto(f"{url}/token_budget?{urlencode({'v': '1', **query})}")
    if query["preset"] == "your_trace":
        file = {"name": "trace.csv", "mimeType": "text/csv", "buffer": trace(2000)}
        page.locator("input[type=file]").set_input_files(file)
    page.get_by_role("slider", name="Play head").wait_for(timeout=120_000)
    page.wait_for_timeout(2000)
    return page


def releases(page: Page, times: int, pause: int = 150) -> list[float]:
    """Milliseconds of each release; no position comes twice in a row."""
    values = [3 + (k * 17) % 37 for k in range(times)]
    found: list[float] = page.evaluate(MEASURE, {"values": values, "pause": pause})
    return found


def main() -> None:
    with app() as (url, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox"], timeout=60_000
        )
        page = browser.new_page(viewport={"width": 1340, "height": 1255})
        default = "four_chats_one_document"
        cases = [
            ("dial released, default", {"preset": default}),
            ("dial released, default, beside a pinned run", {"preset": default, "pin": default}),
            ("dial released, 2,000 requests", {"preset": "your_trace"}),
        ]
        for name, query in cases:
            opened(page, url, **query)
            print(told(name, releases(page, 37)), flush=True)
            print(told(f"  again, {name.removeprefix('dial released, ')}", releases(page, 37)))
        for name, query in cases[:2]:
            page = browser.new_page(viewport={"width": 1340, "height": 1255})
            opened(page, url, **query)
            entries = page.evaluate("history.length")
            drag = page.evaluate(DRAG, 5)
            page.wait_for_timeout(800)
            more = page.evaluate("history.length") - entries
            print(
                f"live drag, {name.removeprefix('dial released, ')}: {drag['rate']:.1f} pictures "
                f"per second, the thumb jumped {drag['jumps']} times, {more} entry in the history"
            )
        for name, query in cases[1:3]:
            opened(page, url, **query)
            rate = page.evaluate(PLAY, 4)
            print(f"playing, {name.removeprefix('dial released, ')}: {rate:.1f} frames per second")
        browser.close()


if __name__ == "__main__":
    main()

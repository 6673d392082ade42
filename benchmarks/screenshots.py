"""Screenshots of every page, light, dark and at a phone's width, into the ignored screenshots/:

    python -m benchmarks.screenshots

Small PNGs of at most 256 colours. The README's picture, docs/token-budget-light.png, is a copy of
the one of that name.
"""

import io
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from benchmarks.running_app import ROOT, app, chromium
from ui import prepare

FOLDER = ROOT / "screenshots"
MOST_BYTES = 150_000
SIZES = {"light": (1340, 1255), "dark": (1340, 1255), "phone": (390, 844)}
WITH_POOLS = "six_ways?v=1&ways=static,orca,vllm_v0,vllm_v1,tensorrt_llm,disaggregated"
PAIR = "token_budget?v=1&preset=four_chats_one_document&budget=512&pin=four_chats_one_document"


@dataclass(frozen=True)
class Shot:
    """A page's address, the file's name, what to wait for, and the height that shows it; a button
    that starts it (`start`); then a button to press, and the words that appear and are shown."""

    name: str
    path: str
    selector: str
    height: int | None = None
    press: str = ""
    appears: str = ""
    start: str = ""


SHOTS = (
    Shot("start", "", ".window", 840),
    Shot("token-budget", PAIR, ".canvas"),
    Shot("token-budget-first", "token_budget", ".canvas", 1160),
    Shot("two-phases", "two_phases", ".js-plotly-plot"),
    Shot("six-ways", "six_ways", ".six .way"),
    Shot("kv-memory", "kv_memory", ".map .grid"),
    Shot("disaggregation", "disaggregation", ".six .way"),
    Shot(
        "crossover",
        "disaggregation",
        ".six .way",
        760,
        "Compute the map",
        "Of 81 points disaggregated",
    ),
    Shot("six-ways-disaggregated", WITH_POOLS, ".way[data-engine=disaggregated]"),
    Shot("real-engine", "real_engine", ".js-plotly-plot", 1600, start="Run it"),
    Shot("reference", "reference", ".bs-words"),
    Shot("wrong-link", "token_budget?v=9&budget=abc", "h1", 560),
    Shot("no-such-page", "nope", "h1", 480),
)


def take(page: Page, url: str, shot: Shot, kind: str) -> Path:
    """One picture, reduced to 256 colours."""
    width, height = SIZES[kind]
    page.set_viewport_size({"width": width, "height": shot.height or height})
    page.goto(f"{url}/{shot.path}")
    if shot.start:
        page.get_by_role("button", name=shot.start).click(timeout=120_000)
    page.locator(shot.selector).first.wait_for(timeout=120_000)
    if shot.press:
        words, button = page.get_by_text(shot.appears), page.get_by_role("button", name=shot.press)
        words.or_(button).first.wait_for()
        if button.count():  # its result may be cached from the last picture
            button.click()
        words.wait_for(timeout=240_000)
        page.wait_for_timeout(1500)  # the content below makes room to scroll
        words.evaluate("words => words.scrollIntoView({block: 'start'})")
    page.wait_for_timeout(2500)
    full = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    file = FOLDER / f"{shot.name}-{kind}.png"
    for colors in (256, 128, 64):
        small = full.quantize(colors, dither=Image.Dither.NONE)
        small.save(file, optimize=True)
        if file.stat().st_size < MOST_BYTES:
            break
    return file


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    prepare.compile_all(wait=True)  # until then pages show only the runs that they open with
    with app() as (url, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox"], timeout=60_000
        )
        for kind in SIZES:
            scheme = "dark" if kind == "dark" else "light"
            context = browser.new_context(color_scheme=scheme, has_touch=kind == "phone")
            page = context.new_page()
            page.goto(url)
            page.locator(".window").first.wait_for(timeout=120_000)  # the server has run once
            for shot in SHOTS:
                file = take(page, url, shot, kind)
                print(f"{file.relative_to(ROOT)}  {file.stat().st_size / 1000:.0f} kB", flush=True)
            context.close()
        browser.close()


if __name__ == "__main__":
    main()

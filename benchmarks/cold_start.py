"""Times to the first picture of every page, with the compiled cache cold and warm, in Chromium:

    python -m benchmarks.cold_start

Measures the seconds of the set-up and until the server answers. Then every page is opened by its
address in a new browser: seconds until its frame is visible and until its first picture is drawn.
Cold: the cache is empty, so kernels are compiled at the same time.
"""

import os
import subprocess
import sys
import tempfile
import time

from playwright.sync_api import Browser, sync_playwright

from benchmarks.running_app import ROOT, app, chromium

FRAME = "[data-testid=stSidebarUserContent]"
PICTURES = {  # path of a page: what it draws first
    "": ".window",
    "token_budget": ".canvas",
    "two_phases": ".js-plotly-plot",
    "six_ways": ".six .way",
    "kv_memory": ".map .grid",
    "disaggregation": ".six .way",
    "real_engine": "h1",
    "reference": ".bs-words",
}
PATIENCE_MS = 300_000


def opened(browser: Browser, url: str, path: str) -> tuple[float, float]:
    """Seconds until the page's frame, and until its first picture."""
    page = browser.new_page(viewport={"width": 1340, "height": 900})
    begin = time.perf_counter()
    page.goto(f"{url}/{path}")
    page.locator(FRAME).wait_for(state="attached", timeout=PATIENCE_MS)
    frame_s = time.perf_counter() - begin
    page.locator(PICTURES[path]).first.wait_for(timeout=PATIENCE_MS)
    picture_s = time.perf_counter() - begin
    page.close()
    return frame_s, picture_s


def start(browser: Browser, state: str, folder: str) -> None:
    """One start of the server with the compiled code of `folder`, every page of it."""
    begin = time.perf_counter()
    environment = {"NUMBA_CACHE_DIR": folder}
    command = [sys.executable, "-m", "ui.prepare"]
    subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, check=True, stdout=subprocess.DEVNULL
    )
    set_up_s, begin = time.perf_counter() - begin, time.perf_counter()
    with app(**environment) as (url, _):
        answer_s = time.perf_counter() - begin
        print(f"{state}: set-up {set_up_s:.1f} s, the server answers after {answer_s:.1f} s")
        for path in PICTURES:
            frame_s, picture_s = opened(browser, url, path)
            print(f"  {path or 'start':<16} frame {frame_s:5.1f} s   picture {picture_s:5.1f} s")


def main() -> None:
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox"], timeout=60_000
        )
        start(browser, "cold", folder)
        command = [sys.executable, "-m", "ui.prepare", "--compile"]
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
        start(browser, "warm", folder)
        browser.close()


if __name__ == "__main__":
    main()

"""docs/adding-a-policy.md in the browser: its engine, added to a copy of the repository, is offered
by the pages and runs on them.

The copy is served as plain Python: nothing is compiled. The commands and the compiled dispatch are
tested in tests/sim/engines/test_adding_a_policy.py.
"""

import re
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Timeline, serving
from tests.conftest import ROOT
from tests.sim.engines.test_adding_a_policy import TOY, build

pytestmark = pytest.mark.browser

TITLE = "Shortest prompt first"
APP = (".streamlit", "docs", "examples", "gpu_backend", "pages", "static", "ui", "web")


@pytest.fixture(scope="module")
def with_engine(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the app with the added engine."""
    folder = tmp_path_factory.mktemp("app")
    build(folder)
    for name in APP:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "app.py", folder)
    with serving(folder, folder / "log.txt", PYTHONPATH=str(folder), NUMBA_DISABLE_JIT="1") as url:
        yield url


@pytest.fixture
def opened(browser: Browser, with_engine: str) -> Iterator[Page]:
    """A fresh page at the app's address; a script error fails the test."""
    context = browser.new_context(base_url=with_engine, viewport={"width": 1340, "height": 1250})
    context.set_default_timeout(60_000)  # plain Python is slow
    seen = Timeline(context.new_page())
    yield seen.page
    context.close()
    assert seen.errors == []


def test_six_ways_runs_it(opened: Page) -> None:
    opened.goto("/six_ways?v=1&workload=six_ways_all_short&ways=none")
    opened.get_by_role("button", name=TITLE).click(timeout=60_000)
    lane = opened.locator(f".way[data-engine={TOY}]")
    expect(lane).to_contain_text("TTFT p50", timeout=60_000)
    expect(lane).to_contain_text("shortest first, budget 512")
    opened.locator(".st-key-six_knobs").get_by_role("button", name=TITLE).click()
    budget = opened.get_by_label("max_num_batched_tokens").last
    budget.fill("256")
    budget.press("Enter")
    expect(lane).to_contain_text("shortest first, budget 256", timeout=60_000)
    expect(opened).to_have_url(re.compile(f"&ways={TOY}&{TOY}.max_num_batched_tokens=256$"))


def test_kv_memory_draws_its_blocks(opened: Page) -> None:
    opened.goto(f"/kv_memory?v=1&engine={TOY}")
    chosen = opened.get_by_role("radio", name=TITLE)
    expect(chosen).to_have_attribute("aria-checked", "true", timeout=60_000)
    opened.locator(".st-key-kv_map .map .grid canvas").wait_for()
    opened.get_by_text(f"{TITLE}'s rules").wait_for()
    opened.get_by_text("memory runs out").wait_for()


def test_the_real_engine_runs_it(opened: Page) -> None:
    opened.goto(f"/real_engine?v=1&policy={TOY}&beside=nothing")
    opened.get_by_role("button", name="Run it").click(timeout=60_000)
    opened.get_by_role("heading", name="Measured beside simulated").wait_for(timeout=120_000)
    opened.get_by_role("region", name=f"Figures of {TITLE}, budget").wait_for()
    expect(opened.locator(".six .way")).to_have_count(2, timeout=60_000)

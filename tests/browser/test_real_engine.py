"""The real engine in a real browser: the default to its comparison, cancel, two readers at once."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
A_MINUTE = 60_000  # ms: the limit from the click to the comparison


def engine(visit, path: str = "/real_engine", **options):
    """The page, ready to run."""
    opened = visit(path, timeline=False, **options)
    opened.page.get_by_role("button", name="Run it").wait_for(timeout=120_000)
    return opened


def press_run(opened) -> None:
    button = opened.page.get_by_role("button", name="Run it")
    button.focus()
    button.press("Enter")


def compared(opened, timeout: int = A_MINUTE) -> None:
    """The comparison stands: the lanes, the scatter, the tables."""
    page = opened.page
    page.get_by_role("heading", name="Measured beside simulated").wait_for(timeout=timeout)
    page.locator(".six .way").nth(3).wait_for()
    page.locator(".js-plotly-plot .main-svg").first.wait_for()


def test_the_default_runs_to_its_comparison(visit):
    opened = engine(visit)
    page = opened.page
    press_run(opened)
    page.locator(".bs-texts").get_by_text("chat 1", exact=True).wait_for(timeout=A_MINUTE)
    page.get_by_text("the text means nothing").wait_for()
    compared(opened)
    names = page.locator(".six .way-name b").all_inner_texts()
    assert names == ["Measured", "Simulated"] * 2
    assert page.get_by_role("region", name="Figures of vLLM V1, budget 64").count() == 1
    assert page.get_by_role("region", name="Figures of vLLM V1, budget 2,048").count() == 1
    page.get_by_text("Step times, simulated with a first guess").wait_for()
    calibrate = page.get_by_role("button", name="Calibrate on this run")
    if calibrate.is_enabled():
        calibrate.click()
        page.get_by_text("Fitted on").or_(page.get_by_text("Not calibrated:")).wait_for()
    else:
        page.get_by_text("Not on this run: the machine was not quiet").wait_for()
    assert opened.serious_faults() == []
    side = page.get_by_test_id("stSidebar")
    side.get_by_role("link", name="KV memory").click()
    page.get_by_role("heading", name="KV memory").wait_for()
    side.get_by_role("link", name="Real engine").click()
    compared(opened)


def test_a_run_is_cancelled_in_the_middle(visit):
    opened = engine(visit, "/real_engine?v=1&run_model=random:smollm2-135m")
    page = opened.page
    press_run(opened)
    page.locator(".bs-texts dt").first.wait_for(timeout=120_000)
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled after").wait_for(timeout=A_MINUTE)
    assert page.get_by_role("button", name="Run it").is_enabled()
    assert page.get_by_role("heading", name="Measured beside simulated").count() == 0


def test_two_readers_at_once_both_get_their_run(visit):
    first, second = engine(visit), engine(visit)
    press_run(first)
    first.page.get_by_role("button", name="Cancel").wait_for()
    press_run(second)
    second.page.get_by_text("before you").wait_for(timeout=A_MINUTE)
    compared(first, 2 * A_MINUTE)
    compared(second, 2 * A_MINUTE)


def test_a_scenario_comes_along_from_the_token_budget(visit):
    opened = visit("/token_budget?v=1&preset=burst&budget=1024")
    page = opened.page
    page.get_by_role("link", name="Take this scenario there").click()
    page.get_by_text("vLLM V1, budget 1,024").first.wait_for(timeout=A_MINUTE)
    expect(page).to_have_url(re.compile("workload=yours"))
    expect(page).to_have_url(re.compile("preset=burst&budget=1024"))
    chosen = page.get_by_role("radio", name="Your scenario")
    assert chosen.get_attribute("aria-checked") == "true"


def test_choices_stand_in_the_address_and_come_back(visit):
    opened = engine(visit)
    page = opened.page
    page.get_by_role("radio", name="30 requests, Poisson arrivals").click()
    page.wait_for_url("**/real_engine?v=1&workload=poisson")
    page.get_by_role("button", name="Knobs of vLLM V1").click()
    budget = page.get_by_label("max_num_batched_tokens")
    budget.fill("128")
    budget.press("Enter")
    page.wait_for_url("**workload=poisson&vllm_v1.max_num_batched_tokens=128")
    again = engine(visit, f"/{page.url.split('/', 3)[3]}")
    again.page.get_by_text("vLLM V1, budget 128").wait_for()


def test_a_broken_address_gets_a_page(visit):
    opened = visit("/real_engine?v=1&run_model=/etc", timeline=False)
    opened.page.get_by_text("This link cannot be followed as it stands").wait_for()
    opened.page.get_by_role("button", name="Open the rest of it").click()
    opened.page.get_by_role("button", name="Run it").wait_for(timeout=A_MINUTE)


@pytest.mark.parametrize("options", [{"color_scheme": "light"}, {"color_scheme": "dark"}, PHONE])
def test_axe_finds_no_serious_fault_and_nothing_scrolls_sideways(visit, options):
    opened = engine(visit, **options)
    for heading in ("What a small model can show, and what not", "Your own server"):
        opened.page.get_by_text(heading, exact=True).click()
    opened.page.get_by_text("Off on this server").wait_for()
    assert opened.serious_faults() == []
    for place in ("document.documentElement", "document.querySelector('.stMain')"):
        wide, seen = opened.page.evaluate(f"[{place}.scrollWidth, {place}.clientWidth]")
        assert wide <= seen

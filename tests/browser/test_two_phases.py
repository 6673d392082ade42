"""Two phases in a real browser: mouse, keyboard, axe, a phone."""

import pytest

pytestmark = pytest.mark.browser


def standing(visit, **options):
    """The page with its first figure drawn."""
    opened = visit("/two_phases", timeline=False, **options)
    opened.page.locator(".js-plotly-plot").first.wait_for(timeout=120_000)
    opened.page.get_by_text("Two GPUs side by side").wait_for()
    return opened


def test_the_keyboard_moves_a_dial_and_the_mouse_chooses_a_gpu(visit):
    page = standing(visit).page
    page.get_by_text("2,048 prompt tokens take").wait_for()
    dial = page.get_by_role("slider").first
    dial.focus()
    dial.press("ArrowRight")
    page.get_by_text("4,096 prompt tokens take").wait_for()
    page.get_by_role("combobox").nth(1).click()
    page.get_by_role("option", name="RTX 4090").click()
    page.get_by_text("on NVIDIA GeForce RTX 4090").first.wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(visit, scheme: str):
    opened = standing(visit, color_scheme=scheme)
    assert opened.serious_faults() == []


def test_a_phone_has_no_sideways_scroll(visit):
    opened = standing(visit, viewport={"width": 390, "height": 844}, has_touch=True)
    wide, seen = opened.page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert wide <= seen

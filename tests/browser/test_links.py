"""Addresses: one opens the same bytes elsewhere, a hostile one a clear page, Back goes back."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Timeline

pytestmark = pytest.mark.browser

PAIR = "/token_budget?v=1&preset=four_chats_one_document&budget=512&pin=four_chats_one_document"
MINE = b"arrival_s,prompt_tokens,output_tokens\n0.0,100,5\n0.5,2000,5\n1.0,20,5\n"


def query(opened: Timeline) -> dict[str, list[str]]:
    return parse_qs(urlsplit(opened.page.url).query)


def test_a_link_gives_the_same_bytes(visit):
    first = visit("/token_budget")
    first.press("budget 512")
    first.until_sentence("in 16 chunks")
    first.budget.focus()
    first.page.keyboard.press("ArrowLeft")
    first.until_sentence("In 2 chunks of at most 7,164")
    first.stage.focus()
    for _ in range(5):
        first.page.keyboard.press("ArrowRight")
    first.page.wait_for_function("location.search.includes('step=')")
    first.page.wait_for_function("location.search.includes('7168')")
    step, url = first.step, urlsplit(first.page.url)
    assert len(url.query) < 1500
    second = visit(f"{url.path}?{url.query}")
    second.until("bs.dataset.packet === a", first.packet)
    assert second.step == step
    assert second.sentence == first.sentence


def test_a_window_of_a_large_run_is_the_same(visit):
    first = visit("/token_budget?v=1&preset=code_completion")
    first.page.get_by_role("slider", name="Window on the whole run").focus()
    before = first.packet
    first.page.keyboard.press("Home")
    first.until("bs.dataset.packet !== a", before)
    first.stage.focus()
    first.page.keyboard.press("ArrowRight")
    first.page.wait_for_function("location.search.includes('view=')")
    url = urlsplit(first.page.url)
    second = visit(f"{url.path}?{url.query}")
    second.until("bs.dataset.packet === a", first.packet)


def test_a_drag_is_one_entry_and_back_undoes_it(timeline: Timeline):
    page = timeline.page
    entries = page.evaluate("history.length")
    box = timeline.budget.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.87 * box["width"], middle)
    page.mouse.down()
    for share in (0.7, 0.6, 0.5, 0.4, 0.3):
        before = timeline.budget.get_attribute("aria-valuetext") or ""
        page.mouse.move(box["x"] + share * box["width"], middle)
        expect(timeline.budget).not_to_have_attribute("aria-valuetext", before)
    page.mouse.up()
    budget = (timeline.budget.get_attribute("aria-valuetext") or "").split()[0].replace(",", "")
    expect(page).to_have_url(re.compile(rf"[?&]budget={budget}\b"))
    timeline.at_rest()
    assert page.evaluate("history.length") == entries + 1
    page.go_back()
    timeline.until_sentence("all streams freeze for")
    assert timeline.budget.get_attribute("aria-valuetext") == "8,192 tokens per step"


def test_the_link_is_copied(visit):
    opened = visit(PAIR, permissions=["clipboard-read", "clipboard-write"])
    opened.press("Copy link")
    opened.page.get_by_role("button", name="Copied").wait_for()
    text = opened.page.evaluate("navigator.clipboard.readText()")
    assert "budget=512" in text
    assert "step=" in text
    assert len(urlsplit(text).query) < 1500


def test_a_hostile_link_gets_a_clear_page(visit):
    address = "/token_budget?v=1&preset=burst&gpu=<script>alert(1)</script>&budget=1e9&zzz=1"
    opened = visit(address, timeline=False)
    page = opened.page
    page.get_by_text("This link cannot be followed as it stands").wait_for()
    assert page.get_by_text("“zzz” means nothing here").is_visible()
    assert page.get_by_text("budget must be a whole number from 16 to 16,384").is_visible()
    assert page.locator("main script").count() == 0
    page.get_by_role("button", name="Open the rest of it").click()
    opened.stage.wait_for()
    opened.until_sentence("36 requests")


@pytest.mark.parametrize("address", ["v=99", "preset=" + "x" * 6000, "v=1&v=1", "budget=5"])
def test_other_links_that_cannot_be_followed(visit, address: str):
    opened = visit(f"/token_budget?{address}", timeline=False)
    opened.page.get_by_text("This link cannot be followed as it stands").wait_for()
    opened.page.get_by_role("button", name="Open the page as it starts").click()
    opened.stage.wait_for()
    opened.until_sentence("all streams freeze for")


def test_an_upload_is_asked_for_elsewhere(visit):
    first = visit("/token_budget")
    preset = first.packet
    first.preset("Your trace")
    file = {"name": "mine.csv", "mimeType": "text/csv", "buffer": MINE}
    first.page.locator("input[type=file]").set_input_files(file)
    first.page.wait_for_function("location.search.includes('sha256=')")
    first.stage.wait_for()
    first.until("bs.dataset.packet !== a", preset)
    drawn = first.packet  # read while the page is in front
    url = urlsplit(first.page.url)
    second = visit(f"{url.path}?{url.query}", timeline=False)
    second.page.get_by_text("This link is about the file mine.csv").wait_for()
    other = {"name": "mine.csv", "mimeType": "text/csv", "buffer": MINE + b"2.0,5,5\n"}
    second.page.locator("input[type=file]").set_input_files(other)
    second.page.get_by_text("This is another file than the link's").wait_for()
    second.page.locator("input[type=file]").set_input_files(file)
    second.stage.wait_for()
    second.until("bs.dataset.packet === a", drawn)


def test_a_teacher_leaves_two_controls(visit):
    opened = visit("/token_budget?v=1&preset=burst&lock=1&show=budget,play&scale=1.5")
    assert opened.budget.is_visible()
    assert not opened.cap.is_visible()
    page = opened.page
    assert page.get_by_role("button", name="Play", exact=True).is_visible()
    for name in ("More settings", "Copy link", "Pin this run"):
        assert page.get_by_role("button", name=name).filter(visible=True).count() == 0
    assert page.get_by_role("radio").count() == 0
    opened.budget.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("location.search.includes('budget=')")
    assert query(opened)["show"] == ["budget,play"]


def test_scale_keeps_the_pointer_true(visit):
    """A click at a place of the larger picture moves the head to that place."""
    opened = visit("/token_budget?v=1&preset=four_chats_one_document&scale=1.5")
    box = opened.stage.bounding_box()
    opened.page.mouse.click(box["x"] + 0.999 * box["width"] - 30, box["y"] + 60)
    share = opened.step / int(opened.stage.get_attribute("aria-valuemax"))
    assert share > 0.5


def test_embedded_in_a_course(visit):
    opened = visit("/token_budget?v=1&preset=burst&embed=true")
    assert opened.page.get_by_test_id("stHeader").filter(visible=True).count() == 0
    opened.budget.focus()
    opened.page.keyboard.press("ArrowLeft")
    opened.page.wait_for_function("location.search.includes('budget=')")
    assert query(opened)["embed"] == ["true"]


def test_the_scenario_follows_from_page_to_page(visit):
    opened = visit(PAIR)
    opened.until_sentence("In 16 chunks")
    packet = opened.packet
    side = opened.page.get_by_test_id("stSidebar")
    side.get_by_role("link", name="Reference").click()
    opened.page.get_by_role("tab", name="Terms").wait_for()
    side.get_by_role("link", name="Token budget").click()
    opened.stage.wait_for()
    opened.until("bs.dataset.packet === a", packet)

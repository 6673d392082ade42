"""The frame and the other pages: start, reference, wrong addresses, keyboard, accessibility."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

PAGES = ("/", "/token_budget", "/reference")
PINNED = "/token_budget?v=1&preset=burst&budget=512&pin=burst"


def ready(opened) -> None:
    """Whatever the page loads later stands."""
    opened.page.get_by_test_id("stMainBlockContainer").get_by_role("heading").first.wait_for()
    opened.page.wait_for_function("!document.querySelector('.skeleton')")
    opened.at_rest()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", [*PAGES, PINNED, "/nope", "/token_budget?v=99"])
def test_axe_finds_no_serious_fault(visit, path: str, scheme: str):
    opened = visit(path, timeline=False, color_scheme=scheme)
    ready(opened)
    if path == PINNED:
        opened.stage.wait_for()
        opened.page.get_by_text("Take home: files, trace, flags").click()
        opened.page.get_by_role("button", name="Scenario", exact=True).wait_for()
    assert opened.serious_faults() == []


@pytest.mark.parametrize("path", PAGES)
def test_a_phone_has_no_sideways_scroll(visit, path: str):
    opened = visit(path, timeline=False, viewport={"width": 390, "height": 844}, has_touch=True)
    ready(opened)
    for place in ("document.documentElement", "document.querySelector('.stMain')"):
        wide, seen = opened.page.evaluate(f"[{place}.scrollWidth, {place}.clientWidth]")
        assert wide <= seen


@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_asked_of_other_servers(visit, app_url: str, path: str):
    opened = visit("/", timeline=False)
    asked: list[str] = []
    opened.page.context.on("request", lambda request: asked.append(request.url))
    opened.page.goto(app_url + path)
    ready(opened)
    opened.page.wait_for_load_state("networkidle")
    hosts = {urlsplit(url).netloc for url in asked if not url.startswith(("data:", "blob:"))}
    assert hosts == {urlsplit(app_url).netloc}


def test_a_wrong_address_gets_a_way_back(visit):
    opened = visit("/nope", timeline=False)
    opened.page.get_by_text("There is no such page").wait_for()
    assert opened.page.get_by_text("Page not found").count() == 0
    main = opened.page.get_by_test_id("stMainBlockContainer")
    main.get_by_role("link", name="Token budget").click()
    opened.stage.wait_for()


def test_the_way_through_the_pages(visit):
    """Every page of the navigation, by the link to the next one, and back to the first."""
    opened = visit("/", timeline=False)
    path, side = opened.page.locator(".st-key-path"), opened.page.get_by_test_id("stSidebar")
    ready(opened)
    side.get_by_role("link", name="Reference").wait_for()
    titles = side.get_by_role("link").all_inner_texts()
    assert len(titles) >= len(PAGES)
    for place, title in enumerate(titles[1:], start=2):
        path.get_by_role("link", name=f"Next: {title}").click()
        path.get_by_text(f"{place} of {len(titles)}").wait_for()
    path.get_by_role("link", name="Back to the start").click()
    opened.page.get_by_role("button", name="Send an 8,000-token document").wait_for()


def test_the_chats_freeze_and_are_cured(visit):
    opened = visit("/", timeline=False)
    page = opened.page
    page.get_by_role("button", name="Send an 8,000-token document").click()
    page.get_by_text("no token for").first.wait_for()
    expect(page.locator(".window.frozen")).to_have_count(4)
    page.locator(".told").get_by_text("all chats freeze").wait_for()
    whole = page.locator(".badge").first.inner_text()
    page.get_by_role("radio", name="Chunks of 512").click()
    page.get_by_text("on its way").wait_for()
    page.get_by_text("first token came after").wait_for()
    chunked = page.locator(".badge").first.inner_text()
    assert whole.startswith("longest wait ")
    assert chunked.startswith("longest wait ")
    assert int(chunked.split()[2]) < 0.2 * int(whole.split()[2])


def test_the_chats_obey_reduced_motion(visit):
    opened = visit("/", timeline=False, reduced_motion="reduce")
    page = opened.page
    page.get_by_role("button", name="Send an 8,000-token document").wait_for()
    before = page.locator(".answer").first.inner_text()
    page.wait_for_timeout(300)
    assert page.locator(".answer").first.inner_text() == before
    page.get_by_role("button", name="Send an 8,000-token document").click()
    page.locator(".told").get_by_text("all chats freeze").wait_for()
    expect(page.locator(".badge").first).to_contain_text("longest wait")


def test_definitions_on_focus_and_tap(visit):
    opened = visit("/token_budget", has_touch=True)
    term = opened.page.locator(".bs-term").filter(has_text="Decodes")
    term.focus()
    assert term.get_by_role("tooltip").is_visible()
    legend = opened.page.locator(".legend .term").filter(has_text="gap above")
    legend.tap()
    assert "Inter-token latency" in legend.get_by_role("tooltip").inner_text()


def test_the_reference_has_its_texts(visit):
    opened = visit("/reference", timeline=False)
    page = opened.page
    for name, words in (
        ("Terms", "Inter-token latency"),
        ("Metrics", "Over the requests"),
        ("Engines", "EQUAL_PROGRESS"),
        ("Common claims", "It raises the capacity under a latency limit"),
        ("Sources", "Sarathi-Serve"),
    ):
        page.get_by_role("tab", name=name).click()
        page.get_by_text(words).filter(visible=True).first.wait_for()


def test_the_keyboard_alone_is_enough(visit):
    """Preset, dial, play, step, inspect, pin, download: by Tab, arrows, Space and Enter."""
    opened = visit("/token_budget")
    page, keys = opened.page, opened.page.keyboard

    def tab_to(script: str, most: int = 60) -> None:
        for _ in range(most):
            keys.press("Tab")
            if page.evaluate(f"""() => {{ let e = document.activeElement;
                while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;
                return Boolean(e && ({script})); }}"""):
                return
        raise AssertionError(f"Tab does not reach {script}")

    tab_to("e.getAttribute('role') === 'radio'")
    keys.press("ArrowRight")
    keys.press("Enter")
    opened.until("bs.querySelector('.settings').textContent.includes('H100')")
    tab_to("e.id === 'bs-budget'")
    keys.press("ArrowLeft")
    opened.until("bs.querySelector('.dial-head b').textContent === '7,168'")
    tab_to("e.textContent === 'Pin this run'")
    keys.press("Enter")
    opened.until("bs.querySelector('.compare b') !== null")
    tab_to("e.getAttribute('aria-label') === 'Play'")
    keys.press("Space")
    page.get_by_role("button", name="Pause").wait_for()
    keys.press("Space")
    tab_to("e.getAttribute('aria-label') === 'Play head'")
    before = opened.step
    keys.press("ArrowRight")
    assert opened.step == before + 1
    tab_to("e.textContent === 'Save picture'")
    with page.expect_download() as picture:
        keys.press("Enter")
    assert picture.value.suggested_filename == "batchscope.png"
    tab_to("e.textContent === 'Pinned'")
    keys.press("Enter")
    opened.until("bs.querySelector('.why .pair [aria-pressed=true]').textContent === 'Pinned'")
    tab_to("e.tagName === 'SUMMARY' && e.textContent.includes('Take home')")
    keys.press("Enter")
    page.get_by_role("button", name="Steps", exact=True).wait_for()
    opened.at_rest()
    tab_to("e.textContent.trim() === 'Scenario'")
    with page.expect_download() as scenario:
        keys.press("Enter")
    assert scenario.value.suggested_filename == "scenario.json"

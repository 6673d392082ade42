"""Disaggregation in a real browser: the pools' lanes, choices, the map, axe, a phone."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


def pools(visit, path: str = "/disaggregation", **options):
    """The page, standing."""
    opened = visit(path, timeline=False, **options)
    opened.page.locator(".six .way").first.wait_for(timeout=120_000)
    opened.page.get_by_role("heading", name="Configuration files").wait_for()
    opened.page.wait_for_function("!document.querySelector('.skeleton')")
    return opened


def head(opened):
    return opened.page.get_by_role("slider", name="Play head")


def moment(opened) -> int:
    return int(head(opened).get_attribute("aria-valuenow"))


def painted(opened, color: tuple[int, int, int]) -> int:
    """Pixels of about this colour on the canvas of the lines between the pools."""
    return opened.page.locator(".six canvas.links").evaluate(
        """(canvas, color) => {
            const g = canvas.getContext('2d');
            const { data } = g.getImageData(0, 0, canvas.width, canvas.height);
            let found = 0;
            for (let i = 0; i < data.length; i += 4)
                found += data[i + 3] > 90 && color.every((c, k) => Math.abs(data[i + k] - c) < 24);
            return found;
        }""",
        color,
    )


def test_kv_is_drawn_from_lane_to_lane_on_one_clock(visit):
    opened = pools(visit)
    assert opened.page.locator(".way-name b").all_inner_texts() == [
        "Prefill pool", "Decode pool", "Co-located",
    ]  # fmt: skip
    assert painted(opened, (230, 159, 0)) > 500
    head(opened).press("End")
    assert moment(opened) == int(head(opened).get_attribute("aria-valuemax"))
    assert set(opened.page.locator(".now").all_inner_texts()) == {"all done"}
    head(opened).press("Home")
    assert moment(opened) == 0
    head(opened).press("ArrowRight")
    first = moment(opened)
    assert first > 0
    head(opened).press("ArrowRight")
    assert moment(opened) > first


def test_unused_kv_leaves_no_line(visit):
    opened = pools(visit, "/disaggregation?v=1&pools=pd_miswired")
    opened.page.get_by_text("prefilled twice").first.wait_for()
    assert painted(opened, (230, 159, 0)) == 0


def test_the_lanes_as_a_table(visit):
    opened = pools(visit)
    opened.page.get_by_role("button", name="Table", exact=True).click()
    rows = opened.page.get_by_role("region", name="The lanes as a table").locator("tbody tr")
    assert rows.count() == 3 * 16
    assert "handed over" in rows.nth(16).inner_text()


def test_choices_come_back_with_the_reader_and_stand_in_the_address(visit):
    opened = pools(visit)
    page, side = opened.page, opened.page.get_by_test_id("stSidebar")
    page.get_by_role("radio", name="Splitwise").click()
    page.get_by_text("After Splitwise (ISCA'24)").wait_for()
    page.get_by_label("Prefill servers").fill("2")
    page.get_by_label("Prefill servers").press("Enter")
    page.wait_for_url("**/disaggregation?v=1&pools=pd_splitwise&pd.prefill=2")
    address = page.url
    side.get_by_role("link", name="KV memory").click()
    page.locator(".st-key-kv_map .map .grid canvas").wait_for(timeout=120_000)
    side.get_by_role("link", name="Disaggregation").click()
    page.get_by_text("After Splitwise (ISCA'24)").wait_for()
    page.locator(".six .way").first.wait_for()
    assert page.get_by_label("Prefill servers").input_value() == "2"
    expect(page).to_have_url(address)


def test_pools_are_refused_and_the_lane_says_why(visit):
    opened = pools(visit, "/disaggregation?v=1&pd.store_gb=9999")
    opened.page.get_by_text("Disaggregated serving is refused").first.wait_for()
    assert "at most 4,000,000 are simulated" in opened.page.locator(".way .refused").inner_text()
    assert opened.page.locator(".way").count() == 2
    assert opened.serious_faults() == []


def test_the_map_is_computed_cancelled_and_finished(visit):
    opened = pools(visit, "/disaggregation?v=1&pd.prompt=1024&pd.output=8&pd.requests=96")
    page = opened.page
    page.get_by_role("button", name="Compute the map").click()
    page.get_by_role("button", name="Cancel").click(timeout=30_000)
    page.get_by_text("Cancelled.").wait_for(timeout=60_000)
    page.get_by_role("button", name="Compute the map").click()
    page.locator(".st-key-pd_crossover .js-plotly-plot").wait_for(timeout=120_000)
    page.get_by_text("Of 81 points").wait_for(timeout=240_000)
    page.get_by_role("button", name="Cancel").wait_for(state="detached", timeout=60_000)
    assert opened.serious_faults() == []


def test_files_are_there_to_take_home(visit):
    opened = pools(visit)
    with opened.page.expect_download() as waiting:
        opened.page.get_by_role("button", name="vLLM script").click()
    assert "kv_producer" in waiting.value.path().read_text()


def test_the_row_of_six_ways_gives_every_way_as_many_gpus(visit):
    opened = visit("/six_ways?v=1&ways=vllm_v1,disaggregated", timeline=False)
    page = opened.page
    page.locator(".way[data-engine=disaggregated]").wait_for(timeout=120_000)
    page.get_by_text("2 GPUs, 2 servers").wait_for()
    page.get_by_text("on 2 servers of NVIDIA H100").wait_for()
    page.locator(".six").get_by_text("KV transfer").wait_for()
    assert page.locator(".way").count() == 2


def test_no_label_is_cut_off_in_the_popover_of_the_load(visit):
    opened = pools(visit)
    opened.page.get_by_role("button", name="Load and limits", exact=True).click()
    labels = opened.page.get_by_test_id("stPopoverBody").get_by_test_id("stWidgetLabel")
    labels.get_by_text("Reject early requests that would miss a limit").wait_for()
    wide = labels.evaluate_all(
        """found => found.flatMap(label => [label, ...label.querySelectorAll('*')])
            .filter(e => e.clientWidth && e.scrollWidth > e.clientWidth + 1)
            .map(e => e.innerText)"""
    )
    assert wide == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(visit, scheme: str):
    opened = pools(visit, color_scheme=scheme)
    for name in ("Servers", "Link", "Load and limits"):
        opened.page.get_by_role("button", name=name, exact=True).click()
        opened.page.get_by_test_id("stPopoverBody").wait_for()
        assert opened.serious_faults() == []
        opened.page.keyboard.press("Escape")
        opened.page.get_by_test_id("stPopoverBody").wait_for(state="detached")


def test_a_phone_has_no_sideways_scroll(visit):
    opened = pools(visit, **PHONE)
    for place in ("document.documentElement", "document.querySelector('.stMain')"):
        wide, seen = opened.page.evaluate(f"[{place}.scrollWidth, {place}.clientWidth]")
        assert wide <= seen

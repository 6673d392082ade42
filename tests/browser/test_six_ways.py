"""Six ways to batch and KV memory in a real browser: mouse, keyboard, axe, a phone."""

import re

import pytest
from playwright.sync_api import expect

from tests.conftest import ROOT

pytestmark = pytest.mark.browser

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
FIVE, EIGHT = 5, 8


def lanes(visit, path: str = "/six_ways", **options):
    """The page of the lanes, standing."""
    opened = visit(path, timeline=False, **options)
    opened.page.locator(".six .way").first.wait_for(timeout=120_000)
    opened.page.get_by_text("The trade-offs").wait_for()
    opened.page.wait_for_function("!document.querySelector('.skeleton')")
    return opened


def memory(visit, path: str = "/kv_memory", **options):
    """The page of the block map, standing."""
    opened = visit(path, timeline=False, **options)
    the_map(opened).locator(".grid canvas").wait_for(timeout=120_000)
    prefixes(opened).get_by_role("heading", name="Radix tree").wait_for()
    opened.page.wait_for_function("!document.querySelector('.skeleton')")
    return opened


def the_map(opened):
    return opened.page.locator(".st-key-kv_map .map")


def prefixes(opened):
    return opened.page.locator(".st-key-kv_prefix_map .map")


def head(opened):
    return opened.page.get_by_role("slider", name="Play head")


def moment(opened) -> int:
    return int(head(opened).get_attribute("aria-valuenow"))


def step(opened) -> int:
    return int(the_map(opened).get_by_role("slider", name="Step", exact=True).input_value())


def test_the_head_follows_mouse_and_keys(visit):
    opened = lanes(visit)
    box = head(opened).bounding_box()
    opened.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    middle = moment(opened)
    assert middle > 100
    opened.page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 40)
    opened.page.mouse.down()
    opened.page.mouse.move(box["x"] + box["width"] / 8, box["y"] + 40, steps=4)
    opened.page.mouse.up()
    assert moment(opened) < middle / 2
    before = moment(opened)
    head(opened).press("ArrowRight")
    assert moment(opened) > before
    head(opened).press("ArrowLeft")
    assert moment(opened) <= before
    head(opened).press("End")
    assert moment(opened) == int(head(opened).get_attribute("aria-valuemax"))
    assert set(opened.page.locator(".now").all_inner_texts()) == {"all done"}
    head(opened).press("Home")
    assert moment(opened) == 0


def test_it_plays_and_pauses(visit):
    opened = lanes(visit)
    head(opened).press("Home")
    opened.page.get_by_role("button", name="Play", exact=True).click()
    opened.page.get_by_role("button", name="Pause", exact=True).wait_for()
    expect(opened.page.locator(".six .readout")).not_to_have_text("0.0 ms")
    head(opened).press(" ")
    opened.page.get_by_role("button", name="Play", exact=True).wait_for()
    assert moment(opened) > 0


def test_reduced_motion_jumps(visit):
    opened = lanes(visit, reduced_motion="reduce")
    before = moment(opened)
    opened.page.get_by_role("button", name="Play", exact=True).click()
    assert moment(opened) > before
    assert opened.page.get_by_role("button", name="Pause", exact=True).count() == 0


def test_presets_ways_and_knobs_change_the_lanes(visit):
    opened = lanes(visit)
    page = opened.page
    assert page.locator(".way").count() == FIVE
    page.get_by_role("button", name="SGLang", exact=True).first.click()
    page.locator(".way[data-engine=sglang]").wait_for()
    page.get_by_role("radio", name="Head-of-line: 32 streams, one prompt").click()
    page.get_by_text("makes the long prompt wait").wait_for()
    page.locator(".st-key-six_knobs").get_by_role("button", name="vLLM V1").click()
    budget = page.get_by_label("max_num_batched_tokens").last
    budget.fill("32")
    budget.press("Enter")
    page.locator(".way .refused").wait_for()
    page.get_by_text("vLLM V1 does not start: max_num_batched_tokens").wait_for()


def test_the_lanes_as_a_table(visit):
    opened = lanes(visit)
    opened.page.get_by_role("button", name="Table", exact=True).click()
    rows = opened.page.get_by_role("region", name="The lanes as a table").locator("tbody tr")
    assert rows.count() == FIVE * EIGHT


def test_the_map_follows_mouse_and_keys(visit):
    opened = memory(visit)
    shown = the_map(opened)
    shown.locator(".chip", has_text="preempted").wait_for()
    at = step(opened)
    shown.get_by_role("button", name="Step forward", exact=True).click()
    assert step(opened) == at + 1
    slider = shown.get_by_role("slider", name="Step", exact=True)
    slider.press("ArrowLeft")
    assert step(opened) == at
    slider.press("Home")
    assert step(opened) == 0
    shown.get_by_role("radio", name="2 essay 2").click()
    shown.get_by_text("essay 2 holds no block.").wait_for()
    shown.get_by_role("radio", name="2 essay 2").press("ArrowRight")
    shown.get_by_text("essay 3 holds no block.").wait_for()
    shown.locator(".grid canvas").click(position={"x": 10, "y": 10})
    shown.locator(".block-table p", has_text="essay 1 holds").wait_for()
    shown.get_by_role("button", name="Play", exact=True).click()
    expect(slider).not_to_have_value("0")
    shown.get_by_role("button", name="Pause", exact=True).click()
    assert step(opened) > 0


def test_chains_and_tree_follow_the_head(visit):
    """At first one chat without a hit; later its followers find eight blocks of its."""
    opened = memory(visit)
    shown = prefixes(opened)
    slider = shown.get_by_role("slider", name="Step", exact=True)
    slider.press("Home")
    assert shown.locator(".chain").all_inner_texts()[0].startswith("chat 1, nothing found")
    assert shown.locator(".chain").count() == 1
    assert shown.locator(".hit").count() == 0
    while not shown.locator(".hit").count():
        slider.press("ArrowRight")
    assert shown.locator(".hit").count() == EIGHT
    assert shown.locator(".tree > ul > li").first.inner_text().startswith("8 blocks")
    button = shown.get_by_role("button", name="Hash chains and tree")
    button.press("Enter")
    assert shown.get_by_role("heading", name="Radix tree").is_hidden()


def test_every_engine_has_its_map(visit):
    opened = memory(visit)
    for name, words in (
        ("Orca", "A request gets a slot"),
        ("SGLang", "beside what the others are expected"),
        ("TensorRT-LLM", "when its max_tokens fit as well"),
        ("Sarathi-Serve", "1% of the pool"),
    ):
        opened.page.get_by_role("radio", name=name, exact=True).click()
        the_map(opened).locator(".counts", has_text=words).wait_for()
    opened.page.get_by_role("radio", name="vLLM V0", exact=True).click()
    opened.page.get_by_role("button", name="Rules").click()
    opened.page.get_by_label("preemption_mode").click()
    opened.page.get_by_role("option", name="swap").click()
    opened.page.get_by_text("goes to the host").wait_for()
    opened.page.wait_for_url("**/kv_memory?v=1&engine=vllm_v0&preempt_by=swap")


def test_choices_come_back_with_the_reader(visit):
    opened = lanes(visit)
    page, side = opened.page, opened.page.get_by_test_id("stSidebar")
    page.get_by_role("radio", name="All short").click()
    page.get_by_role("button", name="SGLang", exact=True).first.click()
    page.locator(".way[data-engine=sglang]").wait_for()
    page.wait_for_url("**/six_ways?v=1&workload=six_ways_all_short&ways=*sglang")
    address = page.url
    side.get_by_role("link", name="KV memory").click()
    the_map(opened).locator(".grid canvas").wait_for()
    side.get_by_role("link", name="Six ways to batch").click()
    page.locator(".way[data-engine=sglang]").wait_for()
    expect(page).to_have_url(address)
    again = lanes(visit, f"/{address.split('/', 3)[3]}")
    again.page.locator(".way[data-engine=sglang]").wait_for()
    assert again.page.get_by_role("radio", name="All short").get_attribute("aria-checked") == "true"


def test_back_takes_the_last_choice_back(visit):
    opened = memory(visit)
    page = opened.page
    page.get_by_role("radio", name="Orca", exact=True).click()
    page.wait_for_url("**/kv_memory?v=1&engine=orca")
    page.go_back()
    the_map(opened).locator(".counts", has_text="Full-prompt gate").wait_for()
    expect(page).not_to_have_url(re.compile("engine"))


def test_a_scenario_comes_along_from_the_token_budget(visit):
    opened = visit("/token_budget?v=1&preset=burst&budget=1024")
    page, side = opened.page, opened.page.get_by_test_id("stSidebar")
    side.get_by_role("link", name="Six ways to batch").click()
    page.get_by_text("The trade-offs").wait_for(timeout=120_000)
    page.get_by_role("radio", name="Your scenario").click()
    page.get_by_text("budget 1,024").first.wait_for()
    page.get_by_text("on NVIDIA GeForce RTX 4090").first.wait_for()
    expect(page).to_have_url(re.compile("workload=yours"))
    expect(page).to_have_url(re.compile("preset=burst&budget=1024"))


def test_nothing_came_along_and_a_trace_is_taken(visit):
    opened = visit("/six_ways?v=1&workload=yours", timeline=False)
    page = opened.page
    page.get_by_text("No scenario yet.").wait_for()
    page.locator("input[type=file]").set_input_files(
        ROOT / "tests" / "sim" / "workload" / "data" / "azure.csv"
    )
    page.get_by_text("The trade-offs").wait_for(timeout=120_000)
    page.get_by_text("rows taken").wait_for()
    page.locator(".six .way").first.wait_for()
    assert page.locator(".six .way").count() == FIVE
    assert opened.serious_faults() == []


@pytest.mark.parametrize("path", ["/six_ways?v=1&tp=3", "/kv_memory?v=1&engine=%3Cb%3E"])
def test_a_broken_address_gets_a_page(visit, path: str):
    opened = visit(path, timeline=False)
    opened.page.get_by_text("This link cannot be followed as it stands").wait_for()
    opened.page.get_by_role("button", name="Open the rest of it").click()
    opened.page.locator(".bs").first.wait_for(timeout=120_000)


def test_the_thrash_is_cured_by_one_click(visit):
    opened = memory(visit)
    page = opened.page
    page.get_by_role("radio", name="Thrash: too small, gate off").click()
    page.get_by_text("Shown: gate off").wait_for()
    page.get_by_role("button", name="Turn the full-prompt gate on").click()
    page.get_by_text("Shown: gate on").wait_for()
    the_map(opened).locator(".counts", has_text="gate on").wait_for()


def test_the_crossover_follows_the_choice(visit):
    opened = memory(visit)
    opened.page.get_by_text("Only in part.").wait_for()
    opened.page.get_by_role("radio", name="a step of its own").click()
    opened.page.get_by_text("It does not hold here.").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("opening", [lanes, memory])
def test_axe_finds_no_serious_fault(visit, opening, scheme: str):
    opened = opening(visit, color_scheme=scheme)
    assert opened.serious_faults() == []


@pytest.mark.parametrize("opening", [lanes, memory])
def test_a_phone_has_no_sideways_scroll(visit, opening):
    opened = opening(visit, **PHONE)
    for place in ("document.documentElement", "document.querySelector('.stMain')"):
        wide, seen = opened.page.evaluate(f"[{place}.scrollWidth, {place}.clientWidth]")
        assert wide <= seen

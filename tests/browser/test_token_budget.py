"""Token budget in a real browser: dials, play, keyboard, uploads, phone, dark, accessibility."""

from pathlib import Path

import pytest

from sim.results.run import simulate
from tests.browser.conftest import Timeline
from ui.scenarios.presets import scenario_of
from ui.text import explain

pytestmark = pytest.mark.browser

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n" + "".join(
    f"2023-11-16 18:15:{46 + i // 2}.{i % 2 * 5}000000,{300 + 40 * i},{20 + i}\r\n"
    for i in range(8)
)


def test_a_newcomer_sees_the_freeze_and_drags_to_the_cure(timeline: Timeline):
    assert "all streams freeze for" in timeline.sentence
    box = timeline.budget.bounding_box()
    middle = box["y"] + box["height"] / 2
    timeline.page.mouse.move(box["x"] + 0.9 * box["width"], middle)
    timeline.page.mouse.down()
    for share in (0.8, 0.7, 0.6, 0.5, 0.4, 0.3):
        timeline.page.mouse.move(box["x"] + share * box["width"], middle)
    timeline.until("bs.querySelector('.say').textContent.includes('chunks of at most')")
    timeline.page.mouse.up()
    timeline.until_sentence("no stream waits more than")


def test_the_thumb_never_jumps_while_it_is_held(timeline: Timeline):
    box = timeline.budget.bounding_box()
    middle = box["y"] + box["height"] / 2
    timeline.page.mouse.move(box["x"] + 0.87 * box["width"], middle)
    timeline.page.mouse.down()
    for i in range(60):
        share = 0.1 + 0.8 * abs((i % 40) - 20) / 20
        timeline.page.mouse.move(box["x"] + 8 + share * (box["width"] - 16), middle)
        assert abs(int(timeline.budget.input_value()) - share * 40) <= 1
    timeline.page.mouse.up()


def test_the_dial_tells_the_engine_s_flag(timeline: Timeline):
    flag = timeline.page.locator(f"#{timeline.budget.get_attribute('aria-describedby')}")
    assert flag.inner_text() == "--max-num-batched-tokens"
    assert timeline.budget.get_attribute("aria-valuetext") == "8,192 tokens per step"
    assert timeline.cap.get_attribute("aria-valuetext") == "off"


def test_play_moves_the_head_and_pause_stops_it(timeline: Timeline):
    before = timeline.step
    timeline.page.get_by_role("button", name="Play", exact=True).click()
    timeline.until("+bs.querySelector('.readout b').textContent.replace(',', '') > a", before + 2)
    timeline.page.get_by_role("button", name="Pause").click()
    timeline.until("+bs.querySelector('.canvas').getAttribute('aria-valuenow') > a", before + 2)
    assert timeline.page.get_by_role("button", name="Play", exact=True).is_visible()


def test_scrubbing_moves_the_head(timeline: Timeline):
    box = timeline.stage.bounding_box()
    timeline.page.mouse.move(box["x"] + 150, box["y"] + 100)
    timeline.page.mouse.down()
    timeline.page.mouse.move(box["x"] + 200, box["y"] + 100)
    early = int(timeline.page.locator(".readout b").inner_text())
    timeline.page.mouse.move(box["x"] + box["width"] - 40, box["y"] + 100)
    timeline.page.mouse.up()
    assert timeline.step > early


def test_the_keyboard_reaches_everything(timeline: Timeline):
    """Play, step, first, last, zoom, and the dial, without a pointer."""
    timeline.stage.focus()
    keys = timeline.page.keyboard
    start = timeline.step
    keys.press("ArrowRight")
    assert timeline.step == start + 1
    keys.press("ArrowLeft")
    assert timeline.step == start
    keys.press("Home")
    assert timeline.step == 0
    keys.press("End")
    last = int(timeline.stage.get_attribute("aria-valuemax"))
    assert timeline.step == last
    keys.press("+")
    keys.press("-")
    keys.press("0")
    keys.press("Home")
    keys.press("Space")
    assert timeline.page.get_by_role("button", name="Pause").is_visible()
    keys.press("Space")
    timeline.budget.focus()
    for _ in range(12):
        keys.press("ArrowLeft")
    timeline.until_sentence("chunks of at most 1,020 tokens")


def test_the_head_keeps_its_moment_when_a_dial_moves(timeline: Timeline):
    moment = timeline.stage.get_attribute("aria-valuetext").split(", ")[-1]
    timeline.budget.focus()
    timeline.page.keyboard.press("ArrowLeft")
    timeline.until("bs.querySelector('.dial-head b').textContent === '7,168'")
    timeline.until_sentence("chunks of at most 7,164")
    assert timeline.stage.get_attribute("aria-valuetext").split(", ")[-1] == moment


def test_the_browser_says_what_python_says(timeline: Timeline):
    """The inspector fills the server's sentences with the packet's numbers: equal to ui.explain."""
    result = simulate(scenario_of("four_chats_one_document"))
    knobs = result.resolved.replicas[0].knobs
    limits = explain.Limits(knobs.max_num_batched_tokens, knobs.long_prefill_token_threshold)
    timeline.stage.focus()
    timeline.page.keyboard.press("Home")
    for step in range(0, 70, 7):
        assert timeline.step == step
        said = explain.sentences(result.recording, limits, step, result.workload.label)
        expected = [(line.chip, line.text.replace("**", "")) for line in said]
        assert timeline.why[:-1] == expected
        chip, text = timeline.why[-1]
        assert chip.endswith("ms")
        assert text.startswith("linear layers")
        for _ in range(7):
            timeline.page.keyboard.press("ArrowRight")


def test_the_table_equals_the_picture(timeline: Timeline):
    result = simulate(scenario_of("four_chats_one_document"))
    timeline.page.get_by_role("button", name="Whole run").click()
    timeline.page.get_by_role("button", name="Table").click()
    requests, steps = timeline.page.locator(".table-box table").all()
    rows = requests.locator("tbody tr").all()
    assert len(rows) == 5
    for r, row in enumerate(rows):
        cells = row.locator("td").all_inner_texts()
        assert row.locator("th").inner_text() == result.workload.label(r)
        chunks = [int(n.replace(",", "")) for n in cells[2].split(", ")]
        assert sum(chunks) == result.workload.num_prompt_tokens[r]
        assert int(cells[3]) == result.recording.requests.num_output_tokens[r]
        assert cells[5] == "finished"
    first = steps.locator("tbody tr").first.locator("td").all_inner_texts()
    assert first[2:5] == ["140", "0", "8,052"]
    timeline.page.get_by_role("button", name="Picture", exact=True).click()
    assert timeline.stage.is_visible()


def test_a_refused_budget_dims_the_picture_and_offers_cures(timeline: Timeline):
    page = timeline.page
    page.get_by_role("button", name="More settings").click()
    page.locator("label", has_text="Chunked prefill").click()
    timeline.until("bs.querySelector('.settings').textContent.includes('off')")
    page.keyboard.press("Escape")
    timeline.budget.focus()
    for _ in range(8):
        page.keyboard.press("ArrowLeft")
    words = "max_num_batched_tokens (2048) is smaller than max_model_len (8192)"
    alert = page.get_by_role("alert").filter(has_text=words)
    alert.wait_for()
    page.get_by_role("button", name="Turn chunking on").click()
    timeline.until_sentence("chunks of at most 2,044")
    assert not alert.is_visible()


def test_a_preset_takes_everything_back(timeline: Timeline):
    timeline.budget.focus()
    timeline.page.keyboard.press("Home")
    timeline.until_sentence("In 541 chunks of at most 16 tokens")
    timeline.preset("16-request toy")
    timeline.until_sentence("16 requests:")
    assert timeline.budget.get_attribute("aria-valuetext") == "2,048 tokens per step"
    assert timeline.cap.get_attribute("aria-valuetext") == "512 tokens per request and step"
    timeline.preset("Chats + one long document")
    timeline.until_sentence("all streams freeze for")


def upload(timeline: Timeline, file) -> None:
    timeline.preset("Your trace")
    timeline.page.locator("input[type=file]").set_input_files(file)


def test_a_trace_is_uploaded(timeline: Timeline):
    file = {"name": "azure.csv", "mimeType": "text/csv", "buffer": AZURE.encode()}
    upload(timeline, file)
    timeline.page.get_by_text("azure.csv: 8 of 8 rows taken, read as azure; 0 refused.").wait_for()
    timeline.until_sentence("8 requests:")


def test_bad_rows_are_told_by_line(timeline: Timeline):
    content = "arrival_s,prompt_tokens,output_tokens\n0.0,10,5\n0.5,ten,5\n1.0,20,5\n"
    file = {"name": "mine.csv", "mimeType": "text/csv", "buffer": content.encode()}
    upload(timeline, file)
    timeline.page.get_by_text("mine.csv: 2 of 3 rows taken").wait_for()
    timeline.page.get_by_text("1 refused rows, the first 1").click()
    timeline.page.locator("[data-testid=stTable]").get_by_text("3", exact=True).wait_for()


def test_a_file_that_is_no_trace_is_refused_in_words(timeline: Timeline):
    file = {"name": "cat.csv", "mimeType": "text/csv", "buffer": b"\x00\x01\x02 not a table"}
    upload(timeline, file)
    timeline.page.get_by_text("This file cannot be used.").wait_for()


def test_script_in_a_label_stays_text(timeline: Timeline):
    content = "request_id,arrival_s,prompt_tokens,output_tokens\n"
    content += "<img src=x onerror=alert(1)>,0.0,100,5\nplain,0.1,100,5\n"
    file = {"name": "labels.csv", "mimeType": "text/csv", "buffer": content.encode()}
    upload(timeline, file)
    timeline.until_sentence("2 requests:")
    timeline.page.get_by_role("button", name="Table").click()
    assert timeline.page.locator(".table-box img").count() == 0


def test_rejected_requests_are_said_on_the_page(timeline: Timeline, public_data: Path):
    upload(timeline, public_data / "traces" / "mooncake_conversation_600.jsonl")
    timeline.page.get_by_text("600 of 600 rows taken, read as mooncake").wait_for()
    timeline.page.get_by_text("321 of 600 requests rejected: prompts").wait_for(timeout=60_000)


def test_a_large_run_has_a_window_that_moves(timeline: Timeline):
    timeline.preset("Code completion")
    timeline.until("!bs.querySelector('.overview-box').hidden")
    window = timeline.page.get_by_role("slider", name="Window on the whole run")
    before = float(window.get_attribute("aria-valuenow"))
    window.focus()
    timeline.page.keyboard.press("Home")
    timeline.until("+bs.querySelector('.overview').getAttribute('aria-valuenow') < a", before)
    timeline.page.get_by_label("Order of rows").select_option("worst gap")
    timeline.page.get_by_role("button", name="Later rows").click()
    timeline.until("!bs.querySelector('.overview-box .readout').textContent.startsWith('1 to')")


def test_a_deep_link_has_its_frame(browser, app_url: str):
    context = browser.new_context()
    opened = Timeline(context.new_page()).open(f"{app_url}/token_budget")
    assert opened.page.get_by_text("Page not found").count() == 0
    assert opened.page.get_by_test_id("stSidebar").get_by_text("Batchscope").count() == 1
    context.close()


def test_a_phone_has_no_sideways_scroll(browser, app_url: str):
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    opened = Timeline(context.new_page()).open(f"{app_url}/token_budget")
    for place in ("document.documentElement", "document.querySelector('.stMain')"):
        wide, seen = opened.page.evaluate(f"[{place}.scrollWidth, {place}.clientWidth]")
        assert wide <= seen
    assert opened.budget.bounding_box()["width"] > 250
    context.close()


def test_reduced_motion_is_obeyed(browser, app_url: str):
    """Without motion a new plan is on the canvas at once; with the same result."""
    context = browser.new_context(reduced_motion="reduce")
    opened = Timeline(context.new_page()).open(f"{app_url}/token_budget")
    opened.budget.focus()
    opened.page.keyboard.press("Home")
    opened.until_sentence("In 541 chunks of at most 16 tokens")
    context.close()
    assert opened.errors == []

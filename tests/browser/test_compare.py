"""Two runs on one clock, the question before the first drag, figures, files: in a real browser."""

import csv
import io
import json

import pytest
from playwright.sync_api import expect

from sim.results.run import simulate
from tests.browser.conftest import Timeline
from ui.scenarios.presets import scenario_of
from ui.scenarios.settings import apply, settings_of
from ui.text import comparison, run_summary
from ui.text.comparison import Difference
from ui.text.units import seconds

pytestmark = pytest.mark.browser


def run(budget: int):
    scenario = scenario_of("four_chats_one_document")
    return simulate(apply(scenario, settings_of(scenario), budget, 0))


def test_one_click_pins_another_budget(timeline: Timeline):
    timeline.press("budget 512")
    timeline.until_sentence("in 16 chunks of at most 508 tokens")
    expected = comparison.sentence(run(8192), run(512), [Difference("budget", "budget 512")])
    assert timeline.sentence == "".join(words for words, _ in expected)
    tiles = comparison.tiles(run(8192), run(512))
    delta = timeline.page.locator("[data-testid=stMetricDelta]").first
    expect(delta).to_have_text(f"{tiles[0].delta.words}, worse")
    timeline.press("Swap")
    timeline.until_sentence("In 16 chunks of at most 508 tokens, ")
    expect(delta).to_have_text(f"{tiles[0].delta.words.replace('more', 'less')}, better")
    timeline.press("Remove")
    timeline.until("bs.querySelector('.say').textContent.includes('Its own first token')")


def test_the_pinned_run_stays_while_the_dial_moves(timeline: Timeline):
    timeline.press("Pin this run")
    timeline.until("bs.querySelector('.compare b')?.textContent === 'the same run'")
    timeline.budget.focus()
    for _ in range(16):
        timeline.page.keyboard.press("ArrowLeft")
    timeline.until_sentence("; whole, all streams freeze for")
    timeline.until("bs.querySelector('.compare b').textContent === 'budget 8,192'")


def test_the_inspector_tells_the_other_run_too(timeline: Timeline):
    timeline.press("budget 512")
    timeline.until_sentence("in 16 chunks")
    assert timeline.why[1] == ("document", timeline.why[1][1])
    now = timeline.why
    timeline.press("Pinned")
    assert timeline.why != now
    assert any("left of 512" in text for _, text in timeline.why)


def test_the_deciding_line_is_marked(timeline: Timeline):
    marked = timeline.page.locator(".source .marked")
    expect(marked).to_contain_text("while counters.num_waiting > 0:")
    timeline.budget.focus()
    for _ in range(16):
        timeline.page.keyboard.press("ArrowLeft")
    timeline.until_sentence("In 16 chunks")
    timeline.until("bs.querySelector('.source .marked').textContent.includes('if n > budget:')")
    timeline.press("Hide the code")
    expect(timeline.page.locator(".source")).to_be_hidden()


def test_predict_first_asks_once_and_answers(timeline: Timeline):
    question = timeline.page.get_by_role("group", name="Predict first")
    expect(question).to_contain_text("512 tokens instead of 8,192")
    timeline.press("It rises")
    timeline.until_sentence("In 16 chunks of at most 508 tokens")
    gaps = [run_summary.worst_gap_s(run(budget)) for budget in (8192, 512)]
    before, after = map(seconds, gaps)
    said = f"You predicted that it rises. It falls, from {before} to {after}"
    expect(question).to_contain_text(said)
    timeline.press("Done")
    question.wait_for(state="hidden")
    timeline.press("Remove")
    timeline.until_sentence("Its own first token")
    assert not question.is_visible()


def test_a_drag_answers_the_question_away(timeline: Timeline):
    timeline.budget.focus()
    timeline.page.keyboard.press("ArrowLeft")
    timeline.page.get_by_role("group", name="Predict first").wait_for(state="hidden")


def test_a_preset_brings_its_pinned_run(timeline: Timeline):
    timeline.preset("2,048 against 8,192")
    timeline.until_sentence("A 7,000-token prompt arrives while four people chat.")
    timeline.until("bs.querySelector('.compare b').textContent === 'budget 8,192'")


def test_figures_are_drawn_when_they_are_opened(timeline: Timeline):
    assert timeline.page.locator(".js-plotly-plot").count() == 0
    timeline.page.get_by_text("Figures", exact=True).click()
    timeline.page.locator(".js-plotly-plot").first.wait_for()
    timeline.page.get_by_role("tab", name="Queue").click()
    timeline.page.get_by_text("Requests waiting after each step").wait_for()


def download(timeline: Timeline, name: str) -> str:
    with timeline.page.expect_download() as waiting:
        timeline.page.get_by_role("button", name=name, exact=True).click()
    return waiting.value.path().read_text()


def test_files_are_taken_home(timeline: Timeline):
    timeline.page.get_by_text("Take home: files, trace, flags").click()
    timeline.page.get_by_role("button", name="Scenario", exact=True).wait_for()
    result = run(8192)
    scenario = json.loads(download(timeline, "Scenario"))
    assert scenario["replicas"][0]["policy"]["max_num_batched_tokens"] == 8192
    steps = list(csv.DictReader(io.StringIO(download(timeline, "Steps"))))
    assert len(steps) == result.summary["steps"]
    requests = list(csv.DictReader(io.StringIO(download(timeline, "Requests"))))
    assert [row["name"] for row in requests][-1] == "document"
    assert json.loads(download(timeline, "Perfetto trace"))["traceEvents"]
    expect(timeline.page.get_by_test_id("stCode")).to_contain_text("vllm serve Qwen2.5-7B")


def test_the_picture_is_saved(timeline: Timeline):
    with timeline.page.expect_download() as waiting:
        timeline.press("Save picture")
    assert waiting.value.suggested_filename == "batchscope.png"
    content = waiting.value.path().read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) > 10_000

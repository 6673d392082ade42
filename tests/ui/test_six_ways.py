"""Six ways to batch: the scenarios, the packet, the figures, the sentences, the page."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from sim.results.run import simulate
from sim.scenario.load import ScenarioError
from tests.ui.opening import kept, open_page
from tests.web import node
from ui.lanes import packing
from ui.scenarios import presets, ways
from ui.scenarios.run import Dials, Upload
from ui.scenarios.under_engine import Server, length_of, scenario_of, starting, under
from ui.shell.session import Session
from ui.six_ways import controller, outcomes, trade_offs
from ui.six_ways.outcomes import COLUMNS, Outcome
from ui.text.suggested_fixes import without_path
from ui.timeline.packet import read

ROOT = Path(__file__).parents[2]
MODEL, GPU = "Llama-3.1-8B", "h100_sxm"
CHATS, HEAD, SHORT, MEMORY = (preset.id for preset in ways.PRESETS)


def outcome(preset: str, engine: str, **knobs: ways.Value) -> Outcome:
    way = ways.way_of(engine)
    chosen = starting(way) | knobs
    return Outcome(way, simulate(scenario_of(preset, way, chosen, MODEL, GPU)))


@pytest.fixture(scope="module")
def chats() -> dict[str, Outcome]:
    return {way.engine: outcome(CHATS, way.engine) for way in ways.WAYS}


@pytest.mark.parametrize("engine", [way.engine for way in ways.WAYS])
@pytest.mark.parametrize("preset", [preset.id for preset in ways.PRESETS])
def test_every_way_serves_every_preset(preset: str, engine: str):
    summary = outcome(preset, engine).result.summary
    assert summary["status"] == "finished"
    assert summary["finished"] == summary["requests"]


def test_all_ways_have_the_same_kv_memory():
    tokens = set()
    for way in ways.WAYS:
        recording = outcome(MEMORY, way.engine).result.recording
        tokens.add(recording.num_blocks * recording.block_size)
    assert tokens == {2304}


def test_static_gets_its_room_from_the_same_server():
    """It knows no length, so it would reserve activations for a prompt of the model's full one."""
    way = ways.way_of("static")
    scenario = scenario_of(CHATS, way, starting(way), MODEL, "rtx_4090")
    assert simulate(scenario).summary["finished"] == 8


def test_a_model_with_a_short_context_refuses_the_same_under_all_ways():
    for way in ways.WAYS:
        chosen = starting(way)
        result = simulate(scenario_of(HEAD, way, chosen, "Llama-2-13B", GPU))
        assert result.summary["rejected"] == 1
        assert outcomes.main_waste(Outcome(way, result)) == "1 rejected"


def test_every_way_gets_as_many_servers_as_the_pools():
    for way in ways.WAYS:
        scenario = scenario_of(CHATS, way, starting(way), MODEL, GPU, 2, servers=2)
        assert sum(replica.count * replica.tp for replica in scenario.replicas) == 4
        roles = {replica.role for replica in scenario.replicas}
        assert roles == ({"prefill", "decode"} if way.engine == "disaggregated" else {"both"})
    assert str(Server(MODEL, GPU, 2, 2)) == f"{MODEL} on 2 servers of 2 x NVIDIA H100 SXM 80 GB"


def test_idle_time_and_budget_of_pools(chats: dict[str, Outcome]):
    """Mean of the servers; a decode server's steps say nothing of the budget for prompts."""
    pools = chats["disaggregated"]
    lost, rows = outcomes.wastes(pools), pools.result.summary["replicas"]
    assert lost.idle == pytest.approx(1 - (rows[0]["busy_fraction"] + rows[1]["busy_fraction"]) / 2)
    steps = pools.result.recording.steps
    used = steps.num_prefill_tokens[steps.replica == 0] / 2048
    assert lost.unused == pytest.approx(1 - used.mean())


def test_the_packet_holds_every_token_and_every_prompt(chats: dict[str, Outcome]):
    result = chats["vllm_v1"].result
    told = packing.LaneText("vllm_v1", "vLLM V1", "chunks")
    header, arrays = read(packing.pack([(told, result)]))
    lane = header["lanes"][0]
    assert lane["num_rows"] == len(result.workload) == 8
    decodes = (arrays["0.run_last"].astype(int) - arrays["0.run_first"] + 1).sum()
    emitting = arrays["0.fact_a"] == arrays["0.fact_b"]
    assert decodes + emitting.sum() == result.summary["output_tokens"]
    prompts = np.bincount(arrays["0.fact_request"] - 1, arrays["0.fact_a"], lane["num_rows"])
    assert prompts.tolist() == result.recording.requests.num_prompt_tokens.tolist()
    assert len(packing.pack([(told, result)])) < 64 * 1024


def test_the_browser_draws_every_token_of_a_way(chats: dict[str, Outcome]):
    result = chats["vllm_v1"].result
    (shown,) = node.rows_of(packing.pack([(packing.LaneText("vllm_v1", "vLLM V1", ""), result)]))
    assert [
        len(row["ticks"]) for row in shown
    ] == result.recording.requests.num_output_tokens.tolist()
    assert {row["status"] for row in shown} == {"finished"}


def test_a_refused_way_has_words_instead_of_a_picture():
    told = packing.LaneText("orca", "Orca", "whole prompts", problem="does not fit")
    header, arrays = read(packing.pack([(told, None)]))
    assert header["lanes"][0]["problem"] == "does not fit"
    assert header["lanes"][0]["num_rows"] == 0
    assert not arrays


def test_the_story_of_the_preset(chats: dict[str, Outcome]):
    worst = {engine: out.itl["max"] for engine, out in chats.items()}
    assert max(chats, key=lambda engine: chats[engine].ttft["max"]) == "static"
    assert worst["vllm_v1"] < worst["tensorrt_llm"] < 0.05 < worst["orca"] < worst["vllm_v0"]
    said = outcomes.headline([chats[engine] for engine in ways.FIRST_SHOWN])
    assert said.startswith("Static makes document 2 wait")
    assert "vLLM V0 freezes a stream for up to" in said
    assert "vLLM V1 keeps every gap within" in said


def test_head_of_line_stalls_every_stream():
    v0, v1 = outcome(HEAD, "vllm_v0"), outcome(HEAD, "vllm_v1")
    assert outcomes.wastes(v0).stalls == 32
    assert outcomes.wastes(v1).stalls == 0


def test_the_sentence_tells_of_lost_memory():
    told = [outcome(MEMORY, engine) for engine in ways.FIRST_SHOWN]
    assert "runs out of memory" in outcomes.headline(told)


def test_the_headline_needs_two():
    assert "at least two" in outcomes.headline([])


def test_wastes(chats: dict[str, Outcome]):
    static, v1 = (outcomes.wastes(chats[engine]) for engine in ("static", "vllm_v1"))
    assert static.padding > 0.5
    assert static.unused is None
    assert v1.padding == 0
    assert v1.unused is not None
    assert 0 < v1.unused < 1
    assert "padding" in outcomes.main_waste(chats["static"])


def test_marks_are_best_and_worst_and_quiet_where_all_are_equal():
    assert outcomes.marks([3.0, 1.0, None, 2.0], less=True) == ["worst", "best", "", ""]
    assert outcomes.marks([3.0, 1.0, 2.0], less=False) == ["best", "worst", ""]
    assert outcomes.marks([1.0, 1.0, 2.0], less=True) == ["best", "best", "worst"]
    assert outcomes.marks([1.0, 1.001], less=True) == ["", ""]


def test_the_matrix_marks_in_words_and_names_the_judgement(chats: dict[str, Outcome]):
    shown = trade_offs.matrix(list(chats.values()), "<model> on GPU")
    assert shown.count('scope="row"') == len(chats)
    assert "&lt;model&gt;" in shown
    assert "our judgement" in shown
    assert "<small>best</small>" in shown
    assert "<small>worst</small>" in shown
    assert all(column.name in shown for column in COLUMNS)


def test_every_way_gets_a_sentence_with_its_numbers(chats: dict[str, Outcome]):
    for out in chats.values():
        said = outcomes.verdict(out)
        assert said.startswith(out.way.rule)
        assert "median TTFT" in said


def test_knobs_change_the_run_and_the_note(chats: dict[str, Outcome]):
    small = outcome(CHATS, "vllm_v1", max_num_batched_tokens=128)
    assert small.itl["max"] < chats["vllm_v1"].itl["max"]
    way = ways.way_of("vllm_v1")
    assert way.summary(starting(way) | {"max_num_batched_tokens": 128}) == "chunks, budget 128"


def test_a_refusal_is_in_words_without_a_path():
    way = ways.way_of("vllm_v1")
    with pytest.raises(ScenarioError) as refused:
        simulate(scenario_of(CHATS, way, starting(way) | {"max_num_batched_tokens": 8}, MODEL, GPU))
    said = without_path(refused.value.problems[0])
    assert said.startswith("max_num_batched_tokens")
    assert "replicas" not in said


def test_the_source_is_that_of_the_running_code():
    for way in ways.WAYS:
        rule = "def send_to_decode(" if way.engine == "disaggregated" else "def schedule("
        assert rule in controller.source(way)


# --- the page -------------------------------------------------------------------------------------


@pytest.fixture
def page() -> AppTest:
    return open_page("six_ways")


def test_the_page_runs_with_every_preset(page: AppTest):
    said = set()
    for preset in ways.PRESETS:
        page.session_state["six_preset"] = preset.id
        page.run()
        assert not page.exception
        assert page.get("bidi_component")
        said.add(next(line.value for line in page.markdown if "to start." in line.value))
    assert len(said) == len(ways.PRESETS)


def test_a_refused_knob_is_told_and_the_others_stay(page: AppTest):
    page.number_input(key="six_vllm_v1_max_num_batched_tokens").set_value(8).run()
    assert not page.exception
    assert "vLLM V1 does not start: max_num_batched_tokens" in page.warning[0].value
    assert page.get("bidi_component")


def test_all_ways_can_be_shown_and_none(page: AppTest):
    page.session_state["six_engines"] = [way.engine for way in ways.WAYS]
    page.run()
    assert not page.exception
    page.session_state["six_engines"] = []
    page.run()
    assert not page.exception
    assert "No engine is shown" in page.info[0].value


def test_a_model_that_fits_no_way_says_so_once(page: AppTest):
    page.session_state["six_model"] = "Llama-3.1-405B"
    page.session_state["six_gpu"] = "rtx_4090"
    page.run()
    assert not page.exception
    assert "no engine starts" in page.error[0].value
    assert not page.warning


# --- the reader's own scenario --------------------------------------------------------------------


def along(page: AppTest, preset: str) -> AppTest:
    """Come from Token budget with a preset."""
    page.switch_page("pages/token_budget.py").run()
    page.session_state["preset"] = preset
    page.run()
    page.switch_page("pages/six_ways.py").run()
    page.session_state["six_preset"] = "yours"
    page.run()
    assert not page.exception
    return page


def test_nothing_came_along(page: AppTest):
    page.session_state["six_preset"] = "yours"
    page.run()
    assert not page.exception
    assert any("No scenario yet" in line.value for line in page.markdown)
    assert not page.get("bidi_component")
    assert len(page.get("file_uploader")) == 1


def test_the_matrix_is_of_the_scenario_that_came_along(page: AppTest):
    along(page, "burst")
    shown = next(part.proto.body for part in page.get("html") if "bs-matrix" in part.proto.body)
    base = presets.scenario_of("burst")
    way = ways.way_of("vllm_v1")
    result = simulate(
        under(
            base, way, starting(way, base), Server("Qwen2.5-7B", "rtx_4090"),
            length_of(base, None),
        )
    )  # fmt: skip
    tokens_per_s = f"{result.summary['output_tokens_per_s']:,.0f}"
    assert tokens_per_s in shown
    policy = base.replicas[0].policy
    assert page.session_state["six_vllm_v1_max_num_batched_tokens"] == policy.max_num_batched_tokens


def test_a_dial_turned_on_token_budget_comes_along(page: AppTest):
    along(page, "burst")
    session = kept(page, Session)
    assert session.run is not None
    session.run = replace(session.run, dials=Dials(512, 64))
    page.run()
    assert page.session_state["six_vllm_v1_max_num_batched_tokens"] == 512
    assert page.session_state["six_vllm_v1_long_prefill_token_threshold"] == 64
    assert page.session_state["six_sarathi_chunk_size"] == 512


def test_the_linear_toy_runs_under_every_way(page: AppTest):
    along(page, "toy_16_requests")
    page.session_state["six_engines"] = [way.engine for way in ways.WAYS]
    page.run()
    assert not page.exception
    assert not page.error
    assert "linear toy" in "".join(part.proto.body for part in page.get("html"))


def test_a_trace_runs_under_every_way():
    content = (ROOT / "tests" / "sim" / "workload" / "data" / "azure.csv").read_bytes()
    file = Upload("azure.csv", hashlib.sha256(content).hexdigest(), content, None)
    base = file.scenario(presets.scenario_of("four_chats_one_document"))
    requests = set()
    for way in ways.WAYS:
        scenario = under(
            base,
            way,
            starting(way, base),
            Server(MODEL, GPU),
            length_of(base, None),
        )
        result = simulate(scenario, uploads={file.sha256: content})
        assert result.recording.status == "finished"
        requests.add((len(result.workload), int(result.workload.num_prompt_tokens.sum())))
    assert len(requests) == 1


def test_a_large_run_is_drawn_in_part_and_counted_whole(monkeypatch):
    monkeypatch.setattr(packing, "MOST_STEPS", 20)
    result = outcome(CHATS, "vllm_v1").result
    lean = controller.lean(result)
    assert lean.summary == result.summary
    assert len(lean.recording.items) < len(result.recording.items)
    _, arrays = read(packing.pack([(packing.LaneText("vllm_v1", "vLLM V1", ""), lean)]))
    assert len(arrays["0.start"]) == 20
    assert "the first 20 of up to" in controller.drawn_in_part([lean])[0]


def test_tp_is_part_of_the_server():
    way = ways.way_of("vllm_v1")
    one, two = (
        simulate(scenario_of(CHATS, way, starting(way), MODEL, GPU, tp)).summary for tp in (1, 2)
    )
    assert two["duration_s"] < one["duration_s"]
    assert str(Server(MODEL, GPU, 2)) == f"{MODEL} on 2 x NVIDIA H100 SXM 80 GB"


def test_every_run_says_how_sure_it_is(chats: dict[str, Outcome]):
    notes = outcomes.confidence(list(chats.values()))
    assert "step times: calibrated" in notes[0]
    assert any(note.startswith("Static: outside the calibrated range") for note in notes)

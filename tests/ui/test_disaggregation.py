"""The page on disaggregation: pools drawn from a cluster's trace, sentences, the map, the page."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from sim.cluster.cluster_state import DECODE, PREFILL
from sim.results.run import Result, simulate
from sim.scenario.load import load_scenario, resolve
from sim.validation.errors import ScenarioError
from tests.ui.opening import open_page
from tests.web import node
from ui.charts.crossover import crossover_figure
from ui.disaggregation import (
    captions,
    controller,
    crossover,
    crossover_section,
    downloads,
    form,
    kv_size,
    ratio,
    request_flow,
    setup,
)
from ui.disaggregation.crossover import Cell, Job, Map
from ui.disaggregation.setup import BY_ID, PLAIN, PRESETS, Setup, co_located, disaggregated
from ui.lanes import packing, pools
from ui.scenarios import presets
from ui.timeline.packet import read

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def plain() -> Result:
    return simulate(disaggregated(PLAIN))


def run(setup: Setup) -> Result:
    return simulate(disaggregated(setup))


# --- lanes of several servers ---------------------------------------------------------------------


@pytest.mark.parametrize("preset", [start.id for start in PRESETS])
def test_sorting_by_server_loses_nothing(preset: str):
    recording = run(BY_ID[preset].setup).recording
    sorted_trace = pools.by_server(recording)
    assert np.all(np.diff(sorted_trace.steps.replica) >= 0)
    assert sorted_trace.steps.duration_s.sum() == pytest.approx(recording.steps.duration_s.sum())
    n = len(recording.requests)
    for name in ("num_tokens", "num_computed_tokens"):
        before = np.bincount(recording.items.request % n, recording.items[name], n)
        after = np.bincount(sorted_trace.items.request, sorted_trace.items[name], n)
        assert before.tolist() == after.tolist()
    ends = sorted_trace.steps.first_item + sorted_trace.steps.num_items
    assert ends[:-1].tolist() == sorted_trace.steps.first_item[1:].tolist()
    assert len(sorted_trace.events) == len(recording.events)
    assert np.all(np.diff(sorted_trace.events.step) >= 0)


def test_a_lone_server_is_left_as_it_is():
    recording = simulate(co_located(replace(PLAIN, decode=0))).recording
    assert pools.by_server(recording) is recording


@pytest.mark.parametrize("first_token", form.FIRST_TOKENS)
def test_the_lanes_draw_every_token_that_a_reader_sees(first_token: str):
    result = run(replace(PLAIN, first_token=first_token))
    _, arrays = packing.lane(result)
    decodes = (arrays["run_last"].astype(int) - arrays["run_first"] + 1).sum()
    emitting = (arrays["fact_a"] == arrays["fact_b"]).sum()
    assert decodes + emitting == result.summary["output_tokens"]


def test_each_transfer_goes_from_the_prefill_to_the_decode_lane(plain: Result):
    header, arrays = read(controller.pack(plain, simulate(co_located(PLAIN)), PLAIN))
    prefill, decode, mixed = header["lanes"]
    assert [prefill["title"], decode["title"], mixed["title"]] == [
        "Prefill pool", "Decode pool", "Co-located",
    ]  # fmt: skip
    assert prefill["linked_to"] == 1
    ways = plain.recording.kv_transfers[: len(plain.recording.requests)]
    for k in (0, 1):
        assert arrays[f"{k}.transfer_start"] == pytest.approx(ways.start_s, rel=1e-6)
        assert arrays[f"{k}.transfer_stop"] == pytest.approx(ways.end_s, rel=1e-6)
    assert len(arrays["2.transfer_start"]) == 0
    prompts = np.bincount(arrays["0.fact_request"] - 1, arrays["0.fact_a"])
    assert prompts.tolist() == plain.recording.requests.num_prompt_tokens.tolist()
    assert set(arrays["1.fact_a"]) == {1}  # the last prompt token is computed where it decodes
    assert len(mixed["servers"]) == 2


def test_the_browser_draws_both_pools(plain: Result):
    shown = node.rows_of(controller.pack(plain, simulate(co_located(PLAIN)), PLAIN))
    prefill, decode, mixed = shown
    n = len(plain.recording.requests)
    assert [len(lane) for lane in shown] == [n, n, n]
    assert all(row["transfers"] == ["arrived"] for row in [*prefill, *decode])
    assert all(row["transfers"] == [] for row in mixed)
    assert {row["status"] for row in [*decode, *mixed]} == {"finished"}
    assert sum(len(row["ticks"]) for row in mixed) == plain.summary["output_tokens"]


def test_a_refused_split_has_words_beside_the_co_located_servers():
    (refused, mixed) = node.rows_of(
        controller.pack("does not fit", simulate(co_located(PLAIN)), PLAIN)
    )
    assert refused == []
    assert mixed


def test_unused_kv_is_computed_again_in_the_decode_lane():
    result = run(BY_ID["pd_miswired"].setup)
    recording = pools.decode_pool(result.recording, controller.servers_of(result, DECODE))
    _, arrays = packing.drawn(recording, result)
    prompts = np.bincount(arrays["fact_request"] - 1, arrays["fact_a"])
    assert prompts.tolist() == result.recording.requests.num_prompt_tokens.tolist()
    assert len(arrays["transfer_start"]) == 0


def test_a_lost_transfer_is_marked():
    result = run(replace(PLAIN, failures=1.0))
    _, arrays = packing.lane(result)
    assert set(arrays["transfer_outcome"]) == {pools.LOST}
    (shown,) = node.rows_of(packing.pack([(packing.LaneText("pd", "Disaggregated", ""), result)]))
    assert {outcome for row in shown for outcome in row["transfers"]} == {"lost"}


def test_waiting_for_blocks_is_drawn_from_the_hand_over_on():
    result = run(BY_ID["pd_decode_full"].setup)
    recording = pools.decode_pool(result.recording, controller.servers_of(result, DECODE))
    _, arrays = packing.drawn(recording, result)
    handed = result.recording.kv_transfers[: len(result.recording.requests)].prefill_end_s
    assert arrays["row_arrival"] == pytest.approx(handed, rel=1e-6)
    assert arrays["wait_stop"].max() - arrays["wait_start"].min() > 1.0


# --- scenarios and words --------------------------------------------------------------------------


@pytest.mark.parametrize("start", PRESETS, ids=lambda start: start.id)
def test_examples_hold_every_preset(start: setup.Start):
    assert load_scenario(presets.EXAMPLES / f"{start.id}.json") == disaggregated(
        start.setup, start.label
    )


@pytest.mark.parametrize("start", PRESETS, ids=lambda start: start.id)
def test_both_sides_have_the_same_servers_and_requests(start: setup.Start):
    split, mixed = run(start.setup), simulate(co_located(start.setup))
    gpus = [sorted((r.gpu.name, r.replica.tp) for r in x.resolved.replicas) for x in (split, mixed)]
    assert gpus[0] == gpus[1]
    assert np.array_equal(split.workload.arrival_s, mixed.workload.arrival_s)
    assert split.recording.status == mixed.recording.status == "finished"


@pytest.mark.parametrize(
    ("preset", "words"),
    [
        ("pd_prefill_small", "Prefill pool too small"),
        ("pd_decode_full", "Decode pool full"),
        ("pd_miswired", "KV not used"),
        ("pd_mooncake", "requests rejected early"),
    ],
)
def test_the_headline_names_what_is_wrong(preset: str, words: str):
    setup = BY_ID[preset].setup
    said = captions.headline(run(setup), simulate(co_located(setup)), setup)
    assert words in said
    assert words not in captions.headline(run(PLAIN), simulate(co_located(PLAIN)), PLAIN)


def test_a_refusal_says_whether_both_are_refused():
    assert captions.refused("So", "So") == "Both sides are refused. So."
    assert captions.refused("So", "Else") == "Disaggregated serving is refused. So."


def test_a_run_without_a_token_says_why():
    setup = replace(PLAIN, failures=1.0)
    assert "fail with their transfers" in captions.headline(run(setup), "", setup)


def test_unused_kv_doubles_the_time_to_the_first_token():
    """Alone on both servers: the prompt is computed twice, one after the other."""
    alone = replace(PLAIN, requests=1, budget=8192, link="nvlink_hopper")
    used, unused = (run(replace(alone, unused=share)) for share in (0, 1))
    prefill_s = used.recording.kv_transfers.prefill_end_s[0] - used.recording.requests.arrival_s[0]
    assert unused.summary["ttft_s"]["max"] == pytest.approx(2 * prefill_s, rel=0.02)
    assert used.summary["ttft_s"]["max"] < 1.15 * prefill_s


def test_the_claim_is_judged_by_the_figures():
    setup = BY_ID["pd_miswired"].setup
    found = captions.figures(run(setup), simulate(co_located(setup)))
    said = captions.claim(found, setup, (256, 1.0))
    losses = [figure.name for figure in found if figure.better == "co-located"]
    assert losses
    assert not said.startswith("**It holds")
    held = [replace(figure, disaggregated=1.0, co_located=2.0, less=True) for figure in found]
    assert captions.claim(held, setup, (256, 1.0)).startswith("**It holds here")


def test_the_best_budget_is_the_best():
    best, good = controller.best_budget("test", PLAIN)
    mixed = simulate(co_located(replace(PLAIN, budget=best))).summary
    assert good == mixed["goodput_rps"]
    assert good >= simulate(co_located(PLAIN)).summary["goodput_rps"]


def test_the_known_case_in_the_formula():
    found = kv_size.moved("Llama-3.1-70B", 4096, "rdma_100g")
    assert found.bytes == pytest.approx(1.342e9, rel=1e-3)
    assert "1.34 GB, 107 ms at 100 Gb/s and 13.4 ms at 800 Gb/s" in kv_size.known()
    assert kv_size.of(replace(PLAIN, bandwidth_gb=25.0)).bandwidth == 25e9
    assert "2 x 80 layers x 8 KV heads x 128 x 2 bytes x 4,096 tokens" in kv_size.formula(found)


def test_the_formula_is_what_the_run_moves(plain: Result):
    assert plain.summary["kv_transfer_bytes"] == pytest.approx(
        kv_size.of(PLAIN).bytes * PLAIN.requests
    )


def test_the_flow_has_the_times_of_the_run(plain: Result):
    steps = request_flow.steps(plain, 0)
    request, way = plain.recording.requests[0], plain.recording.kv_transfers[0]
    times = [step.at_s for step in steps]
    assert times == sorted(times)
    assert times[-1] == pytest.approx(request.end_s - request.arrival_s)
    assert any(step.at_s == way.start_s - request.arrival_s for step in steps)
    assert "max_tokens = 1" in steps[0].what
    assert [step.place for step in steps].count("Decode server 1") == 5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"unused": 1.0}, "no server asks for it"),
        ({"failures": 1.0}, "The load fails"),
        ({"first_token": "prefill", "output": 1}, "The first token was the last one"),
        ({"prompt": 8}, "Shorter than a block"),
    ],
)
def test_the_flow_of_other_fates(change: dict[str, object], words: str):
    steps = request_flow.steps(run(replace(PLAIN, **change)), 0)
    assert any(words in step.what for step in steps)


def test_a_rejected_request_ends_at_the_proxy():
    result = run(BY_ID["pd_mooncake"].setup)
    r = int(np.flatnonzero(result.recording.requests.rejection)[0])
    words = request_flow.steps(result, r)[0].what
    assert words == "Rejects the request: it would miss its latency limits."


def test_the_flow_is_in_order_when_kv_streams():
    result = run(BY_ID["pd_mooncake"].setup)
    steps = request_flow.steps(result, 1)
    times = [step.at_s for step in steps]
    assert times == sorted(times)
    reads = next(k for k, step in enumerate(steps) if "reads" in step.what)
    assert "Has computed it" in steps[reads + 1].what
    assert any("after the reading began" in step.what for step in steps)


@pytest.mark.parametrize("unused", [0.0, 1.0])
def test_the_flow_says_what_the_first_decode_step_computes(unused: float):
    """With the first token from prefill that token is left to compute, not one of the prompt."""
    result = run(replace(BY_ID["pd_distserve"].setup, unused=unused))
    said = next(step.what for step in request_flow.steps(result, 0) if "first time" in step.what)
    recording = result.recording
    decode = np.isin(recording.steps.replica, controller.servers_of(result, DECODE))
    items = [
        item
        for step in recording.steps[decode]
        for item in recording.items[step.first_item : step.first_item + step.num_items]
        if item.request == 0
    ]
    assert items[0].num_computed_tokens == (0 if unused else 2048)
    assert ("2,048 prompt tokens and the first token are computed here" in said) == bool(unused)
    assert ("all 2,048 prompt tokens count as computed" in said) == (not unused)


def test_counts_and_reasons_in_words(plain: Result):
    assert (captions.plural(1, "request"), captions.plural(1200, "token")) == (
        "1 request",
        "1,200 tokens",
    )
    setup = replace(PLAIN, failures=1.0, requests=1)
    said = captions.headline(run(setup), "", setup)
    assert "1 of 1 fails with its transfer" in said
    assert "1 load failed: 1 request ended" in " ".join(f.text for f in run(setup).findings)
    mooncake = BY_ID["pd_mooncake"].setup
    assert "they were not expected to meet the SLO; raise its limits" in captions.headline(
        run(mooncake), "", mooncake
    )
    assert "alone" in kv_size.formula(kv_size.of(PLAIN))
    assert "alone" not in kv_size.formula(kv_size.of(PLAIN), travels=False)


# --- how long a request may be --------------------------------------------------------------------


@pytest.mark.parametrize(("prompt", "output"), [(110_000, 96), (131_068, 4)])
def test_room_for_longer_requests_ends_at_the_models_own_limit(prompt: int, output: int):
    setup = replace(PLAIN, prompt=prompt, output=output, requests=1)
    for make in (disaggregated, co_located):
        result = simulate(make(setup))
        assert {r.knobs.max_model_len for r in result.resolved.replicas} == {131_072}
        assert result.recording.requests.num_output_tokens.tolist() == [output]


def test_too_long_a_request_is_refused_once_in_words_of_the_page():
    for make in (disaggregated, co_located):
        with pytest.raises(ScenarioError, match="prompt plus output may be at most 131,072") as why:
            make(replace(PLAIN, prompt=131_000))
        assert len(why.value.problems) == 1
        assert "max_model_len" not in why.value.problems[0]


# --- ratios ---------------------------------------------------------------------------------------


def test_the_sentence_on_ratios_says_where_its_rate_comes_from():
    load = ratio.splits(PLAIN)
    said = ratio.sentence(load, (2048, 14.391))
    assert said.startswith(
        "6 requests/s on 2 servers, as above, correspond to 12 on 4. At 12 requests/s "
    )
    assert f"At {load.factor} times that, {12 * load.factor} requests/s, the best" in said
    assert (
        f"{load.goodput:.2f} requests/s with budget 512, 14.39 with the best budget, 2,048." in said
    )
    odd = ratio.at(ratio.at_load(replace(PLAIN, prefill=2, rate=32.0, requests=3), 1))
    assert (
        odd == "32 requests/s on 3 servers, as above, correspond to 42.7 on 4. At 42.7 requests/s"
    )


def test_ratios_differ_and_the_sentence_names_the_best():
    load = ratio.at_load(replace(PLAIN, rate=12.0), 1)
    assert [split.name for split in load.splits] == ["1:3", "2:2", "3:1"]
    best = max(load.splits, key=lambda split: split.goodput)
    assert f":green[**{best.name}**]" in ratio.sentence(load, (512, 1.0))
    starved = next(split for split in load.splits if split.prefill == 1)
    assert starved.queue_s > best.queue_s


def test_provenance_does_not_count_prefill_as_queueing(plain: Result):
    assert not any("queueing" in note for note in controller.confidence(plain))
    setup = BY_ID["pd_splitwise"].setup
    kinds = [
        note.split(",")[0] for note in controller.confidence(run(setup)) if "step times" in note
    ]
    assert kinds == [
        "prefill servers on NVIDIA H100 SXM 80 GB",
        "decode servers on NVIDIA A100 SXM 80 GB",
    ]


# --- the map --------------------------------------------------------------------------------------


def test_a_job_computes_both_grids_or_stops(monkeypatch):
    monkeypatch.setattr(crossover, "LEAST_REQUESTS", 6)
    monkeypatch.setitem(crossover.PROMPTS, "fine", (0.5, 1.0))
    monkeypatch.setitem(crossover.FACTORS, "fine", (1.0, 2.0))
    monkeypatch.setitem(crossover.PROMPTS, "coarse", (1.0,))
    monkeypatch.setitem(crossover.FACTORS, "coarse", (1.0,))
    job = Job("prompt", replace(PLAIN, requests=6))
    job.run()
    assert job.found is not None
    assert job.found.grid == "fine"
    assert job.found.down == ("2,048", "4,096")
    assert job.done == job.total == 2 * 2 * (1 + len(setup.BUDGETS))
    cell = job.found.cells[1][0]
    assert cell.disaggregated == run(replace(PLAIN, requests=6)).summary["goodput_rps"]
    stopped = Job("ratio", PLAIN)
    stopped.stop.set()
    stopped.run()
    assert stopped.found is None


def test_the_map_has_the_numbers_of_the_comparison_above(monkeypatch):
    for grid in ("coarse", "fine"):
        monkeypatch.setitem(crossover.PROMPTS, grid, (1.0,))
        monkeypatch.setitem(crossover.FACTORS, grid, (1.0,))
    setup = replace(BY_ID["pd_mooncake"].setup, budget=768, requests=112)
    job = Job("prompt", setup)
    job.run()
    assert job.found is not None
    cell = job.found.cells[0][0]
    assert cell.disaggregated == run(setup).summary["goodput_rps"]
    assert (cell.budget, cell.co_located) == controller.best_budget("map", setup)
    assert 768 in setup.budgets
    assert (
        crossover_section.sample(setup) == "112 requests at each point, as in the comparison above."
    )


def test_the_map_has_enough_requests_for_queues_and_says_so():
    rows = crossover.rows_of("prompt", "fine", PLAIN)
    assert {setup.requests for _, setup in rows} == {96} != {PLAIN.requests}
    said = crossover_section.sample(PLAIN)
    assert said.startswith("96 requests at each point, so that queues have time to grow")
    assert f"the comparison above has {PLAIN.requests} " in said


def test_the_map_leaves_out_prompts_that_are_too_long():
    rows = crossover.rows_of("prompt", "fine", replace(PLAIN, prompt=110_000))
    assert rows[-1][0] == "110,000"
    job = Job("ratio", replace(PLAIN, prompt=131_000))
    job.run()
    assert "prompt plus output may be at most 131,072 tokens" in job.problem


def test_a_refused_job_says_why():
    job = Job("prompt", replace(PLAIN, decode=0))
    job.run()
    assert "nothing to split" in job.problem


def test_cells_and_the_sentence():
    wins, loses, none = Cell(2.0, 1.0, 256), Cell(1.0, 2.0, 512), Cell(0.0, 0.0, 256)
    assert (wins.text, loses.text, none.text) == ("+50", "\N{MINUS SIGN}50", "none")
    found = Map("prompt", "fine", (1.0, 2.0), ("512", "1,024"), ((wins, loses), (none, wins)))
    said = crossover.sentence(found)
    assert said.startswith("Of 3 points disaggregated is ahead in 2, co-located in 1.")
    assert "with prompts of 512 to 1,024 tokens" in said
    assert "Co-located wins most at 512 prompt tokens and 2 requests/s" in said
    empty = Map("prompt", "fine", (1.0,), ("512",), ((none,),))
    assert "No request is served" in crossover.sentence(empty)


def test_the_best_budget_of_a_cell():
    cell = crossover.cell([1.0, 0.5, 2.0, None, 1.0], setup.BUDGETS)
    assert (cell.disaggregated, cell.co_located, cell.budget) == (1.0, 2.0, setup.BUDGETS[1])
    assert crossover.cell([None, None, None, None, None], setup.BUDGETS).co_located is None


@pytest.mark.parametrize("dark", [False, True])
def test_the_figure_says_every_cell_in_text(dark: bool):
    plot = crossover_figure(
        ["1", "2"], ["512"], [[0.4, None]], [["+40", "none"]], ("rate", "prompt"), dark
    )
    assert [note.text for note in plot.layout.annotations] == ["+40", "none"]
    assert plot.data[0].customdata[0][1] == "prompt: 512, rate: 2: none"


# --- to take home ---------------------------------------------------------------------------------


def test_the_vllm_script_starts_every_server_in_its_role():
    setup = replace(PLAIN, prefill=2, decode=1, decode_tp=2, recompute=True)
    script = downloads.vllm(resolve(disaggregated(setup)))
    configs = [json.loads(text) for text in re.findall(r"--kv-transfer-config '(.*)'", script)]
    assert [config["kv_role"] for config in configs] == ["kv_producer"] * 2 + ["kv_consumer"]
    assert configs[-1]["kv_load_failure_policy"] == "recompute"
    assert "CUDA_VISIBLE_DEVICES=2,3" in script
    assert "--prefiller-ports 8100 8101" in script
    assert "--decoder-ports 8102" in script


def test_the_trt_yaml_names_every_server():
    setup = replace(PLAIN, prefill=1, decode=2)
    text = downloads.trt(resolve(disaggregated(setup)), setup)
    assert 'context_servers:\n  num_instances: 1\n  urls:\n    - "localhost:8100"' in text
    assert "generation_servers:\n  num_instances: 2" in text


# --- the page -------------------------------------------------------------------------------------


@pytest.fixture
def page() -> AppTest:
    return open_page("disaggregation")


def test_the_page_runs_with_every_preset(page: AppTest):
    said = set()
    for start in PRESETS:
        page.session_state["pd_preset"] = start.id
        page.run()
        assert not page.exception
        assert not page.error
        assert page.get("bidi_component")
        said.add(
            next(line.value for line in page.markdown if line.value.startswith("Disaggregated: "))
        )
    assert len(said) == len(PRESETS)


def test_too_long_a_request_is_refused_with_the_reason(page: AppTest):
    assert page.number_input(key="pd_decode").min == 1
    page.session_state["pd_prompt"] = 140_000
    page.session_state["pd_map"] = "ratio"
    page.run()
    assert not page.exception
    assert page.error[0].value.startswith("Both sides are refused.")
    assert len(page.error) == page.error[0].value.count("may be at most 131,072 tokens here") == 1
    assert not page.get("bidi_component")
    page.button(key="pd_compute").click().run()
    page.session_state["pd_job"].thread.join(60)
    page.run()
    assert not page.exception
    assert sum("prompt plus output" in error.value for error in page.error) == 2


def test_the_pools_alone_are_refused_and_the_lanes_stand(page: AppTest):
    page.session_state["pd_store_gb"] = 9999.0
    page.run()
    assert not page.exception
    assert page.error[0].value.startswith("Disaggregated serving is refused.")
    assert page.get("bidi_component")


def test_nothing_is_said_of_the_link_where_no_kv_moves(page: AppTest):
    formula = "KV of a prompt"
    assert " alone " in next(line.value for line in page.markdown if formula in line.value)
    page.session_state["pd_preset"] = "pd_miswired"
    page.run()
    said = next(line.value for line in page.markdown if formula in line.value)
    assert said.endswith("none of it is moved here.")


def test_fields_that_need_it_have_help(page: AppTest):
    fields = [page.number_input(key=f"pd_{name}") for name in ("unused", "shared", "store_gb")]
    fields += [page.toggle(key=f"pd_{name}") for name in ("recompute", "early_rejection")]
    assert all(field.help for field in fields)
    narrow = [toggle.key for column in page.columns for toggle in column.toggle]
    assert "pd_recompute" not in narrow  # a column cuts its label off
    assert "pd_early_rejection" not in narrow


def test_an_address_brings_every_choice_back(page: AppTest):
    page.session_state["pd_preset"] = "pd_splitwise"
    page.run()
    page.session_state["pd_rate"] = 5.5
    page.session_state["pd_streaming"] = False
    page.run()
    own = {name: text for name, text in page.query_params.items() if name != "v"}
    assert own == {"pools": "pd_splitwise", "pd.rate": "5.5", "pd.streaming": "off"}
    found, problems = form.DISAGGREGATION.read(own)
    assert not problems
    assert found["pd_rate"] == 5.5
    for name in ("pd.prefill", "pd.decode"):
        assert form.DISAGGREGATION.read({name: "0"})[1][name].startswith(f"{name} must")


def test_every_choice_of_a_setup_can_be_read_from_an_address():
    for name, field in form.CHOICES.items():
        for start in PRESETS:
            value = getattr(start.setup, name)
            assert field.read(field.say(value)) == value


def test_busy_shares_are_of_the_pool(plain: Result):
    rows = plain.summary["replicas"]
    assert captions.busy(plain, PREFILL) == rows[0]["busy_fraction"]
    assert captions.busy(plain, DECODE) == rows[1]["busy_fraction"]

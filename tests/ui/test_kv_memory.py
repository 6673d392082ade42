"""KV memory: the replay, its packet, the costs, the prefix tree, the page."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from sim.hardware import catalog
from sim.latency import inputs as latency_inputs
from sim.results.run import simulate
from tests.ui.opening import open_page
from ui.block_map import packing
from ui.block_map.replay import (
    CACHED,
    FREE,
    NO_HASH,
    SHARED,
    USED,
    Held,
    Replay,
    change,
    replay,
)
from ui.charts.swap import swap_figure
from ui.kv_memory import captions, costs, engines, form
from ui.kv_memory.engines import rules_of, scenario_of
from ui.scenarios import presets
from ui.timeline.packet import read

ROOT = Path(__file__).parents[2]
PRESETS = [preset.id for preset in form.PRESETS]


@pytest.fixture(scope="module")
def replays() -> dict[str, Replay]:
    return {preset: replay(presets.scenario_of(preset)) for preset in PRESETS}


@pytest.mark.parametrize("preset", PRESETS)
def test_step_by_step_is_the_same_as_in_one_go(preset: str, replays: dict[str, Replay]):
    stepped, whole = replays[preset].recording, simulate(presets.scenario_of(preset)).recording
    assert stepped.status == whole.status == "finished"
    assert np.array_equal(stepped.steps, whole.steps)
    assert np.array_equal(stepped.items, whole.items)
    assert replays[preset].num_steps == len(whole.steps)


def rules_with(engine: str, caching: bool = False, **knobs: engines.Value) -> engines.Rules:
    """The rules of an engine whose gate is on and whose watermark is 0."""
    spec = engines.engine_spec(engine)
    first = {engines.GATE: True, engines.WATERMARK: 0.0}
    values = {k: first.get(k, getattr(spec.defaults, k)) for k in spec.memory_dials} | knobs
    return engines.Rules(engine, caching, tuple(values.items()))


CAPACITY = "capacity_scheduler_policy"
VARIANTS = [
    *(rules_with(engine, caching) for engine in engines.TITLES for caching in (False, True)),
    rules_with("vllm_v0", preemption_mode="swap"),
    rules_with("tensorrt_llm", **{CAPACITY: "MAX_UTILIZATION"}),
    rules_with("vllm_v1", **{engines.GATE: False}),
]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("rules", VARIANTS, ids=str)
def test_every_step_holds_what_the_scheduler_says(preset: str, rules: engines.Rules):
    """The blocks of a running step, those of requests that end with it included, under all
    engines."""
    found = replay(scenario_of(preset, rules))
    held = np.isin(found.kinds, (USED, SHARED)).sum(axis=1)
    assert found.recording.status == "finished"
    assert held.tolist() == found.recording.steps.kv_blocks.tolist()
    assert ((found.owners >= 0) == np.isin(found.kinds, (USED, SHARED))).all()
    assert (found.kinds == CACHED).any() == (bool(rules.caching) and rules.has_cache)


def test_engines_lose_memory_in_ways_of_their_own():
    """A reserving engine loses nothing; one that reserves nothing preempts; a swap computes nothing
    again."""

    def lost(engine: str, **rules):
        return captions.lost(replay(scenario_of("kv_preemption", rules_with(engine, **rules))))

    for engine in ("orca", "tensorrt_llm", "sglang"):
        assert lost(engine) == (0, 0)
    for engine, rules in (("vllm_v1", {}), ("tensorrt_llm", {CAPACITY: "MAX_UTILIZATION"})):
        times, tokens = lost(engine, **rules)
        assert times > 0
        assert tokens > 0
    times, tokens = lost("vllm_v0", preemption_mode="swap")
    assert times > 0
    assert tokens == 0


def test_shared_and_cached_blocks_are_seen(replays: dict[str, Replay]):
    kinds = replays["kv_prefix"].kinds
    assert (kinds == SHARED).any()
    assert (kinds == CACHED).any()
    assert replays["kv_prefix"].evictions
    assert not np.isin(replays["kv_preemption"].kinds, (SHARED, CACHED)).any()


@pytest.mark.parametrize("preset", PRESETS)
def test_the_packet_unrolls_to_the_replay(preset: str, replays: dict[str, Replay]):
    found = replays[preset]
    header, arrays = read(packing.pack(found, rules_of(preset).words))
    now = np.full(found.kinds.shape[1], FREE)
    owners = np.zeros(found.kinds.shape[1], int)
    hashes = np.zeros(found.kinds.shape[1], int)
    ids = {-1: 0} | {value: k for k, value in enumerate(found.parents, start=1)}
    for step in range(found.num_steps):
        mine = arrays["0.change_step"] == step
        now[arrays["0.change_block"][mine]] = arrays["0.change_state"][mine]
        owners[arrays["0.change_block"][mine]] = arrays["0.change_owner"][mine]
        hashes[arrays["0.change_block"][mine]] = arrays["0.change_hash"][mine]
        assert (now == found.kinds[step]).all()
        assert hashes.tolist() == [ids[value] for value in found.hashes[step].tolist()]
        assert (owners - 1 == found.owners[step]).all()
    assert len(header["lanes"][0]["lines"]) == found.num_steps
    assert header["names"]["change_state"] == ["free", "used", "shared", "cached"]
    assert [header["names"]["change_state"].index(name) for name in ("free", "cached")] == [
        FREE,
        CACHED,
    ]


def test_a_block_table_grows_at_its_end_and_starts_anew():
    assert change(3, 0, (1, 2), (1, 2, 5)) == Held(3, 0, 2, (5,))
    assert change(4, 0, (1, 2), ()) == Held(4, 0, 0, ())
    assert change(5, 0, (1, 2), (7, 2)) == Held(5, 0, 0, (7, 2))


def test_the_victim_is_the_last_in_line(replays: dict[str, Replay]):
    found = replays["kv_preemption"]
    rules = rules_of("kv_preemption")
    lines = packing.lines(found, rules.words)[packing.most_telling(found)]
    words = next(text for chip, _, text in lines if chip == "preempted")
    assert words.startswith("essay 5 is the victim: the last in line")
    assert any(chip == "gate" for step in packing.lines(found, rules.words) for chip, _, _ in step)


def test_the_gate_cures_the_thrash():
    off = rules_of("kv_thrash")
    assert not off.value(engines.GATE)
    times, tokens = captions.lost(replay(scenario_of("kv_thrash", off)))
    assert times > 20
    assert tokens > 5_000
    on = replay(scenario_of("kv_thrash", rules_of("kv_thrash", **{engines.GATE: True})))
    assert captions.lost(on) == (0, 0)


def test_a_resumed_request_finds_its_own_blocks():
    rules = replace(rules_of("kv_preemption"), caching=True)
    requests = replay(scenario_of("kv_preemption", rules)).recording.requests
    assert requests.resumed_hit_tokens.sum() > 0
    assert requests.hit_tokens.sum() == 0


def test_too_many_blocks_are_refused():
    scenario = presets.scenario_of("four_chats_one_document")
    with pytest.raises(ValueError, match="at most 256"):
        replay(scenario)


# --- recompute against swap -----------------------------------------------------------------------


def test_each_gpu_moves_its_shard_over_its_own_link():
    """FACTS: 70B, 4,096 tokens, TP 8: 0.17 GB each, 3 ms each way."""
    row = latency_inputs.roofline(
        catalog.model("Llama-3.1-70B"), catalog.gpu("h100_sxm"), "bf16", 8, "auto"
    )
    moved = costs.swap_s(row, catalog.link("pcie_gen5_x16"), 4096)
    assert moved == pytest.approx(2 * 1.34217728e9 / 8 / 55e9, rel=0.01)
    assert costs.recompute_s(row, 4096, False) > 10 * moved


@pytest.mark.parametrize(
    ("model", "shared", "verdict"),
    [
        ("Llama-2-13B", True, "Only in part"),
        ("Llama-2-13B", False, "It does not hold here"),
        ("Qwen3-0.6B", True, "It holds here"),
    ],
)
def test_the_claim_is_put_to_the_test(model: str, shared: bool, verdict: str):
    link = catalog.link("pcie_gen5_x16")
    found = costs.curve(catalog.model(model), catalog.gpu("h100_sxm"), 1, link, shared)
    assert verdict in costs.verdict(found, "this server")
    for n in found.crossovers:
        k = next(i for i, length in enumerate(found.lengths) if length >= n)
        assert found.cheaper(k) != found.cheaper(k - 1)
    figure = swap_figure(
        found.lengths, found.recompute_s, found.swap_s, found.crossovers, costs.CLAIMED, dark=False
    )
    marked = [note.text for note in figure.layout.annotations]
    assert marked == ["claimed: 4,096"] + [f"crossover: {n:,}" for n in found.crossovers]


def test_max_tokens_costs_only_who_reserves():
    found = costs.promises(presets.scenario_of("kv_max_tokens"))
    by = {(p.engine, p.factor): p for p in found}
    reserving = [by["TensorRT-LLM, no evict", factor] for factor in costs.FACTORS]
    assert reserving[0].running > reserving[1].running > reserving[2].running
    assert all(p.preemptions == 0 for p in reserving)
    for engine in ("TensorRT-LLM, max utilization", "vLLM V1"):
        runs = [by[engine, factor] for factor in costs.FACTORS]
        assert len({(p.done_s, p.preemptions) for p in runs}) == 1
        assert runs[0].preemptions > 0
    assert all(p.rejected == 0 for p in found)
    assert "at once" in costs.cost_of_promises(found)


# --- prefixes -------------------------------------------------------------------------------------


def test_chains_of_two_system_prompts_part_after_them(replays: dict[str, Replay]):
    """Eight whole blocks of 16 are shared by each group; every chain begins with one of two."""
    found = replays["kv_prefix"]
    firsts = [value for value, parent in found.parents.items() if parent == NO_HASH]
    assert len(firsts) == 2
    followers = Counter(found.parents.values())
    forks = [value for value in found.parents if followers[value] > 1]
    assert [len(ancestry(found, fork)) for fork in forks] == [8, 8]
    assert {blocks for _, _, blocks in packing.found_blocks(found)} == {8}
    assert "whole blocks of 16 only" in captions.prefix_sentence(found)


def ancestry(found: Replay, value: int) -> list[int]:
    chain = []
    while value != NO_HASH:
        chain.append(value)
        value = found.parents[value]
    return chain


# --- the page -------------------------------------------------------------------------------------


@pytest.fixture
def page() -> AppTest:
    return open_page("kv_memory")


def test_the_page_runs_with_every_preset(page: AppTest):
    for preset in PRESETS:
        page.session_state["kv_preset"] = preset
        page.run()
        assert not page.exception
        assert page.get("bidi_component")
        assert page.get("plotly_chart")


def test_one_click_cures_the_thrash(page: AppTest):
    page.session_state["kv_preset"] = "kv_thrash"
    page.run()
    page.button(key="kv_gate_button").click().run()
    assert not page.exception
    assert any("Shown: gate on" in line.value for line in page.markdown)
    page.session_state["kv_preset"] = "kv_preemption"
    page.run()
    page.session_state["kv_preset"] = "kv_thrash"
    page.run()
    assert any("Shown: gate off" in line.value for line in page.markdown)


def test_every_engine_has_a_map(page: AppTest):
    for engine in engines.TITLES:
        page.session_state["kv_engine"] = engine
        page.run()
        assert not page.exception
        assert len(page.get("bidi_component")) == 2
        assert any(f"{engines.TITLES[engine]}'s rules" in line.value for line in page.caption)


def test_every_number_says_how_sure_it_is(page: AppTest):
    sure = [line.value for line in page.caption if line.value.startswith("Simulated; step times:")]
    assert len(sure) == 3  # the map, the curves, the table
    assert "measured up to" in sure[1]
    page.session_state["kv_gpu"] = "l4"
    page.run()
    assert any("from the spec sheet" in line.value for line in page.caption)

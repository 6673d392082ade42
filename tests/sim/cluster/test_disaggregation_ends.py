"""Nothing is left behind: clients that go away at any stage, the KV store, and the sums over the
pools of whole scenarios."""

from typing import Any

import numpy as np
import pytest

from sim.cluster import simulator
from sim.cluster.cluster_state import DECODE, FINISHED_AT_PREFILL, MOVED, PREFILL, TOO_SHORT
from sim.cluster.topology import Topology
from sim.core import reasons
from sim.core.integrity import check_integrity
from sim.core.requests import empty_requests
from sim.results.run import simulate
from sim.scenario.load import parse_scenario
from sim.workload.prompt_tokens import run_table
from tests.field.field import asked
from tests.sim.cluster.test_cluster import TOKEN_BYTES, run_checked
from tests.tools.builders import linear_latency, policy_rows
from tests.tools.pools import TOKEN_BYTES_8B, pools

# --- clients that go away -------------------------------------------------------------------------


def pair(**more: Any) -> Topology:
    """One prefill and one decode server on a slow link."""
    numbers: dict[str, Any] = {
        "roles": (PREFILL, DECODE),
        "kv_token_bytes": (TOKEN_BYTES,) * 2,
        "disaggregated": True,
        "bandwidth": 1e6,
        "handover_s": 0.02,
        "latency_s": 0.01,
    }
    return Topology(**numbers | more)


def three_requests() -> tuple[Any, Any]:
    """Prompts of 60 tokens, 12 steps each; the second one is aborted."""
    table = empty_requests(3)
    table.num_prompt_tokens, table.max_tokens, table.output_len = 60, 12, 12
    table.arrival_s = [0.0, 0.001, 0.002]
    runs, table.first_run, table.num_runs = run_table([[(1000 * k, 60)] for k in range(3)])
    return table, runs


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("first_token_at_prefill", [False, True])
def test_a_client_may_go_away_at_any_time(streaming: bool, first_token_at_prefill: bool) -> None:
    """Every 3 ms of a request's life: it ends aborted, the others finish, all blocks come back."""
    table, runs = three_requests()
    small = {"max_num_batched_tokens": 32, "max_num_seqs": 4, "max_model_len": 80}
    rows = [policy_rows(num_gpu_blocks=blocks, **small) for blocks in (10, 7)]
    policy = np.concatenate(rows).view(np.recarray)  # one request at a time may decode
    topology = pair(streaming=streaming, first_token_at_prefill=first_token_at_prefill)
    whole = simulator.run(table, runs, policy, linear_latency(2), topology=topology)
    last_step_s = 0.006  # is not disturbed: a request that it ends has ended
    lasted_s = float(whole.requests.end_s[1] - table.arrival_s[1]) - last_step_s
    stages = set()
    for abort_at_s in np.arange(0.0, lasted_s, 0.003):
        table.abort_after_s[1] = abort_at_s
        recording, state, cluster = run_checked(table, runs, policy, linear_latency(2), topology)
        assert recording.status == "finished"
        assert recording.requests.status.tolist() == [
            reasons.FINISHED, reasons.ABORTED_REQUEST, reasons.FINISHED
        ]  # fmt: skip
        assert recording.requests.end_s[1] >= table.arrival_s[1] + abort_at_s
        for replica in range(2):
            check_integrity(state, replica)
            assert state.counters[replica].num_free_blocks == policy[replica].num_gpu_blocks - 1
        assert cluster.clock[0].num_active_transfers == 0
        assert (cluster.servers.num_unfinished == 0).all()
        way = recording.kv_transfers[1]
        stages.add((way.source >= 0, way.target >= 0, bool(np.isfinite(way.start_s)),
                    bool(np.isfinite(way.end_s))))  # fmt: skip
    assert (True, False, False, False) in stages, "none left before the hand-over"
    assert any(target and not started for _, target, started, _ in stages), "none queued"
    assert any(started and not ended for _, _, started, ended in stages), "none during transfers"
    assert (True, True, True, True) in stages, "none left while it decoded"


# --- the KV store ---------------------------------------------------------------------------------


def from_store(order: list[int], blocks: int, prompt: int = 64) -> list[int]:
    """Tokens that each request fetches from a store of so many blocks of 16 tokens; `order` names
    their prompts, one after the other."""
    table = empty_requests(len(order))
    table.num_prompt_tokens, table.max_tokens, table.output_len = prompt, 4, 4
    table.arrival_s = 10.0 * np.arange(len(order))
    contents = [[(1000 * k, prompt)] for k in order]
    runs, table.first_run, table.num_runs = run_table(contents)
    policy = np.concatenate([policy_rows(num_gpu_blocks=60, max_model_len=200)] * 2)
    topology = pair(store_blocks=blocks)
    recording = simulator.run(
        table, runs, policy.view(np.recarray), linear_latency(2), topology=topology
    )
    assert recording.status == "finished"
    assert (recording.requests.num_output_tokens == 4).all()
    stored = recording.kv_transfers[len(order) :]
    fetched = np.where(stored.outcome == MOVED, stored.num_tokens, 0)
    np.testing.assert_allclose(stored.total_bytes, fetched * TOKEN_BYTES)
    computed = np.bincount(recording.items.request, recording.items.num_tokens)[len(order) :]
    assert (computed + fetched == prompt).all()
    return [int(tokens) for tokens in fetched]


def test_the_store_gives_back_whole_blocks_of_a_prompt_but_the_last() -> None:
    """64 tokens: at least one is left to compute, so three blocks of 16."""
    assert from_store([0, 0, 0], 100) == [0, 48, 48]
    assert from_store([0, 1, 0, 1], 100) == [0, 0, 48, 48]
    assert from_store([0, 0], 100, prompt=70) == [0, 64]
    assert from_store([0, 0], 100, prompt=15) == [0, 0]


def test_the_store_forgets_what_was_used_longest_ago() -> None:
    """Room for two prompts of four blocks."""
    assert from_store([0, 1, 2, 0], 8) == [0, 0, 0, 0]
    assert from_store([0, 1, 0, 2, 0], 8) == [0, 0, 48, 0, 48]
    assert from_store([0, 1, 2, 2, 1], 12) == [0, 0, 0, 48, 48]


# --- sums over the pools --------------------------------------------------------------------------


def random_scenario(seed: int) -> tuple[Any, dict[str, Any]]:
    """A scenario as a file would say it, with every way that KV can go."""
    draw = np.random.default_rng(seed)
    lengths = {"kind": "uniform", "min": 1, "max": int(draw.choice([40, 400]))}
    outputs = {"kind": "uniform", "min": 1, "max": 30}
    arrivals = {"kind": "poisson", "rate_per_s": float(draw.choice([5, 40]))}
    how: dict[str, Any] = {
        "first_token_from": str(draw.choice(["decode", "prefill"])),
        "kv_load_failure_policy": str(draw.choice(["fail", "recompute"])),
        "kv_unused_fraction": float(draw.choice([0.0, 0.3])),
        "load_failure_fraction": float(draw.choice([0.0, 0.3])),
        "kv_store_bytes": float(draw.choice([0.0, 2e8])),
    }
    link = {
        "bandwidth_bytes_per_s": float(10 ** draw.uniform(8.5, 10.5)),
        "streaming": bool(draw.integers(2)),
        "handover_s": float(draw.choice([0.0, 0.02])),
    }
    knobs = {"num_gpu_blocks": 120, "max_model_len": 500, "max_num_batched_tokens": 256}
    prefix = {"tokens": int(draw.choice([0, 64])), "groups": 2}
    scenario = pools(
        asked("user", lengths, outputs, arrivals, 80, shared_prefix=prefix),
        prefill=int(draw.integers(1, 4)),
        decode=int(draw.integers(1, 4)),
        link=link,
        prefill_knobs=knobs,
        decode_knobs=knobs | {"enable_prefix_caching": bool(draw.integers(2))},
        scenario={"seed": seed},
        **how,
    )
    return parse_scenario(scenario.model_dump(mode="json")), how


@pytest.mark.parametrize("seed", range(60))
def test_the_summary_accounts_for_every_request(seed: int) -> None:
    """Finished requests were prefilled once and moved once, or finished at prefill, or too short,
    or recomputed; bytes are those of the tokens that were not cached at the decode server."""
    scenario, how = random_scenario(seed)
    result = simulate(scenario)
    summary, recording = result.summary, result.recording
    ways = recording.kv_transfers[:80]
    ended = ("finished", "failed", "rejected", "aborted")
    assert sum(summary[name] for name in ended) == summary["requests"] == 80
    recompute = how["kv_load_failure_policy"] == "recompute"
    loads_lost = np.isin(ways.outcome, (5, 6)).sum()
    assert loads_lost == (ways.outcome == 6).sum() if recompute else summary["failed"] == loads_lost
    moved_once = summary["kv_transfers"] - loads_lost
    unused = summary["recomputed_prefills"] - (loads_lost if recompute else 0)
    assert summary["finished"] == (
        moved_once
        + summary["finished_at_prefill"]
        + summary["too_short_to_transfer"]
        + unused
        + (loads_lost if recompute else 0)
    )
    # one prefill leg each, and its token discarded or first
    assert (recording.prefill_requests.status == reasons.FINISHED).sum() == 80 - summary["rejected"]
    assert (recording.prefill_requests.num_output_tokens == 1).all()
    # bytes
    arrived = np.isfinite(ways.end_s)
    cached = recording.requests.hit_tokens[arrived & (ways.outcome == MOVED)].sum()
    tokens = ways.num_tokens[arrived].sum()
    assert summary["kv_transfer_bytes"] == pytest.approx(tokens * TOKEN_BYTES_8B)
    moved = recording.requests.num_prompt_tokens[arrived & (ways.outcome == MOVED)].sum()
    assert ways.num_tokens[arrived & (ways.outcome == MOVED)].sum() + cached == moved
    # tokens to the client: each step's, and the prefill servers' where theirs is the first
    emitted = recording.items.num_tokens == recording.items.num_needed
    by_decode = int((emitted & (recording.items.request < 80)).sum())
    by_prefill = 80 if how["first_token_from"] == "prefill" else 0
    assert summary["output_tokens"] == by_decode + by_prefill
    short = recording.requests.num_prompt_tokens < 16
    at_prefill = ways.outcome == FINISHED_AT_PREFILL
    assert ((ways.outcome == TOO_SHORT) == (short & ~at_prefill)).all()

"""Clusters: conservation over pools, one path for a lone server, routers, random clusters."""

from typing import Any

import numpy as np
import pytest

from sim.cluster import loop, simulator
from sim.cluster.cluster_state import (
    BOTH,
    BUSY,
    DECODE,
    FINISHED_AT_PREFILL,
    KV_UNUSED,
    LOAD_FAILED,
    LOAD_RECOMPUTED,
    MOVED,
    PREFILL,
    ROUTERS,
    TOO_SHORT,
)
from sim.cluster.topology import Topology
from sim.core import reasons
from sim.core.integrity import check_integrity
from sim.core.recording import Recording
from sim.core.requests import Table, empty_requests
from sim.engines import dispatch
from sim.results.run import simulate
from sim.scenario.load import ScenarioError, load_scenario
from sim.workload.prompt_tokens import private_content, run_table
from tests.conftest import EXAMPLES
from tests.tools.builders import linear_latency, policy_rows

TOKEN_BYTES = 1_000.0


def table_of(generator: np.random.Generator, n: int, shared: bool) -> tuple[Table, Table]:
    """Random requests, some of which share a prefix, go away early or end early."""
    table = empty_requests(n)
    table.arrival_s = np.sort(generator.exponential(0.01, n).cumsum())
    table.num_prompt_tokens = generator.integers(1, 120, n)
    table.max_tokens = generator.integers(1, 40, n)
    table.output_len = np.minimum(table.max_tokens, generator.integers(1, 40, n))
    leaves = generator.random(n) < 0.15
    table.abort_after_s = np.where(leaves, generator.exponential(0.1, n), np.inf)
    if shared:
        prompts = [[(int(generator.integers(3)) * 1000, int(k))] for k in table.num_prompt_tokens]
        runs, table.first_run, table.num_runs = run_table(prompts)
    else:
        runs, table.first_run, table.num_runs = private_content(table.num_prompt_tokens)
    return table, runs


def rows_of(generator: np.random.Generator, count: int, caching: bool) -> Table:
    one = policy_rows(
        "vllm_v1",
        max_num_batched_tokens=int(generator.choice([16, 48, 128])),
        max_num_seqs=int(generator.integers(2, 9)),
        max_model_len=200,
        num_gpu_blocks=int(generator.integers(16, 60)),
        enable_prefix_caching=caching,
    )
    rows: Table = np.concatenate([one] * count).view(np.recarray)
    return rows


def random_fleet(generator: np.random.Generator, seed: int) -> tuple[Topology, int]:
    prefills, decodes = int(generator.integers(1, 4)), int(generator.integers(1, 4))
    servers = prefills + decodes
    topology = Topology(
        roles=(PREFILL,) * prefills + (DECODE,) * decodes,
        kv_token_bytes=(TOKEN_BYTES,) * servers,
        disaggregated=True,
        router=int(generator.integers(5)),
        decode_router=int(generator.integers(6)),
        bandwidth=float(10 ** generator.uniform(5, 8)),
        latency_s=float(generator.choice([0.0, 1e-3])),
        per_descriptor_s=float(generator.choice([0.0, 1e-5])),
        handover_s=float(generator.choice([0.0, 0.02])),
        streaming=bool(generator.integers(2)),
        first_token_at_prefill=bool(generator.integers(2)),
        recompute_failed_loads=bool(generator.integers(2)),
        kv_unused_fraction=float(generator.choice([0.0, 0.2])),
        load_failure_fraction=float(generator.choice([0.0, 0.2])),
        store_blocks=int(generator.choice([0, 40])),
        seed=seed,
    )
    return topology, servers


def run_checked(
    table: Table, runs: Table, policy: Table, latency: Table, topology: Topology
) -> tuple[Recording, Any, Any]:
    """Run, and check every server's state whenever a step has been planned and run."""
    state, cluster = simulator.prepare(table, runs, policy, latency, topology=topology)
    used = dispatch.used(policy.engine)
    for taken in range(100_000):
        outcome = loop.run_slice(state, cluster, used, simulator.pools_of(cluster), 1)
        if outcome == loop.RECORDING_FULL:
            state = simulator.with_more_room(state, cluster)
        elif outcome != loop.STEP_QUOTA_REACHED:
            break
        if taken % 7 == 0:
            for replica in range(len(policy)):
                check_integrity_between(state, cluster, replica)
    recording = simulator.close(state, cluster, *simulator.explain_outcome(outcome, state, cluster))
    return recording, state, cluster


def check_integrity_between(state: Any, cluster: Any, replica: int) -> None:
    """A busy server's plan is not computed yet: its prefix cache is ahead of it."""
    if cluster.servers[replica].activity != BUSY:
        check_integrity(state, replica)


@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=[pytest.mark.slow] if s > 11 else []) for s in range(60)]
)
def test_random_clusters_lose_nothing(seed: int) -> None:
    generator = np.random.default_rng(seed)
    table, runs = table_of(generator, int(generator.integers(5, 80)), bool(generator.integers(2)))
    topology, servers = random_fleet(generator, seed)
    policy = rows_of(generator, servers, bool(generator.integers(2)))
    recording, state, cluster = run_checked(table, runs, policy, linear_latency(servers), topology)

    assert recording.status == "finished", recording.reason
    requests, n = recording.requests, len(table)
    ended = (
        reasons.FINISHED,
        reasons.ABORTED_REQUEST,
        reasons.REJECTED,
        reasons.FAILED,
    )
    assert np.isin(requests.status, ended).all()
    finished = requests.status == reasons.FINISHED
    wanted = np.minimum(requests.max_tokens, requests.output_len)
    wanted = np.minimum(wanted, policy[0].max_model_len - requests.num_prompt_tokens)
    assert (requests.num_output_tokens[finished] == wanted[finished]).all()
    assert (requests.end_s[finished] >= requests.first_token_s[finished]).all()

    # every finished request was prefilled once, and its KV met exactly one fate
    ways = recording.kv_transfers[:n]
    assert (recording.prefill_requests.status[finished] == reasons.FINISHED).all()
    fates = (MOVED, FINISHED_AT_PREFILL, TOO_SHORT, KV_UNUSED, LOAD_RECOMPUTED)
    assert np.isin(ways.outcome[finished], fates).all()
    assert (ways.outcome[requests.status == reasons.FAILED] == LOAD_FAILED).all()
    moved = finished & (ways.outcome == MOVED)
    assert (ways.end_s[moved] >= ways.prefill_end_s[moved]).all()
    expected = ways.num_tokens[moved] * TOKEN_BYTES
    np.testing.assert_allclose(ways.total_bytes[moved], expected)
    assert (
        ways.num_tokens[moved] + requests.hit_tokens[moved] == requests.num_prompt_tokens[moved]
    ).all()

    # tokens computed: prompts once at the prefill server, what preemption computed again counted
    assert len(recording.items) > 0
    computed = np.bincount(recording.items.request, recording.items.num_tokens, minlength=2 * n)
    legs = np.flatnonzero(finished)
    fetched = np.zeros(n)
    if topology.store_blocks:
        stored = recording.kv_transfers[n:]
        fetched = np.where(stored.outcome == MOVED, stored.num_tokens, 0)
    once = (
        requests.num_prompt_tokens
        + recording.prefill_requests.recomputed_tokens
        - recording.prefill_requests.hit_tokens
        - fetched
    )
    resumed = recording.prefill_requests.resumed_hit_tokens
    assert (computed[n:][legs] >= (once - resumed)[legs]).all()
    assert (computed[n:][legs] <= (once + requests.num_prompt_tokens)[legs]).all()

    # no block is held and no transfer is pending
    assert cluster.clock[0].num_active_transfers == 0
    for replica in range(len(state.policy)):
        check_integrity(state, replica)
        assert state.counters[replica].num_free_blocks == state.policy[replica].num_gpu_blocks - 1
    assert (cluster.servers.num_unfinished == 0).all()
    assert (cluster.servers.unfinished_tokens == 0).all()


def test_same_run_twice_is_the_same() -> None:
    traces = []
    for _ in range(2):
        generator = np.random.default_rng(5)
        table, runs = table_of(generator, 60, True)
        topology, servers = random_fleet(generator, 5)
        policy = rows_of(generator, servers, True)
        traces.append(
            simulator.run(table, runs, policy, linear_latency(servers), topology=topology)
        )
    first, second = traces
    for name in ("steps", "items", "requests", "prefill_requests", "kv_transfers"):
        one, other = getattr(first, name), getattr(second, name)
        for column in one.dtype.names:
            np.testing.assert_array_equal(one[column], other[column], f"{name}.{column}")


@pytest.mark.parametrize("router", range(5), ids=ROUTERS[:5])
def test_replicas_of_a_router_serve_everybody_once(router: int) -> None:
    generator = np.random.default_rng(router)
    table, runs = table_of(generator, 120, True)
    policy = rows_of(generator, 4, True)
    topology = Topology(roles=(BOTH,) * 4, kv_token_bytes=(0.0,) * 4, router=router)
    recording, _, cluster = run_checked(table, runs, policy, linear_latency(4), topology)
    assert recording.status == "finished"
    assert len(np.unique(recording.requests.replica)) == 4
    for row in recording.steps:
        items = recording.items[row.first_item : row.first_item + row.num_items]
        assert (recording.requests.replica[items.request] == row.replica).all()
    assert (cluster.servers.num_unfinished == 0).all()


def test_round_robin_of_far_apart_requests_is_that_many_lone_servers() -> None:
    """Two servers in turn: each runs as if it were alone with its half of the requests."""
    generator = np.random.default_rng(1)
    table, runs = table_of(generator, 40, False)
    policy = rows_of(generator, 2, False)
    table.abort_after_s = np.inf
    topology = Topology(roles=(BOTH, BOTH), kv_token_bytes=(0.0, 0.0))
    both = simulator.run(table, runs, policy, linear_latency(2), topology=topology)
    for replica in range(2):
        half = table[replica::2].copy()
        alone = simulator.run(half, runs, policy[:1], linear_latency(1))
        together = both.requests[replica::2]
        accepted = together.status == reasons.FINISHED
        assert (alone.requests.status == together.status).all()
        np.testing.assert_array_equal(alone.requests.end_s, together.end_s)
        np.testing.assert_array_equal(
            alone.requests.first_token_s[accepted], together.first_token_s[accepted]
        )


def test_block_tables_are_as_wide_as_the_longest_request() -> None:
    """Not as max_model_len, which many servers would have no memory for."""
    generator = np.random.default_rng(3)
    table, runs = table_of(generator, 40, False)
    policy = rows_of(generator, 3, False)
    policy.max_model_len, policy.num_gpu_blocks = 131_072, 10_000
    topology = Topology(roles=(BOTH,) * 3, kv_token_bytes=(0.0,) * 3)
    state, _ = simulator.prepare(table, runs, policy, linear_latency(3), topology=topology)
    longest = int((table.num_prompt_tokens + table.output_len).max())
    assert longest < state.block_table.shape[2] * policy[0].block_size < longest + 32
    recording = simulator.run(table, runs, policy, linear_latency(3), topology=topology)
    assert recording.status == "finished"


def test_tables_that_do_not_fit_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Recording:
        raise MemoryError("Unable to allocate 33.2 GiB")

    monkeypatch.setattr(simulator, "run", full)
    scenario = load_scenario(EXAMPLES / "pd_plain.json")
    with pytest.raises(ScenarioError, match="tables of 2 servers do not fit: Unable to allocate"):
        simulate(scenario)

"""A cluster of one is the single server, column by column, for every policy; and servers that do
not meet are lone servers each."""

from typing import Any

import numpy as np
import pytest

from sim.cluster import simulator
from sim.cluster.cluster_state import BOTH, ROUTERS
from sim.cluster.topology import Topology
from sim.core.recording import Recording
from sim.core.requests import Table, empty_requests
from sim.engines.registry import ENGINE_IDS
from sim.workload.prompt_tokens import private_content
from tests.tools.builders import linear_latency, policy_rows

# Little KV, so that preemptions, swaps and refusals are part of what must be equal.
SCARCE: dict[str, dict[str, Any]] = {
    "vllm_v1": {"num_gpu_blocks": 31, "max_model_len": 200, "max_num_batched_tokens": 64},
    "vllm_v0": {"num_gpu_blocks": 30, "max_model_len": 200, "max_num_batched_tokens": 256},
    "sarathi": {"num_gpu_blocks": 30, "max_model_len": 200, "chunk_size": 64},
    "orca": {"num_gpu_blocks": 48, "max_model_len": 128, "max_num_seqs": 4},
    "static": {"max_batch_size": 4, "kv_tokens": 800},
    "sglang": {"max_total_tokens": 480, "context_length": 200, "chunked_prefill_size": 64},
    "tensorrt_llm": {"num_blocks": 30, "max_seq_len": 200, "max_num_tokens": 64},
}


def table_of(count: int, seed: int) -> tuple[Table, Table]:
    """Random requests, some of whose clients go away, some of a closed loop's users."""
    generator = np.random.default_rng(seed)
    table = empty_requests(count)
    table.arrival_s = np.sort(generator.exponential(0.01, count).cumsum())
    table.num_prompt_tokens = generator.integers(1, 80, count)
    table.max_tokens = generator.integers(1, 40, count)
    table.output_len = np.minimum(table.max_tokens, generator.integers(1, 40, count))
    leaves = generator.random(count) < 0.15
    table.abort_after_s = np.where(leaves, generator.exponential(0.1, count), np.inf)
    runs, table.first_run, table.num_runs = private_content(table.num_prompt_tokens)
    return table, runs


def rows_of(*engines: str) -> Table:
    """One POLICY row for each named engine, with little KV."""
    rows = [policy_rows(name, **SCARCE[name]) for name in engines]
    together: Table = np.concatenate(rows).view(np.recarray)
    return together


def assert_same(one: Recording, other: Recording, without: tuple[str, ...] = ()) -> None:
    assert (one.status, one.reason) == (other.status, other.reason)
    for table in ("steps", "items", "events", "gaps", "requests"):
        ours, theirs = getattr(one, table), getattr(other, table)
        assert len(ours) == len(theirs), table
        for column in ours.dtype.names:
            if column not in without:
                np.testing.assert_array_equal(ours[column], theirs[column], f"{table}.{column}")


@pytest.mark.parametrize("name", ENGINE_IDS)
def test_a_router_in_front_of_one_server_changes_nothing(name: str) -> None:
    table, runs = table_of(60, 1)
    alone = simulator.run(table, runs, rows_of(name), linear_latency(1))
    assert len(alone.steps) > 50
    for router in range(len(ROUTERS) - 1):
        topology = Topology(roles=(BOTH,), kv_token_bytes=(0.0,), router=router)
        routed = simulator.run(table, runs, rows_of(name), linear_latency(1), topology=topology)
        assert_same(alone, routed)


def half(table: Table, replica: int) -> Table:
    """Every second request, for a server alone."""
    rows: Table = table[replica::2].copy()
    return rows


def check_each_alone(both: Recording, table: Table, runs: Table, policy: Table) -> None:
    """The steps and requests of each of two servers are those of a lone one."""
    for replica in range(2):
        alone = simulator.run(
            half(table, replica), runs, policy[replica : replica + 1], linear_latency(1)
        )
        steps = both.steps[both.steps.replica == replica]
        assert len(steps) == len(alone.steps) > 20
        for column in steps.dtype.names:
            if column not in ("replica", "first_item", "first_event", "num_events"):
                np.testing.assert_array_equal(steps[column], alone.steps[column], column)
        together = both.requests[replica::2]
        for column in together.dtype.names:
            if column not in ("replica", "first_run", "next_waiting", "previous_waiting"):
                np.testing.assert_array_equal(
                    together[column], alone.requests[column], f"requests.{column}"
                )


@pytest.mark.parametrize(
    "pair",
    [(name, name) for name in ENGINE_IDS]
    + [("vllm_v1", "vllm_v0"), ("static", "sglang"), ("tensorrt_llm", "vllm_v1")],
    ids="-".join,
)
def test_two_servers_in_turn_are_two_lone_servers(pair: tuple[str, str]) -> None:
    """Also of two engines in one cluster."""
    table, runs = table_of(80, 2)
    policy = rows_of(*pair)
    topology = Topology(roles=(BOTH, BOTH), kv_token_bytes=(0.0, 0.0))
    both = simulator.run(table, runs, policy, linear_latency(2), topology=topology)
    assert both.status == "finished"
    check_each_alone(both, table, runs, policy)

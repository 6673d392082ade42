"""Any engine but static batching can prefill for vLLM V1: random pools lose nothing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sim.cluster.cluster_state import PREFILL
from sim.core import reasons
from tests.sim.cluster.test_cluster import random_fleet, rows_of, run_checked, table_of
from tests.tools.builders import linear_latency, policy_rows

SMALL: dict[str, dict[str, Any]] = {
    "vllm_v0": {
        "num_gpu_blocks": 40,
        "max_model_len": 200,
        "max_num_batched_tokens": 256,
        "max_num_seqs": 8,
    },
    "sarathi": {"num_gpu_blocks": 40, "max_model_len": 200, "chunk_size": 64, "max_num_seqs": 8},
    "orca": {"num_gpu_blocks": 104, "max_model_len": 200, "max_num_seqs": 8},
    "sglang": {
        "max_total_tokens": 640,
        "context_length": 200,
        "chunked_prefill_size": 64,
        "max_running_requests": 8,
        "page_size": 16,
    },
    "tensorrt_llm": {
        "num_blocks": 40,
        "max_seq_len": 200,
        "max_num_tokens": 64,
        "max_batch_size": 8,
        "enable_block_reuse": True,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(2), 7, 8, 9])
@pytest.mark.parametrize("engine", SMALL)
def test_random_pools_lose_nothing(engine: str, seed: int) -> None:
    """Seed 7 of SGLang: its pool is full of KV to be fetched, then empty, and it goes on."""
    generator = np.random.default_rng(seed)
    table, runs = table_of(generator, int(generator.integers(5, 80)), bool(generator.integers(2)))
    topology, servers = random_fleet(generator, seed)
    topology = replace(topology, store_blocks=0)
    count = topology.roles.count(PREFILL)
    rows = [policy_rows(engine, **SMALL[engine])] * count
    rows += [rows_of(generator, 1, False)] * (servers - count)
    policy = np.concatenate(rows).view(np.recarray)
    recording, state, cluster = run_checked(table, runs, policy, linear_latency(servers), topology)
    assert recording.status == "finished", recording.reason
    ended = (reasons.FINISHED, reasons.ABORTED_REQUEST, reasons.REJECTED, reasons.FAILED)
    assert np.isin(recording.requests.status, ended).all()
    for replica in range(servers):
        assert state.counters[replica].num_free_blocks == policy[replica].num_gpu_blocks - 1
    assert (cluster.servers.num_unfinished == 0).all()

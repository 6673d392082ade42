"""KV on its way: sizes and times that can be worked out by hand, and fair sharing against a second,
slow reckoning of the same rules."""

from typing import Any

import numpy as np
import pytest

from sim.cluster import simulator
from sim.cluster.cluster_state import DECODE, MOVED, PREFILL
from sim.cluster.topology import Topology
from sim.core.recording import Recording
from sim.hardware import catalog
from sim.results.run import simulate
from tests.field.field import asked, at
from tests.sim.cluster.test_cluster import TOKEN_BYTES, rows_of, table_of
from tests.tools.builders import linear_latency
from tests.tools.pools import (
    GIGABIT,
    PREFILL_TOKEN_S,
    STEP_S,
    TOKEN_BYTES_8B,
    one,
    pools,
    prefill_s,
    run_pools,
)

FIRST_STEP_S = STEP_S + PREFILL_TOKEN_S  # of a request whose prompt was moved: one token


# --- one transfer ---------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["Llama-3.1-70B", "Llama-2-70B"])
def test_kv_of_4096_tokens_of_a_70b_model_is_1_34_gb(model: str) -> None:
    """2 x 80 layers x 8 KV heads x 128 x 2 bytes x 4,096 tokens."""
    token_bytes = catalog.model(model).kv_bytes_per_token(1, catalog.kv_element_bytes("auto"))
    assert token_bytes * 4096 == 2 * 80 * 8 * 128 * 2 * 4096
    assert round(token_bytes * 4096 / 1e9, 2) == 1.34
    prompt = 4095  # Llama 2 is made for 4,096 tokens, the first output token included
    knobs = {"max_model_len": 4096}
    moved = run_pools(one(prompt), model=model, prefill_knobs=knobs, decode_knobs=knobs)
    assert moved.summary["kv_transfer_bytes"] == token_bytes * prompt


@pytest.mark.parametrize(("gigabits", "milliseconds"), [(100, 107), (800, 13.4)])
def test_4096_tokens_of_a_70b_model_over_a_link(gigabits: int, milliseconds: float) -> None:
    link = {"kind": f"rdma_{gigabits}g", "latency_s": 0, "bandwidth_bytes_per_s": None}
    summary = run_pools(one(4096), model="Llama-3.1-70B", link=link).summary
    assert 1e3 * summary["kv_transfer_s"]["max"] == pytest.approx(milliseconds, rel=5e-3)
    assert summary["kv_transfer_s"]["max"] == pytest.approx(
        summary["kv_transfer_bytes"] / (gigabits * GIGABIT)
    )


def test_a_cache_of_one_byte_a_number_is_half_the_bytes() -> None:
    scenario = pools(one(1024))
    smaller = [each.model_copy(update={"kv_cache_dtype": "fp8"}) for each in scenario.replicas]
    full = simulate(scenario).summary["kv_transfer_bytes"]
    half = simulate(scenario.model_copy(update={"replicas": tuple(smaller)})).summary[
        "kv_transfer_bytes"
    ]
    assert full == 1024 * TOKEN_BYTES_8B == 2 * half


def test_latency_and_descriptors_come_before_the_bytes() -> None:
    """Fresh pools: one contiguous piece, once for each of 32 layers."""
    plain = run_pools(one(4096)).summary["kv_transfer_s"]["max"]
    link = {"latency_s": 0.002, "per_descriptor_s": 1e-4}
    slow = run_pools(one(4096), link=link)
    assert slow.recording.kv_transfers.num_descriptors.tolist()[0] == 32
    expected = plain + 0.002 + 32 * 1e-4
    assert slow.summary["kv_transfer_s"]["max"] == pytest.approx(expected)


def test_the_hand_over_is_no_part_of_the_transfer() -> None:
    plain, slow = run_pools(one(4096)), run_pools(one(4096), link={"handover_s": 0.1})
    assert slow.summary["kv_transfer_s"] == pytest.approx(plain.summary["kv_transfer_s"])
    assert slow.summary["ttft_s"]["max"] == pytest.approx(plain.summary["ttft_s"]["max"] + 0.1)


# --- shared links ---------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_n_transfers_at_once_take_n_times_as_long(count: int) -> None:
    """All prompts end in the same prefill step, so all transfers begin at once."""
    summary = run_pools(asked("one", 1024, 4, count=count)).summary
    alone = 1024 * TOKEN_BYTES_8B / (100 * GIGABIT)
    assert summary["kv_transfer_s"]["mean"] == pytest.approx(count * alone)
    assert summary["kv_transfer_s"]["max"] == pytest.approx(count * alone)


@pytest.mark.parametrize(
    ("prefill", "decode", "sharers"), [(1, 2, 2), (2, 1, 2), (2, 2, 1), (1, 1, 2)]
)
def test_both_ends_share(prefill: int, decode: int, sharers: int) -> None:
    """Two transfers share whichever end they have in common."""
    result = run_pools(asked("one", 1024, 4, count=2), prefill=prefill, decode=decode)
    alone = 1024 * TOKEN_BYTES_8B / (100 * GIGABIT)
    assert result.summary["kv_transfer_s"]["mean"] == pytest.approx(sharers * alone)


def test_a_transfer_that_joins_later_takes_half_from_then_on() -> None:
    """Two prefill servers, one decode server. A is alone until B starts; then each has half the
    link until A is done; then B has all of it."""
    first, second, rate = 2048, 4096, 100 * GIGABIT
    link = {"bandwidth_bytes_per_s": rate / 10}
    prompts = {"kind": "list", "values": [first, second]}
    result = run_pools(asked("pair", prompts, 4, at(0.0, 0.0)), prefill=2, link=link)
    ways, rate = result.recording.kv_transfers[:2], rate / 10
    begun, joined = prefill_s(first), prefill_s(second)
    assert ways.start_s.tolist() == pytest.approx([begun, joined])
    left = first * TOKEN_BYTES_8B - (joined - begun) * rate
    a_ends = joined + 2 * left / rate
    both = (left + second * TOKEN_BYTES_8B) / rate
    assert left > 0
    assert ways.end_s.tolist() == pytest.approx([a_ends, joined + both])


def fair_ends(ways: Any, topology: Topology) -> np.ndarray:
    """When each transfer ends, reckoned anew: at every start, end of a setup and end of a transfer,
    each flowing one gets bandwidth / max(sharers of its sender, of its receiver)."""
    count = len(ways)
    flows_s = ways.start_s + topology.latency_s + ways.num_descriptors * topology.per_descriptor_s
    left = ways.total_bytes.astype(float)
    ends = np.full(count, np.nan)
    now = 0.0
    while np.isnan(ends).any():
        flowing = [k for k in range(count) if flows_s[k] <= now and np.isnan(ends[k])]
        rates = {}
        for k in flowing:
            senders = sum(ways.source[j] == ways.source[k] for j in flowing)
            receivers = sum(ways.target[j] == ways.target[k] for j in flowing)
            rates[k] = topology.bandwidth / max(senders, receivers)
        later = [t for t in flows_s if t > now]
        done = [now + left[k] / rates[k] for k in flowing]
        until = min(later + done)
        for k in flowing:
            if done[flowing.index(k)] <= until:
                ends[k], left[k] = until, 0.0
            else:
                left[k] -= rates[k] * (until - now)
        now = until
    return ends


def random_moves(seed: int) -> tuple[Recording, Topology]:
    """A cluster whose clients stay and whose KV is moved after the prefill."""
    generator = np.random.default_rng(seed)
    table, runs = table_of(generator, 60, False)
    table.abort_after_s = np.inf
    topology = Topology(
        roles=(PREFILL, PREFILL, DECODE, DECODE, DECODE),
        kv_token_bytes=(TOKEN_BYTES,) * 5,
        disaggregated=True,
        router=int(generator.integers(5)),
        decode_router=int(generator.integers(6)),
        bandwidth=float(10 ** generator.uniform(5, 7)),
        latency_s=float(generator.choice([0.0, 1e-3])),
        per_descriptor_s=float(generator.choice([0.0, 1e-4])),
        seed=seed,
    )
    return simulator.run(
        table, runs, rows_of(generator, 5, False), linear_latency(5), topology=topology
    ), topology


@pytest.mark.parametrize("seed", range(25))
def test_random_transfers_share_fairly(seed: int) -> None:
    recording, topology = random_moves(seed)
    ways = recording.kv_transfers[: len(recording.requests)]
    moved = ways[ways.outcome == MOVED]
    assert len(moved) > 20
    overlap = (moved.start_s[1:] < moved.end_s[:-1]).sum()
    assert overlap > 0, "nothing was shared"
    np.testing.assert_allclose(moved.end_s, fair_ends(moved, topology), rtol=1e-9)


# --- streamed -------------------------------------------------------------------------------------


def test_streaming_hides_all_but_the_last_chunk_when_the_link_keeps_up() -> None:
    chunks, size = 4, 1024
    knobs = {"max_num_batched_tokens": size}
    chunk_s = size * TOKEN_BYTES_8B / (100 * GIGABIT)
    assert chunk_s < prefill_s(size)
    ends = {}
    for streaming in (False, True):
        result = run_pools(one(chunks * size), link={"streaming": streaming}, prefill_knobs=knobs)
        way = result.recording.kv_transfers[0]
        assert way.prefill_end_s == pytest.approx(chunks * prefill_s(size))
        ends[streaming] = way.end_s - way.prefill_end_s
        ttft_s = way.end_s + FIRST_STEP_S
        assert result.summary["ttft_s"]["max"] == pytest.approx(ttft_s)
    assert ends[False] == pytest.approx(chunks * chunk_s)
    assert ends[True] == pytest.approx(chunk_s)


def test_streaming_adds_what_is_missing_when_the_link_does_not_keep_up() -> None:
    """The link is busy from the end of the first chunk until all has gone."""
    chunks, size, rate = 4, 1024, 20 * GIGABIT
    chunk_s = size * TOKEN_BYTES_8B / rate
    assert chunk_s > prefill_s(size)
    result = run_pools(
        one(chunks * size),
        link={"streaming": True, "bandwidth_bytes_per_s": rate},
        prefill_knobs={"max_num_batched_tokens": size},
    )
    way = result.recording.kv_transfers[0]
    assert way.end_s == pytest.approx(prefill_s(size) + chunks * chunk_s)


def test_streamed_chunks_pay_the_latency_each_time_the_link_has_run_dry() -> None:
    size = 1024
    result = run_pools(
        one(2 * size),
        link={"streaming": True, "latency_s": 0.001},
        prefill_knobs={"max_num_batched_tokens": size},
    )
    way = result.recording.kv_transfers[0]
    chunk_s = size * TOKEN_BYTES_8B / (100 * GIGABIT)
    assert way.end_s - way.prefill_end_s == pytest.approx(0.001 + chunk_s)

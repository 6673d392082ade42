"""The way of a request through prefill and decode pools, in times and counts worked out by hand."""

from typing import Any

import numpy as np
import pytest

from sim.cluster.cluster_state import (
    FINISHED_AT_PREFILL,
    KV_UNUSED,
    LOAD_RECOMPUTED,
    MOVED,
    TOO_SHORT,
)
from sim.core import reasons
from sim.results.run import Result
from tests.field.field import asked, at, token_times
from tests.tools.pools import (
    DECODE_S,
    GIGABIT,
    PREFILL_TOKEN_S,
    STEP_S,
    TOKEN_BYTES_8B,
    one,
    prefill_s,
    run_pools,
)

PROMPT = 4096
TRANSFER_S = PROMPT * TOKEN_BYTES_8B / (100 * GIGABIT)
LAST_TOKEN_S = STEP_S + PREFILL_TOKEN_S  # the last prompt token once more, for its logits
GAP_S = STEP_S + DECODE_S


def events(result: Result, kind: int, r: int) -> list[tuple[int, int]]:
    """(value, limit) of the events of a kind of request `r`."""
    rows = result.recording.events
    mine = rows[(rows.kind == kind) & (rows.request == r)]
    return [(int(e.value), int(e.limit)) for e in mine]


def items_of(result: Result, r: int) -> list[tuple[int, int]]:
    """(tokens, computed before) of each step of `r`."""
    items = result.recording.items[result.recording.items.request == r]
    return [(int(i.num_tokens), int(i.num_computed_tokens)) for i in items]


# --- the first token ------------------------------------------------------------------------------


def test_ttft_is_prefill_transfer_and_one_decode_step() -> None:
    """vLLM with NIXL: the prefill server's answer is discarded."""
    result = run_pools(one(PROMPT, 8))
    assert result.summary["ttft_s"]["max"] == pytest.approx(
        prefill_s(PROMPT) + TRANSFER_S + LAST_TOKEN_S
    )
    assert result.summary["itl_s"]["max"] == pytest.approx(GAP_S)
    assert result.summary["output_tokens"] == 8


def test_the_next_gap_holds_the_transfer_where_the_prefill_token_counts() -> None:
    """DistServe, Splitwise: the first token comes from the prefill server."""
    result = run_pools(one(PROMPT, 8), first_token_from="prefill", link={"handover_s": 0.03})
    assert result.summary["ttft_s"]["max"] == pytest.approx(prefill_s(PROMPT))
    gaps = np.diff([prefill_s(PROMPT), *token_times(result, 0)])
    assert gaps.tolist() == pytest.approx([0.03 + TRANSFER_S + GAP_S, *[GAP_S] * 6])
    assert result.summary["itl_s"]["max"] == pytest.approx(0.03 + TRANSFER_S + GAP_S)
    assert result.summary["output_tokens"] == 8


def test_finished_at_prefill_where_the_first_token_is_the_last() -> None:
    result = run_pools(one(PROMPT, 1), first_token_from="prefill")
    request = result.recording.requests[0]
    assert result.recording.kv_transfers.outcome[0] == FINISHED_AT_PREFILL
    assert request.end_s == pytest.approx(prefill_s(PROMPT))
    assert reasons.FINISH_REASONS[request.finish_reason] == "length"
    summary = result.summary
    assert (summary["finished_at_prefill"], summary["kv_transfers"]) == (1, 0)
    assert summary["replicas"][1]["steps"] == 0
    discarded = run_pools(one(PROMPT, 1)).summary
    assert (discarded["finished_at_prefill"], discarded["kv_transfers"]) == (0, 1)


def test_ttft_doubles_when_the_kv_is_not_used() -> None:
    result = run_pools(one(PROMPT, 8), kv_unused_fraction=1)
    assert result.summary["ttft_s"]["max"] == pytest.approx(2 * prefill_s(PROMPT))
    assert result.recording.kv_transfers.outcome[0] == KV_UNUSED
    assert result.summary["recomputed_prefills"] == 1
    assert result.summary["kv_transfers"] == 0


def test_some_kv_is_not_used() -> None:
    """The seed draws which; those compute their prompt twice, no others do."""
    result = run_pools(
        asked("user", 512, 8, {"kind": "constant", "rate_per_s": 10}, 60), kv_unused_fraction=0.3
    )
    unused = result.recording.kv_transfers.outcome[:60] == KV_UNUSED
    assert 5 < unused.sum() < 35
    on_decode = np.bincount(result.recording.items.request, result.recording.items.num_tokens)[:60]
    assert on_decode[unused].tolist() == [512 + 7] * unused.sum()
    assert on_decode[~unused].tolist() == [8] * (~unused).sum()


# --- what is moved --------------------------------------------------------------------------------


def test_a_request_enters_with_all_but_the_last_prompt_token_computed() -> None:
    result = run_pools(one(PROMPT, 3))
    assert items_of(result, 0) == [(1, PROMPT - 1), (1, PROMPT), (1, PROMPT + 1)]
    assert items_of(result, 1) == [(PROMPT, 0)]  # its leg
    assert result.recording.kv_transfers.num_tokens[0] == PROMPT
    assert events(result, reasons.KV_LOADED, 0) == [(PROMPT - 1, 0)]
    assert result.recording.requests.first_scheduled_s[0] == result.recording.kv_transfers.end_s[0]


@pytest.mark.parametrize(("prompt", "moves"), [(15, 0), (16, 1), (17, 1)])
def test_prompts_shorter_than_a_block_are_computed_where_they_decode(
    prompt: int, moves: int
) -> None:
    result = run_pools(one(prompt, 4))
    assert result.summary["kv_transfers"] == moves
    assert result.summary["too_short_to_transfer"] == 1 - moves
    assert items_of(result, 0)[0] == ((1, prompt - 1) if moves else (prompt, 0))
    assert result.recording.kv_transfers.outcome[0] == (MOVED if moves else TOO_SHORT)


def test_what_the_decode_server_has_cached_is_not_moved() -> None:
    """The second prompt shares 1,024 tokens with the first; a third one is known altogether."""
    shared = {"tokens": 1024, "groups": 1}
    caching = {"enable_prefix_caching": True}
    prompts = {"kind": "list", "values": [2048, 1536]}
    result = run_pools(
        asked("user", prompts, 4, at(0.0, 10.0), shared_prefix=shared),
        prefill_knobs=caching,
        decode_knobs=caching,
    )
    ways = result.recording.kv_transfers[:2]
    assert ways.num_tokens.tolist() == [2048, 512]
    assert result.summary["kv_transfer_bytes"] == (2048 + 512) * TOKEN_BYTES_8B
    assert result.recording.requests.hit_tokens.tolist() == [0, 1024]


def test_a_prompt_that_is_cached_whole_but_its_last_block_moves_that_block() -> None:
    """The engine never hits the last token: a prompt seen before still has its last block moved."""
    caching = {"enable_prefix_caching": True}
    result = run_pools(
        asked("user", 1024, 4, at(0.0, 10.0), shared_prefix={"tokens": 1024}),
        prefill_knobs=caching,
        decode_knobs=caching,
    )
    ways = result.recording.kv_transfers[:2]
    assert ways.num_tokens.tolist() == [1024, 16]


def test_scattered_blocks_are_so_many_descriptors_more() -> None:
    """Two requests whose blocks alternate in the prefill pool; each piece costs 32 layers."""
    knobs = {"max_num_batched_tokens": 32, "max_num_seqs": 8}
    result = run_pools(asked("user", 128, 4, count=2), prefill_knobs=knobs)
    ways = result.recording.kv_transfers[:2]
    assert ways.num_descriptors[0] == 32
    apart = run_pools(
        asked("user", 128, 4, count=2),
        prefill_knobs=knobs | {"long_prefill_token_threshold": 16},
    )
    assert apart.recording.kv_transfers.num_descriptors[:2].tolist() == [8 * 32, 8 * 32]


# --- failures -------------------------------------------------------------------------------------


def test_a_failed_load_fails_the_request() -> None:
    """vLLM's default. The others go on, and the blocks come back: there is room for one at a
    time."""
    knobs = {"num_gpu_blocks": 2 * PROMPT // 16, "max_model_len": PROMPT + 64}
    result = run_pools(
        asked("user", PROMPT, 8, {"kind": "constant", "rate_per_s": 3}, 20),
        load_failure_fraction=0.5,
        decode_knobs=knobs,
    )
    summary = result.summary
    assert summary["failed"] + summary["finished"] == 20
    assert 3 < summary["failed"] < 17
    failed = result.recording.requests[result.recording.requests.status == reasons.FAILED]
    assert (failed.num_output_tokens == 0).all()
    assert summary["recomputed_prefills"] == 0


def test_a_failed_load_is_recomputed_if_so_asked() -> None:
    result = run_pools(one(PROMPT, 8), load_failure_fraction=1, kv_load_failure_policy="recompute")
    assert result.summary["finished"] == 1
    assert result.summary["ttft_s"]["max"] == pytest.approx(2 * prefill_s(PROMPT) + TRANSFER_S)
    assert result.recording.kv_transfers.outcome[0] == LOAD_RECOMPUTED
    assert result.summary["recomputed_prefills"] == 1


# --- waiting for KV -------------------------------------------------------------------------------


def test_who_waits_for_kv_does_not_block_those_behind() -> None:
    """A large prompt crawls over a slow link; a short one behind it is computed on the spot."""
    result = run_pools(
        asked("large", PROMPT, 4, at(0.0)),
        asked("short", 12, 4, at(0.5)),
        link={"bandwidth_bytes_per_s": GIGABIT},
    )
    way, (large, short) = result.recording.kv_transfers[0], result.recording.requests
    assert way.start_s < short.arrival_s
    assert short.end_s < way.end_s
    assert large.first_token_s == pytest.approx(way.end_s + LAST_TOKEN_S)
    # it held its blocks meanwhile
    during = result.recording.steps[(result.recording.steps.replica == 1)][:4]
    assert (during.kv_blocks == PROMPT // 16 + 1).all()
    assert (during.num_running == 1).all()
    assert (during.num_waiting == 1).all()


def test_decode_blocks_are_reserved_before_the_transfer_begins() -> None:
    """Room for one request: the second one's KV stays where it is until the first has ended."""
    knobs = {"num_gpu_blocks": PROMPT // 16 + 8, "max_model_len": PROMPT + 64}
    result = run_pools(asked("user", PROMPT, 32, at(0.0, 0.0)), decode_knobs=knobs)
    first, second = result.recording.kv_transfers[:2]
    assert second.prefill_end_s < first.end_s
    assert second.start_s == result.recording.requests.end_s[0]
    # the second one's blocks are taken while the first one decodes: the event has both numbers
    knobs["num_gpu_blocks"] = 2 * (PROMPT // 16) + 16
    result = run_pools(asked("user", PROMPT, 32, at(0.0, 0.1)), decode_knobs=knobs)
    assert events(result, reasons.LOADING_KV, 1) == [(PROMPT, PROMPT // 16)]


def test_prefill_blocks_are_held_until_the_transfer_ends() -> None:
    """Room for one prompt: the next one is computed when the KV of the last one has gone."""
    knobs = {"num_gpu_blocks": PROMPT // 16 + 1, "max_model_len": PROMPT + 64}
    result = run_pools(asked("user", PROMPT, 4, at(0.0, 0.0, 0.0)), prefill_knobs=knobs)
    ways, legs = result.recording.kv_transfers[:3], result.recording.prefill_requests
    assert legs.first_scheduled_s[1:].tolist() == ways.end_s[:2].tolist()
    roomy = run_pools(asked("user", PROMPT, 4, at(0.0, 0.0, 0.0)))
    assert (
        roomy.recording.prefill_requests.first_scheduled_s[1]
        < roomy.recording.kv_transfers.end_s[0]
    )


# --- overload -------------------------------------------------------------------------------------


def test_early_rejection_turns_away_who_would_wait_too_long() -> None:
    """A burst of 20 prompts against a limit of half a second: without it most miss it."""
    burst: dict[str, Any] = asked("user", 4096, 8, count=20)
    slo = {"slo": {"ttft_s": 0.5}}
    knobs = {"max_num_batched_tokens": 4096}
    served, spared = (
        run_pools(burst, scenario=slo, prefill_knobs=knobs, early_rejection=early)
        for early in (False, True)
    )
    assert served.summary["rejected"] == 0
    late = served.recording.requests.first_token_s > 0.5
    assert late.sum() > 10
    reasons_given = spared.summary["rejected_reasons"]
    assert reasons_given == {"slo_out_of_reach": spared.summary["rejected"]}
    # as many prompts as fit: all ahead and its own, then hand-over, transfer and a decode step
    each = prefill_s(4096)
    fits = [k for k in range(1, 21) if k * each + TRANSFER_S + STEP_S + k * DECODE_S <= 0.5]
    assert abs(spared.summary["finished"] - len(fits)) <= 1
    assert spared.summary["goodput_rps"] >= served.summary["goodput_rps"]
    assert spared.summary["ttft_s"]["max"] <= 0.5


def test_early_rejection_takes_everybody_while_there_is_room() -> None:
    calm = asked("user", 4096, 8, {"kind": "constant", "rate_per_s": 2}, 20)
    summary = run_pools(calm, scenario={"slo": {"ttft_s": 0.5}}, early_rejection=True).summary
    assert summary["rejected"] == 0
    assert summary["finished"] == 20


# --- closed loops ---------------------------------------------------------------------------------


@pytest.mark.parametrize("first_token_from", ["decode", "prefill"])
def test_a_closed_loop_goes_round_through_both_pools(first_token_from: str) -> None:
    """Four users: never more than four in the system, each new one a second after an answer."""
    loop = {"kind": "closed_loop", "users": 4, "think_time_s": 1.0}
    outputs = {"kind": "list", "values": [1, 5, 9]}
    result = run_pools(
        asked("user", 700, outputs, loop, 40),
        first_token_from=first_token_from,
        load_failure_fraction=0.1,
    )
    requests = result.recording.requests
    assert result.summary["finished"] + result.summary["failed"] == 40
    times = np.concatenate([requests.arrival_s, requests.end_s])
    signs = np.repeat([1, -1], 40)
    in_system = np.cumsum(signs[np.lexsort((-signs, times))])
    assert in_system.max() == 4
    assert in_system[-1] == 0
    released = np.sort(requests.arrival_s)[4:]
    np.testing.assert_allclose(released, np.sort(requests.end_s)[:36] + 1.0)

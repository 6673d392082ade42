"""vLLM V0 by hand: prompts first, and preemption by swap."""

import pytest

from sim.cluster import simulator
from sim.core import reasons
from sim.core import scheduler_ops as ops
from sim.core.integrity import check_integrity, waiting_ids
from sim.core.state import records
from sim.latency.model import LATENCY, linear
from tests.tools.builders import Server, linear_latency, policy_rows, request_table


def v0(asked: list[tuple[int, int]], host_blocks: int = 0, **knobs: object) -> Server:
    columns = {"num_host_blocks": host_blocks}
    return Server(asked, engine="vllm_v0", columns=columns, **knobs)


def four_decodes_and_a_prompt(budget: int) -> Server:
    server = v0([(1, 50)] * 4 + [(48, 8)], max_num_batched_tokens=budget)
    server.add(0, 1, 2, 3).step()
    return server.add(4)


def test_budget_16_refuses_a_48_token_prompt() -> None:
    server = four_decodes_and_a_prompt(16)
    assert server.plan() == []
    assert server.events(reasons.IGNORED) == [(4, 48, 16)]
    server.complete()
    request = server.state.requests[4]
    assert reasons.STATUSES[request.status] == "rejected"
    assert reasons.REJECTIONS[request.rejection] == "prompt_exceeds_token_budget"
    assert len(server.step()) == 4


def test_budget_48_takes_one_step_and_holds_four_decodes_back() -> None:
    server = four_decodes_and_a_prompt(48)
    assert server.step() == [(4, 48, 0)]
    assert server.state.counters[0].num_running == 5
    assert len(server.step()) == 5


def test_prompts_go_on_as_long_as_anybody_can_be_admitted() -> None:
    """Two steps of prompts, 100 tokens each, before the first decode."""
    server = v0([(50, 3)] * 4, max_num_batched_tokens=100).add(0, 1, 2, 3)
    assert [r for r, _, _ in server.step()] == [0, 1]
    assert server.stop_reason == "budget"
    assert [r for r, _, _ in server.step()] == [2, 3]
    assert [r for r, _, _ in server.step()] == [0, 1, 2, 3]


def test_a_prompt_that_does_not_fit_the_rest_of_the_step_ends_it() -> None:
    server = v0([(60, 3), (60, 3), (10, 3)], max_num_batched_tokens=100).add(0, 1, 2)
    assert server.step() == [(0, 60, 0)]
    assert server.stop_reason == "whole_prompt"
    assert server.events(reasons.REFUSED_WHOLE_PROMPT) == [(1, 60, 40)]


def test_the_watermark_keeps_one_percent_free() -> None:
    """Of 200 blocks 2 stay free: 198 are admitted, 199 are not."""
    knobs = {"num_gpu_blocks": 200, "watermark": 0.01, "block_size": 4, "max_model_len": 900}
    fits = v0([(198 * 4, 2)], **knobs).add(0)
    assert len(fits.step()) == 1
    waits = v0([(198 * 4 + 1, 2)], **knobs).add(0)
    assert waits.step() == []
    assert waits.events(reasons.REFUSED_KV_BLOCKS) == [(0, 201, 200)]


def test_a_victim_that_outgrew_the_token_limit_is_dropped() -> None:
    """Preempted with 17 tokens at a limit of 16: the next step drops it and runs nothing else."""
    server = v0([(8, 30), (8, 30)], max_num_batched_tokens=16, block_size=4, num_gpu_blocks=10)
    server.add(0, 1)
    while not server.events(reasons.PREEMPTION):
        server.plan()
        victims = server.events(reasons.PREEMPTION)
        server.complete()
    assert victims[0][0] == 1
    assert server.plan() == []
    assert server.events(reasons.IGNORED)[0][::2] == (1, 16)
    server.complete()
    server.run()
    assert server.state.requests[0].num_output_tokens == 30


# --- swap -----------------------------------------------------------------------------------------

TIGHT = {"block_size": 4, "num_gpu_blocks": 5}


def test_swap_moves_blocks_out_and_back_and_computes_nothing_twice() -> None:
    """8 + 7 tokens fill 4 of 5 blocks. The first takes the fifth, its second finds none free."""
    server = v0([(8, 5), (7, 5), (4, 5)], host_blocks=100, **TIGHT).add(0, 1)
    server.step()
    assert server.plan() == [(0, 1, 8)]
    assert server.events(reasons.SWAPPED_OUT) == [(1, 7, 2)]
    assert server.state.counters[0].swapped_out_blocks == 2
    assert server.state.counters[0].num_free_host_blocks == 98
    server.complete()
    server.add(2)
    while not server.events(reasons.SWAPPED_IN):
        assert server.events(reasons.ADMITTED) == [], (
            "no request is admitted before the swapped return"
        )
        server.step()
    assert server.events(reasons.SWAPPED_IN) == [(1, 7, 2)]
    assert server.state.counters[0].num_free_host_blocks == 100
    server.run()
    requests = server.state.requests
    assert requests.num_output_tokens.tolist() == [5, 5, 5]
    assert requests.recomputed_tokens.sum() == 0
    assert requests.num_preemptions[:2].tolist() == [0, 1]


def test_a_full_host_pool_falls_back_to_recompute() -> None:
    server = v0([(8, 5), (7, 5)], host_blocks=1, **TIGHT).add(0, 1)
    server.step()
    server.plan()
    assert server.events(reasons.SWAPPED_OUT) == []
    assert server.events(reasons.PREEMPTION) == [(1, 7, 2)]
    assert waiting_ids(server.state) == [1]
    server.complete()
    server.run()
    assert server.state.requests[1].recomputed_tokens >= 7


@pytest.mark.parametrize("host_blocks", [0, 100])
def test_a_request_that_outgrows_the_pool_stalls_with_its_name(host_blocks: int) -> None:
    """Alone on 5 blocks of 4 it gets to 20 tokens and can never come back with one more."""
    table, runs = request_table([(8, 50), (7, 5)])
    table.arrival_s = 0.0
    policy = policy_rows("vllm_v0", columns={"num_host_blocks": host_blocks}, **TIGHT)
    recording = simulator.run(table, runs, policy, linear_latency())
    assert recording.status == "stalled"
    assert recording.stuck_request == 0
    assert "kv_blocks" in (recording.reason or "")


def test_an_aborted_swapped_request_frees_host_memory() -> None:
    server = v0([(8, 5), (7, 5)], host_blocks=100, **TIGHT).add(0, 1)
    server.step()
    server.step()
    assert server.abort(1)
    assert server.state.counters[0].num_free_host_blocks == 100
    server.run()


def test_a_cancelled_step_swaps_back_out() -> None:
    server = v0([(8, 5), (7, 5)], host_blocks=100, **TIGHT).add(0, 1)
    server.step()
    while not server.events(reasons.SWAPPED_IN):
        server.plan()
        if server.events(reasons.SWAPPED_IN):
            break
        server.complete()
    ops.cancel_step(server.state, 0)
    check_integrity(server.state)
    assert server.state.counters[0].num_swapped == 1
    server.run()
    assert server.state.requests.num_output_tokens.tolist() == [5, 5]


def test_a_swap_takes_the_time_of_its_bytes_both_ways() -> None:
    """Blocks of 1 MB over 1 GB/s: n blocks make a step n ms longer, and a copy 10 us."""
    table, runs = request_table([(8, 5), (7, 5)])
    table.arrival_s = 0.0
    latency = records(1, LATENCY)
    latency[0] = linear(step_s=0.001, prefill_token_s=0.0, decode_s=0.0)
    latency[0].swap_block_bytes, latency[0].host_bandwidth = 1e6, 1e9
    latency[0].host_link_s = 10e-6
    policy = policy_rows("vllm_v0", columns={"num_host_blocks": 100}, **TIGHT)
    steps = simulator.run(table, runs, policy, latency).steps
    moved = steps.swapped_out_blocks + steps.swapped_in_blocks
    assert steps.swapped_out_blocks.sum() == steps.swapped_in_blocks.sum() == 2
    assert steps.duration_s.tolist() == pytest.approx(0.001 + moved * 0.001 + (moved > 0) * 10e-6)

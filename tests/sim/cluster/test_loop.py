"""The loop: arrivals, clocks, closed loops, aborts, and how every run ends."""

import random

import numpy as np
import pytest

from sim.cluster import simulator
from sim.cluster.simulator import Limits
from sim.core import reasons
from sim.core.recording import Recording
from tests.tools.builders import linear_latency, policy_rows, request_table

PREFILL_S, DECODE_S, STEP_S = 12e-6, 40e-6, 5e-3
NO_LIMITS = Limits()


def simulate(asked, arrival_s=None, *, limits=NO_LIMITS, loop_think_s=(), edit=None, **knobs):  # type: ignore[no-untyped-def]
    table, runs = request_table(asked)
    table.arrival_s = 0.0 if arrival_s is None else arrival_s
    if edit:
        edit(table)
    return simulator.run(
        table,
        runs,
        policy_rows(**knobs),
        linear_latency(),
        limits=limits,
        loop_think_s=loop_think_s,
    )


def tokens(recording: Recording) -> list[int]:
    return (recording.steps.num_prefill_tokens + recording.steps.num_decodes).tolist()


def test_the_sixteen_request_toy() -> None:
    """Prompt 2048 for every third request, else 384, budget 2048, cap 512: the first stretch."""
    draw = random.Random(42)
    asked = [(2048 if k % 3 == 0 else 384, draw.randint(48, 96)) for k in range(16)]
    recording = simulate(asked, long_prefill_token_threshold=512, max_num_seqs=32)
    assert tokens(recording)[:12] == [2048] * 6 + [1549, 1302, 790, 283, 16, 16]
    milliseconds = [29.58, 29.63, 29.69, 29.72, 29.80, 29.86, 23.95, 20.99, 14.87, 8.82, 5.64, 5.64]
    assert np.round(recording.steps.duration_s[:12] * 1e3, 2).tolist() == milliseconds
    assert len(recording.steps) == 99
    assert round(float(recording.steps.start_s[-1] + recording.steps.duration_s[-1]), 4) == 0.7344
    assert recording.status == "finished"


def test_one_request_by_hand() -> None:
    """100 prompt tokens and 3 outputs: one prefill step, two decodes, two gaps of one step each."""
    recording = simulate([(100, 3)], [1.0])
    first = STEP_S + 100 * PREFILL_S
    decode = STEP_S + DECODE_S
    assert recording.steps.start_s.tolist() == pytest.approx([1.0, 1 + first, 1 + first + decode])
    assert recording.steps.decode_context.tolist() == [0, 101, 102]
    assert recording.steps.prefill_pairs.tolist() == [5000.0, 0.0, 0.0]
    request = recording.requests[0]
    assert request.first_token_s == pytest.approx(1 + first)
    assert request.end_s == pytest.approx(1 + first + 2 * decode)
    assert request.max_gap_s == pytest.approx(decode)
    assert recording.steps.num_regular_gaps.tolist() == [0, 1, 1]
    assert recording.steps.kv_blocks.tolist() == [7, 7, 7]


def test_a_request_is_known_to_the_first_step_that_starts_after_it_arrived() -> None:
    recording = simulate([(10, 50), (10, 5)], [0.0, 0.006])
    second = recording.items[recording.items.request == 1][0]
    step = int(
        np.flatnonzero(
            recording.steps.first_item <= np.flatnonzero(recording.items.request == 1)[0]
        )[-1]
    )
    assert second.num_computed_tokens == 0
    assert recording.steps[step].start_s >= 0.006 > recording.steps[step - 1].start_s


def test_the_clock_jumps_over_idle_time() -> None:
    recording = simulate([(10, 1), (10, 1)], [0.0, 50.0])
    assert recording.steps.start_s.tolist() == [0.0, 50.0]


def test_gaps_that_are_no_step_are_written_down() -> None:
    """Chat 0 loses its place when it is preempted; the gap that follows spans many steps."""
    recording = simulate([(8, 30), (8, 30)], block_size=4, num_gpu_blocks=12)
    victims = recording.requests.num_preemptions
    assert victims.sum() >= 1
    assert len(recording.gaps) >= 1
    assert recording.gaps.seconds.max() == pytest.approx(recording.requests.max_gap_s.max())
    counted = int(recording.steps.num_regular_gaps.sum()) + int(recording.gaps["count"].sum())
    assert counted == int(recording.requests.num_output_tokens.sum()) - len(recording.requests)


def test_a_closed_loop_keeps_its_users_busy() -> None:
    """Two users, three seconds to think: the third request comes three seconds after one ended."""

    def loop(table) -> None:  # type: ignore[no-untyped-def]
        table.loop = 0
        table.arrival_s[2:] = np.inf

    recording = simulate([(10, 2)] * 6, [0.0] * 6, edit=loop, loop_think_s=(3.0,))
    requests = recording.requests
    assert recording.status == "finished"
    ends = np.sort(requests.end_s[:4])
    assert np.sort(requests.arrival_s)[2:].tolist() == pytest.approx((ends + 3.0).tolist())


def test_a_rejected_request_of_a_closed_loop_does_not_end_it() -> None:
    def loop(table) -> None:  # type: ignore[no-untyped-def]
        table.loop = 0
        table.arrival_s[1:] = np.inf

    recording = simulate([(10, 2), (9000, 2), (10, 2)], edit=loop, loop_think_s=(0.5,))
    statuses = [reasons.STATUSES[s] for s in recording.requests.status]
    assert statuses == ["finished", "rejected", "finished"]


def test_an_abort_frees_its_blocks_at_once() -> None:
    def impatient(table) -> None:  # type: ignore[no-untyped-def]
        table.abort_after_s[0] = 0.03

    recording = simulate([(100, 500), (100, 5)], edit=impatient)
    assert reasons.STATUSES[recording.requests[0].status] == "aborted"
    assert 0.03 <= recording.requests[0].end_s < 0.03 + 0.006
    assert recording.status == "finished"
    aborted = recording.events[recording.events.kind == reasons.ABORTED]
    assert aborted.request.tolist() == [0]


def test_what_cannot_run_is_rejected_and_the_run_goes_on() -> None:
    recording = simulate([(100, 5), (500, 5), (20, 5)], max_model_len=400, num_gpu_blocks=5)
    why = [reasons.REJECTIONS[k] for k in recording.requests.rejection]
    assert why == ["prompt_exceeds_kv_pool", "prompt_reaches_max_model_len", "none"]
    assert recording.status == "finished"


def test_generation_ends_at_max_model_len() -> None:
    recording = simulate([(90, 50)], max_model_len=100)
    assert recording.requests[0].num_output_tokens == 10
    assert reasons.FINISH_REASONS[recording.requests[0].finish_reason] == "max_model_len"


def test_eos_before_max_tokens_is_a_stop() -> None:
    def short(table) -> None:  # type: ignore[no-untyped-def]
        table.output_len = 4

    recording = simulate([(10, 50)], edit=short)
    assert recording.requests[0].num_output_tokens == 4
    assert reasons.FINISH_REASONS[recording.requests[0].finish_reason] == "stop"


def test_a_request_that_outgrows_the_pool_stalls_with_its_name() -> None:
    """It preempts itself and is never admitted again: the run ends and names the request that
    blocks it."""
    recording = simulate([(10, 100), (5, 3)], block_size=4, num_gpu_blocks=11)
    assert recording.status == "stalled"
    assert recording.stuck_request == 0
    assert "request 0" in (recording.reason or "")
    assert "kv_blocks" in (recording.reason or "")


def test_a_livelock_is_bounded() -> None:
    """Without the gate and the cache, a prompt that is too long preempts itself for ever."""
    recording = simulate(
        [(30, 20)],
        block_size=4,
        num_gpu_blocks=11,
        scheduler_reserve_full_isl=False,
        max_num_batched_tokens=16,
        max_num_seqs=16,
        limits=Limits(max_steps=500),
    )
    assert recording.status == "bounded"
    assert recording.reason == "max_steps: 500 steps were taken"
    assert recording.requests[0].recomputed_tokens > 0


def test_horizon() -> None:
    recording = simulate([(10, 5000)], limits=Limits(horizon_s=1.0))
    assert recording.status == "bounded"
    assert "horizon" in (recording.reason or "")
    assert recording.steps.start_s[-1] < 1.0


def test_deadline_and_cancel_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "STEPS_PER_SLICE", 10)
    late = simulate([(10, 5000)], limits=Limits(deadline_s=0.0))
    assert (late.status, len(late.steps)) == ("bounded", 10)
    table, runs = request_table([(10, 5000)])
    table.arrival_s = 0.0
    asked: list[int] = []

    def cancelled() -> bool:
        asked.append(1)
        return len(asked) == 3

    recording = simulator.run(table, runs, policy_rows(), linear_latency(), cancelled=cancelled)
    assert (recording.status, len(recording.steps)) == ("cancelled", 30)


@pytest.mark.parametrize("slice_", [1, 7, 20_000])
def test_slices_and_more_room_change_nothing(slice_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run full of preemptions leaves the same records in any slicing."""
    draw = random.Random(3)
    asked = [(draw.randint(20, 60), draw.randint(20, 60)) for _ in range(60)]
    knobs = {
        "block_size": 4,
        "num_gpu_blocks": 40,
        "max_num_seqs": 8,
        "enable_prefix_caching": True,
        "scheduler_reserve_full_isl": False,
    }
    whole = simulate(asked, **knobs)
    monkeypatch.setattr(simulator, "STEPS_PER_SLICE", slice_)
    sliced = simulate(asked, **knobs)
    for name in ("steps", "items", "events", "gaps"):
        assert np.array_equal(getattr(whole, name), getattr(sliced, name)), name


def test_tables_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    small = simulator.uninitialised
    monkeypatch.setattr("sim.core.state.uninitialised", lambda n, dtype: small(min(n, 300), dtype))
    asked = [(50, 80)] * 12
    grown = simulate(asked, block_size=4, num_gpu_blocks=90, max_num_seqs=4)
    monkeypatch.undo()
    roomy = simulate(asked, block_size=4, num_gpu_blocks=90, max_num_seqs=4)
    for name in ("steps", "items", "events", "gaps"):
        assert np.array_equal(getattr(grown, name), getattr(roomy, name)), name


def test_a_run_without_item_records_tells_the_same_story() -> None:
    table, runs = request_table([(300, 20)] * 20)
    table.arrival_s = np.arange(20) * 0.01
    traces = [
        simulator.run(
            table, runs, policy_rows(num_gpu_blocks=200), linear_latency(), record_items=on
        )
        for on in (True, False)
    ]
    assert len(traces[1].items) == 0
    one, other = (recording.steps.copy() for recording in traces)
    one.first_item = other.first_item
    assert np.array_equal(one, other)
    assert np.array_equal(traces[0].requests, traces[1].requests)


def test_littles_law() -> None:
    """Mean number in the system = arrival rate x mean time in it, integrated over the run."""
    draw = random.Random(5)
    asked = [(draw.randint(20, 400), draw.randint(5, 60)) for _ in range(120)]
    recording = simulate(asked, np.sort([draw.uniform(0, 4) for _ in range(120)]))
    requests, steps = recording.requests, recording.steps
    end = float(steps.start_s[-1] + steps.duration_s[-1])
    times = np.linspace(0, end, 40_000)
    inside = (requests.arrival_s[:, None] <= times) & (times < requests.end_s[:, None])
    mean_number = inside.sum(axis=0).mean()
    sojourn = (requests.end_s - requests.arrival_s).mean()
    assert mean_number == pytest.approx(len(asked) / end * sojourn, rel=1e-3)


def test_the_workload_is_left_as_it_was() -> None:
    table, runs = request_table([(10, 5)])
    table.arrival_s = 0.0
    before = table.copy()
    simulator.run(table, runs, policy_rows(), linear_latency())
    for name in table.dtype.names:
        assert np.array_equal(table[name], before[name], equal_nan=True), name

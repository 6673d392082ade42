"""The engine's loop: arrivals, plan, execute, complete, until nothing is left to do.

Here the clock lives. The loop is one compiled function that comes back every few thousand steps,
so that Python can look at a deadline, a cancel or a newer dial value, and make more room for
records. What executes a step here is a latency model; a real engine calls the same
`policies.schedule` and `moves.complete`."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim import moves, policies, queues, reasons
from sim.compiled import njit, njit_inner
from sim.happenings import CLOCK, LOOP, TIMER, World, deliver, next_happening, release_next
from sim.latency import step_seconds
from sim.load import measure_load
from sim.requests import Table
from sim.state import State, events_per_step, new_state, records, uninitialised
from sim.trace import Trace

STEPS_A_SLICE = 20_000
FIRST_ITEMS = 1 << 24  # room for item records at the start; it doubles when it is used up
MOST_RECORD_BYTES = 8 << 30  # of all records together

# How a slice of the loop ends.
SLICE_OVER, NO_ROOM, ALL_DONE, STALLED, AT_HORIZON, AT_MAX_STEPS = range(6)


# --- the loop ------------------------------------------------------------------------------------


@njit_inner
def open_step(state: State, replica: int, first_event: int) -> None:
    """Write the row of the step just planned, all but its duration."""
    counters, log, policy = state.counters[replica], state.log[0], state.policy[replica]
    step = state.steps[log.num_steps]
    step.start_s, step.duration_s, step.replica = counters.now_s, 0.0, replica
    step.first_item, step.num_items = log.num_items, counters.num_planned
    step.first_event, step.num_events = first_event, log.num_events - first_event
    step.stop_reason, step.num_preempted = counters.stop_reason, counters.num_preempted
    step.num_running = counters.num_running
    step.num_waiting = counters.num_waiting + counters.num_swapped
    step.kv_blocks = policy.num_gpu_blocks - 1 - counters.num_free_blocks
    step.num_regular_gaps = 0
    counters.peak_kv_blocks = max(counters.peak_kv_blocks, step.kv_blocks)
    measure_load(state, replica, step)


@njit_inner
def execute(state: State, world: World, replica: int) -> None:
    """Run the planned step: it takes as long as the latency model says, then its tokens count."""
    counters, log = state.counters[replica], state.log[0]
    step = state.steps[log.num_steps]
    step.duration_s = step_seconds(world.latency[replica], step)
    if world.clock[0].record_items:
        items, first = state.items, log.num_items
        for i in range(counters.num_planned):
            items[first + i] = state.plan[replica, i]
        log.num_items += counters.num_planned
    moves.complete(state, replica, world.flags, counters.now_s + step.duration_s)
    step.num_regular_gaps = log.num_regular_gaps
    log.num_steps += 1
    for i in range(counters.num_ended):
        release_next(state, world, state.ended[replica, i], counters.now_s)


@njit_inner
def has_room(state: State, world: World) -> bool:
    """Whether the records of one more step, and of everybody who may abort before it, fit."""
    log, most = state.log[0], state.plan.shape[1]
    return (
        log.num_steps + 1 < len(state.steps)
        and log.num_gaps + most < len(state.gaps)
        and log.num_events + 4 * most + 16 + world.clock[0].num_timers < len(state.events)
        and (not world.clock[0].record_items or log.num_items + most < len(state.items))
    )


@njit_inner
def stuck_request(state: State, replica: int) -> int:
    """Whom a run that cannot move hangs on: who is next to get KV, else the first to run."""
    counters = state.counters[replica]
    if counters.num_swapped > 0:
        return state.swapped[replica, counters.num_swapped - 1]
    if counters.num_waiting > 0:
        return queues.head(state, replica)
    return state.running[replica, 0]


@njit
def run_slice(state: State, world: World, engines: tuple[int, ...], max_steps: int) -> int:
    """Up to `max_steps` steps of a single server; returns why it came back."""
    clock, log = world.clock[0], state.log[0]
    replica = clock.replica
    counters = state.counters[replica]
    first_event = log.num_events
    while max_steps > 0:
        if not has_room(state, world):
            return NO_ROOM
        deliver(state, world, replica, counters.now_s)
        soonest = next_happening(state, world)
        if counters.num_running + counters.num_waiting + counters.num_swapped == 0:
            if soonest == np.inf:
                return ALL_DONE
            counters.now_s = max(soonest, counters.now_s)
            continue
        if counters.now_s >= clock.horizon_s:
            return AT_HORIZON
        if log.num_steps >= clock.max_steps:
            return AT_MAX_STEPS

        before = log.num_events
        policies.schedule_for(state, replica, engines)
        if counters.num_planned + counters.num_preempted + counters.num_ended == 0:
            if soonest < np.inf:
                log.num_events = before
                counters.now_s = max(soonest, counters.now_s)
                continue
            open_step(state, replica, first_event)
            log.num_steps += 1
            clock.stuck_request = stuck_request(state, replica)
            return STALLED
        open_step(state, replica, first_event)
        execute(state, world, replica)
        first_event = log.num_events
        max_steps -= 1
    return SLICE_OVER


# --- driving it from Python ----------------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    """Where a run is cut short: simulated seconds, steps, and seconds of this machine's time."""

    horizon_s: float = np.inf
    max_steps: int = 1_000_000
    deadline_s: float = np.inf


NO_LIMITS = Limits()


def run(
    requests: Table,
    runs: Table,
    policy: Table,
    latency: Table,
    *,
    loop_think_s: tuple[float, ...] = (),
    limits: Limits = NO_LIMITS,
    cancelled: Callable[[], bool] = lambda: False,
    record_items: bool = True,
) -> Trace:
    """Simulate one server until all requests ended, nothing can move any more, or a limit is met.

    Parameters: the request table (sorted by arrival; rows that a closed loop releases last, loop by
    loop, with arrival inf), its run table, one POLICY and one LATENCY row a replica. The table is
    copied: a workload can be run again. `cancelled` is asked between slices of steps."""
    requests = requests.copy()
    tokens = int(np.minimum(requests.output_len, requests.max_tokens).sum())
    state = new_state(
        requests,
        runs,
        policy,
        num_steps=4096,
        num_items=min(tokens + 4 * len(requests), FIRST_ITEMS) if record_items else 0,
        num_events=4 * len(requests) + 2 * events_per_step(policy),
    )
    world = new_world(state, latency, loop_think_s, limits, record_items)
    engines = policies.only(int(policy[0].engine)) if len(policy) == 1 else policies.ANY
    give_up = time.monotonic() + limits.deadline_s
    while True:
        outcome = run_slice(state, world, engines, STEPS_A_SLICE)
        if outcome == NO_ROOM:
            if record_bytes(state) > MOST_RECORD_BYTES // 2:
                reason = f"records: {MOST_RECORD_BYTES >> 30} GiB are full; ask for less of a run"
                return close(state, world, "bounded", reason)
            state = with_more_room(state, world)
        elif outcome != SLICE_OVER:
            break
        elif cancelled():
            return close(state, world, "cancelled", "cancelled by the reader")
        elif time.monotonic() > give_up:
            reason = f"deadline: {limits.deadline_s:g} s of computing time are over"
            return close(state, world, "bounded", reason)
    return close(state, world, *explain_outcome(outcome, state, world))


def new_world(
    state: State,
    latency: Table,
    loop_think_s: tuple[float, ...],
    limits: Limits,
    record_items: bool,
) -> World:
    """Clocks at zero; the first requests of every closed loop stand in the table with their
    arrival.
    """
    requests = state.requests
    clock = records(1, CLOCK)
    clock.horizon_s, clock.max_steps = limits.horizon_s, limits.max_steps
    clock.record_items, clock.stuck_request = record_items, -1
    loops = records(len(loop_think_s), LOOP)
    released = np.isinf(requests.arrival_s)
    clock.num_arrivals = len(requests) - released.sum()
    for k, think_s in enumerate(loop_think_s):
        rows = np.flatnonzero(released & (requests.loop == k))
        loops[k].next, loops[k].end = (rows[0], rows[-1] + 1) if len(rows) else (0, 0)
        loops[k].think_s = think_s
    timers = int(np.isfinite(requests.abort_after_s).sum() + released.sum())
    slots = int(state.policy.max_num_seqs.max())
    return World(clock, latency, records(timers + 1, TIMER), loops, np.zeros(slots, np.int32))


def record_bytes(state: State) -> int:
    return sum(t.nbytes for t in (state.steps, state.items, state.events, state.gaps))


def with_more_room(state: State, world: World) -> State:
    """The same state with twice the room wherever little is left."""
    log, most = state.log[0], state.plan.shape[1]
    margin = 8 * most + 64 + int(world.clock[0].num_timers)
    grown = {}
    for name, used in (
        ("steps", log.num_steps),
        ("items", log.num_items),
        ("events", log.num_events),
        ("gaps", log.num_gaps),
    ):
        rows = getattr(state, name)
        if used + margin >= len(rows) and (name != "items" or world.clock[0].record_items):
            larger = uninitialised(2 * len(rows) + margin, rows.dtype)
            larger[:used] = rows[:used]
            grown[name] = larger
    return state._replace(**grown)


def explain_outcome(outcome: int, state: State, world: World) -> tuple[str, str | None]:
    """(status, reason in words) of a run that ended by itself."""
    clock, log = world.clock[0], state.log[0]
    if outcome == ALL_DONE:
        return "finished", None
    if outcome == AT_HORIZON:
        return "bounded", f"horizon: {clock.horizon_s:g} s of simulated time are over"
    if outcome == AT_MAX_STEPS:
        return "bounded", f"max_steps: {clock.max_steps:,} steps were taken"
    last = state.steps[log.num_steps - 1]
    request = state.requests[clock.stuck_request]
    free, blocks = state.counters[0].num_free_blocks, state.policy[0].num_gpu_blocks - 1
    needs = -(-int(request.num_tokens) // int(state.policy[0].block_size))
    return "stalled", (
        f"stop reason {reasons.STOP_REASONS[last.stop_reason]}: request {clock.stuck_request} "
        f"({request.prompt_len:,} prompt and {request.num_outputs:,} output tokens, {needs:,} KV "
        f"blocks) cannot go on; {free:,} of {blocks:,} KV blocks are free"
    )


def close(state: State, world: World, status: str, reason: str | None) -> Trace:
    """The records written so far, as a Trace."""
    log, policy = state.log[0], state.policy[0]
    return Trace(
        steps=state.steps[: log.num_steps],
        items=state.items[: log.num_items],
        events=state.events[: log.num_events],
        gaps=state.gaps[: log.num_gaps],
        requests=state.requests,
        status=status,
        reason=reason,
        stuck_request=int(world.clock[0].stuck_request),
        block_size=int(policy.block_size),
        num_blocks=int(policy.num_gpu_blocks - 1),
        peak_kv_blocks=int(state.counters.peak_kv_blocks.max()),
    )

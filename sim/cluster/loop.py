"""The loop: what happens next in a cluster of servers, on one clock.

Requests arrive and a router sends each to a server; steps begin, run and end; KV moves; clients go
away. A single server is a cluster of one. The loop comes back when a step is planned, so that a
latency model, or a real engine, can say how long it takes."""

import numpy as np

from sim.cluster import kv_transfer, router
from sim.cluster.admission import refusal, release_next
from sim.cluster.cluster_state import (
    ABORT,
    ARRIVAL,
    BLOCKED,
    BOTH,
    BUSY,
    IDLE,
    OVER,
    PREFILL,
    STEP_BEGINS,
    STEP_ENDS,
    World,
)
from sim.cluster.disaggregation import (
    chunk_computed,
    client_left,
    hand_over,
    load_ended,
    prefilled,
    runs_now,
    send_to_prefill,
    start_loads,
)
from sim.cluster.early_rejection import out_of_reach
from sim.cluster.event_queue import drop_first_timer, first_timer_s, set_timer
from sim.cluster.replica import (
    close_step,
    has_room,
    has_work,
    open_step,
    run_until,
    stuck_request,
    wake,
)
from sim.core import reasons
from sim.core import scheduler_ops as ops
from sim.core.compiled import njit, njit_inner
from sim.core.state import State
from sim.engines import dispatch
from sim.latency.model import step_seconds

# What `pools` is where every server does both, and where some prefill and others decode.
LONE, DISAGGREGATED = (), (0,)

# How the loop comes back.
SLICE_OVER, NO_ROOM, ALL_DONE, STALLED, AT_HORIZON, AT_MAX_STEPS, PLANNED = range(7)


# --- requests ------------------------------------------------------------------------------------


@njit_inner
def arrive(state: State, world: World, pools: tuple[int, ...], r: int, now_s: float) -> None:
    """The router sends a request to a server, whose front end takes it or refuses it."""
    cluster, request = world.cluster[0], state.requests[r]
    journey = world.journeys[min(r, len(world.journeys) - 1)]
    row, role = r, BOTH
    if len(pools) > 0:
        row, role = r + cluster.num_requests, PREFILL
    cluster.next_prefill += 1
    turn = cluster.next_prefill - 1
    replica = router.choose(state, world, row, role, cluster.router, turn, journey.pick)
    request.rejection = refusal(state, replica, row)
    if len(pools) > 0:
        accepted = request.rejection == reasons.NOT_REJECTED
        if accepted and cluster.early_rejection and out_of_reach(state, world, r, replica):
            request.rejection = reasons.REJECT_SLO
    if request.rejection != reasons.NOT_REJECTED:
        request.status = reasons.REJECTED
        request.end_s = request.arrival_s
        release_next(state, world, r, request.arrival_s)
    else:
        if len(pools) > 0:
            send_to_prefill(state, world, r, replica, now_s)
        else:
            ops.add(state, replica, r)
            router.sent(state, world, replica, r)
        if request.abort_after_s < np.inf:
            leaves_s = request.arrival_s + request.abort_after_s
            set_timer(world, leaves_s, leaves_s, r, ABORT)
    wake(state, world, replica, now_s)


@njit_inner
def leave(
    state: State, world: World, pools: tuple[int, ...], r: int, since_s: float, now_s: float
) -> None:
    """The client of `r` went away. A running step is not disturbed: it ends first."""
    replica = state.requests[r].replica
    if len(pools) > 0:
        if runs_now(state, world, r):
            journey = world.journeys[r]
            server = world.servers[journey.target if journey.target >= 0 else journey.source]
            if server.activity != BUSY:
                server = world.servers[journey.source]
            set_timer(world, server.busy_until_s, since_s, r, ABORT)
        elif client_left(state, world, r, now_s):
            release_next(state, world, r, now_s)
    elif world.servers[replica].activity == BUSY:
        set_timer(world, world.servers[replica].busy_until_s, since_s, r, ABORT)
    elif ops.abort(state, r, now_s):
        router.over(state, world, replica, r)
        release_next(state, world, r, now_s)
        wake(state, world, replica, now_s)


@njit_inner
def step_ended(state: State, world: World, pools: tuple[int, ...], replica: int) -> None:
    """A step has run: count its tokens, see who has ended, and let the server plan again."""
    counters, cluster = state.counters[replica], world.cluster[0]
    close_step(state, world, replica)
    now_s = counters.now_s
    if len(pools) > 0 and cluster.streaming and world.servers[replica].role == PREFILL:
        for i in range(counters.num_scheduled):
            chunk_computed(state, world, state.plan[replica, i].request, now_s)
    for i in range(counters.num_ended):
        r = state.ended[replica, i]
        if len(pools) > 0:
            if r >= cluster.num_requests:
                prefilled(state, world, r - cluster.num_requests, now_s)
                continue
            world.journeys[r].stage = OVER
        router.over(state, world, replica, r)
        release_next(state, world, r, now_s)
    if has_work(state, replica):
        wake(state, world, replica, now_s)


# --- the loop ------------------------------------------------------------------------------------


@njit_inner
def go_on(
    state: State,
    world: World,
    engines: tuple[int, ...],
    pools: tuple[int, ...],
    may_begin: bool,
) -> int:
    """Let everything happen up to the next step, and plan it: PLANNED, `clock.replica` says where.

    Otherwise how the run ends, or SLICE_OVER or NO_ROOM where a step may not begin now. The length
    of `pools` tells the compiler whether there are prefill and decode servers (see
    policies.only)."""
    clock, requests = world.clock[0], state.requests
    while True:
        arrival_s = np.inf
        if clock.next_arrival < clock.num_arrivals:
            arrival_s = requests[clock.next_arrival].arrival_s
        timer_s, timer = first_timer_s(world), world.timers[0]
        outside_s = min(arrival_s, clock.next_transfer_s)
        if timer_s == np.inf and outside_s == np.inf:
            if at_rest(state, world):
                return ALL_DONE
            continue
        if timer_s < outside_s or (timer_s == outside_s and timer.kind == STEP_ENDS):
            r, kind, since_s = timer.subject, timer.kind, timer.since_s
            if kind == STEP_BEGINS:
                if not may_begin:
                    return SLICE_OVER
                if not has_room(state, world):
                    return NO_ROOM
                if max(timer_s, state.counters[r].now_s) >= clock.horizon_s:
                    return AT_HORIZON
                if state.log[0].num_steps >= clock.max_steps:
                    return AT_MAX_STEPS
                drop_first_timer(world)
                outcome = begin_step(state, world, r, engines, pools, timer_s)
                if outcome != SLICE_OVER:
                    return outcome
                continue
            drop_first_timer(world)
            if kind == STEP_ENDS:
                step_ended(state, world, pools, r)
            elif kind == ARRIVAL:
                arrive(state, world, pools, r, timer_s)
            elif kind == ABORT:
                leave(state, world, pools, r, since_s, timer_s)
            elif len(pools) > 0:
                hand_over(state, world, r, timer_s)
        elif len(pools) > 0 and clock.next_transfer_s <= arrival_s:
            now_s = clock.next_transfer_s
            r = kv_transfer.next_arrived(world, now_s)
            while r >= 0:
                load_ended(state, world, r, now_s)
                r = kv_transfer.next_arrived(world, now_s)
        else:
            clock.next_arrival += 1
            arrive(state, world, pools, clock.next_arrival - 1, arrival_s)


@njit_inner
def begin_step(
    state: State,
    world: World,
    replica: int,
    engines: tuple[int, ...],
    pools: tuple[int, ...],
    now_s: float,
) -> int:
    """Let a server plan: PLANNED, or SLICE_OVER if there is no step in it, or STALLED if there is
    none and nothing is to come that could change it."""
    counters, clock, log = state.counters[replica], world.clock[0], state.log[0]
    counters.now_s = max(now_s, counters.now_s)
    before = log.num_events
    dispatch.schedule_for(state, replica, engines)
    if len(pools) > 0 and counters.num_reserved > 0:
        start_loads(state, world, replica, now_s)
    changes = counters.num_scheduled + counters.num_preempted + counters.num_ended
    clock.replica = replica
    if changes > 0:
        open_step(state, world, replica)
        return PLANNED
    works = has_work(state, replica)
    world.servers[replica].activity = BLOCKED if works else IDLE
    if works and counters.num_reserved == 0 and nothing_to_come(world):
        open_step(state, world, replica)  # it never runs: its row says why
        clock.stuck_request = stuck_request(state, replica)
        return STALLED
    log.num_events = before  # of no step; that KV is on its way the journeys tell
    return SLICE_OVER


@njit_inner
def nothing_to_come(world: World) -> bool:
    clock = world.clock[0]
    nobody = clock.next_arrival == clock.num_arrivals and clock.num_timers == 0
    return nobody and clock.next_transfer_s == np.inf


@njit_inner
def at_rest(state: State, world: World) -> bool:
    """Nothing is to come any more. True: all is done. Else a server that cannot go on is asked once
    more, and says why."""
    for replica in range(world.cluster[0].num_replicas):
        if has_work(state, replica):
            wake(state, world, replica, state.counters[replica].now_s)
            return False
    return True


@njit
def run_slice(
    state: State,
    world: World,
    engines: tuple[int, ...],
    pools: tuple[int, ...],
    max_steps: int,
) -> int:
    """Up to `max_steps` steps, each as long as the latency model says; returns why it came back."""
    while True:
        outcome = go_on(state, world, engines, pools, max_steps > 0)
        if outcome != PLANNED:
            return outcome
        replica = world.clock[0].replica
        step = state.steps[state.counters[replica].step]
        run_until(state, world, replica, step_seconds(world.latency[replica], step))
        max_steps -= 1


@njit
def next_step(state: State, world: World, engines: tuple[int, ...]) -> int:
    """Let everything happen up to the next step and plan it, for an executor that runs it itself.

    PLANNED: `state.plan[clock.replica]` is to be run, then `finish_step`. Else how the run ends, or
    NO_ROOM for its records (`engine.with_more_room`)."""
    return go_on(state, world, engines, LONE, True)


@njit
def finish_step(state: State, world: World, replica: int, duration_s: float) -> None:
    """The planned step has run and took `duration_s` seconds; `world.flags` says which of its items
    end, by EOS (reasons.STOP) or because their client went away (reasons.ABORT)."""
    server = world.servers[replica]
    state.steps[state.counters[replica].step].duration_s = duration_s
    server.busy_until_s = state.counters[replica].now_s + duration_s
    world.clock[0].num_steps_open += 1
    step_ended(state, world, LONE, replica)


@njit
def wind_up(state: State, world: World, pools: tuple[int, ...]) -> None:
    """The run is cut short: the steps that have begun end, nothing else happens."""
    while world.clock[0].num_steps_open > 0:
        replica, kind = world.timers[0].subject, world.timers[0].kind
        drop_first_timer(world)
        if kind == STEP_ENDS:
            step_ended(state, world, pools, replica)

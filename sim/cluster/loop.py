"""The event loop of a cluster of servers, on one clock.

Requests arrive and a router sends each to a server; steps begin, run and end; KV is transferred;
requests are aborted. A single server is a cluster of one. The loop returns when a step is planned,
so that a latency model, or a real engine, can say how long it takes."""

import numpy as np

from sim.cluster import kv_transfer, router
from sim.cluster.admission import rejection_reason, slo_unreachable
from sim.cluster.closed_loop import release_next
from sim.cluster.cluster_state import (
    ABORT,
    ARRIVAL,
    BLOCKED,
    BOTH,
    BUSY,
    DONE,
    IDLE,
    PREFILL,
    STEP_BEGINS,
    STEP_ENDS,
    ClusterState,
)
from sim.cluster.disaggregation import (
    abort_request,
    chunk_computed,
    in_running_step,
    prefill_finished,
    send_to_decode,
    send_to_prefill,
    start_transfers,
    transfer_finished,
)
from sim.cluster.event_queue import next_event_s, pop_event, push_event
from sim.cluster.replica import (
    close_step,
    has_room,
    has_work,
    open_step,
    start_step,
    stuck_request,
    wake,
)
from sim.core import reasons
from sim.core import scheduler_ops as ops
from sim.core.compiled import njit, njit_inner
from sim.core.state import State
from sim.engines import dispatch
from sim.latency.model import step_seconds

# `pools` of a co-located and of a disaggregated cluster.
COLOCATED, DISAGGREGATED = (), (0,)

# Why the loop returns.
STEP_QUOTA_REACHED, RECORDING_FULL, ALL_DONE, STALLED, AT_HORIZON, AT_MAX_STEPS, PLANNED = range(7)


# --- requests ------------------------------------------------------------------------------------


@njit_inner
def arrive(
    state: State, cluster: ClusterState, pools: tuple[int, ...], r: int, now_s: float
) -> None:
    """The router sends a request to a server, whose front end accepts or rejects it."""
    config, request = cluster.config[0], state.requests[r]
    transfer = cluster.kv_transfers[min(r, len(cluster.kv_transfers) - 1)]
    row, role = r, BOTH
    if len(pools) > 0:
        row, role = r + config.num_requests, PREFILL
    config.next_prefill += 1
    turn = config.next_prefill - 1
    replica = router.choose(state, cluster, row, role, config.router, turn, transfer.pick)
    request.rejection = rejection_reason(state, replica, row)
    if len(pools) > 0:
        accepted = request.rejection == reasons.NOT_REJECTED
        if accepted and config.early_rejection and slo_unreachable(state, cluster, r, replica):
            request.rejection = reasons.REJECT_SLO
    if request.rejection != reasons.NOT_REJECTED:
        request.status = reasons.REJECTED
        request.end_s = request.arrival_s
        release_next(state, cluster, r, request.arrival_s)
    else:
        if len(pools) > 0:
            send_to_prefill(state, cluster, r, replica, now_s)
        else:
            ops.add(state, replica, r)
            router.request_sent(state, cluster, replica, r)
        if request.abort_after_s < np.inf:
            abort_at_s = request.arrival_s + request.abort_after_s
            push_event(cluster, abort_at_s, abort_at_s, r, ABORT)
    wake(state, cluster, replica, now_s)


@njit_inner
def client_disconnected(
    state: State,
    cluster: ClusterState,
    pools: tuple[int, ...],
    r: int,
    since_s: float,
    now_s: float,
) -> None:
    """The client of `r` disconnected. A running step is not interrupted: it ends first."""
    replica = state.requests[r].replica
    if len(pools) > 0:
        if in_running_step(state, cluster, r):
            transfer = cluster.kv_transfers[r]
            server = cluster.servers[transfer.target if transfer.target >= 0 else transfer.source]
            if server.activity != BUSY:
                server = cluster.servers[transfer.source]
            push_event(cluster, server.busy_until_s, since_s, r, ABORT)
        elif abort_request(state, cluster, r, now_s):
            release_next(state, cluster, r, now_s)
    elif cluster.servers[replica].activity == BUSY:
        push_event(cluster, cluster.servers[replica].busy_until_s, since_s, r, ABORT)
    elif ops.abort(state, r, now_s):
        router.request_ended(state, cluster, replica, r)
        release_next(state, cluster, r, now_s)
        wake(state, cluster, replica, now_s)


@njit_inner
def step_ended(state: State, cluster: ClusterState, pools: tuple[int, ...], replica: int) -> None:
    """A step has run: count its tokens, handle requests that ended, and let the server plan
    again."""
    counters, config = state.counters[replica], cluster.config[0]
    close_step(state, cluster, replica)
    now_s = counters.now_s
    if len(pools) > 0 and config.streaming and cluster.servers[replica].role == PREFILL:
        for i in range(counters.num_scheduled):
            chunk_computed(state, cluster, state.scheduled[replica, i].request, now_s)
    for i in range(counters.num_ended):
        r = state.ended[replica, i]
        if len(pools) > 0:
            if r >= config.num_requests:
                prefill_finished(state, cluster, r - config.num_requests, now_s)
                continue
            cluster.kv_transfers[r].stage = DONE
        router.request_ended(state, cluster, replica, r)
        release_next(state, cluster, r, now_s)
    if has_work(state, replica):
        wake(state, cluster, replica, now_s)


# --- the loop ------------------------------------------------------------------------------------


@njit_inner
def run_until_next_step(
    state: State,
    cluster: ClusterState,
    engines: tuple[int, ...],
    pools: tuple[int, ...],
    may_begin: bool,
) -> int:
    """Handle events up to the next step, and plan it: PLANNED, on replica `clock.replica`.

    Otherwise returns the status of the run, or STEP_QUOTA_REACHED or RECORDING_FULL if no step may
    begin now. The length of `pools` is known to the compiler, which omits the code that a
    co-located cluster does not need (see dispatch.only)."""
    clock, requests = cluster.clock[0], state.requests
    while True:
        arrival_s = np.inf
        if clock.next_arrival < clock.num_arrivals:
            arrival_s = requests[clock.next_arrival].arrival_s
        event_s, event = next_event_s(cluster), cluster.event_queue[0]
        next_external_s = min(arrival_s, clock.next_transfer_s)
        if event_s == np.inf and next_external_s == np.inf:
            if idle(state, cluster):
                return ALL_DONE
            continue
        if event_s < next_external_s or (event_s == next_external_s and event.kind == STEP_ENDS):
            r, kind, since_s = event.subject, event.kind, event.since_s
            if kind == STEP_BEGINS:
                if not may_begin:
                    return STEP_QUOTA_REACHED
                if not has_room(state, cluster):
                    return RECORDING_FULL
                if max(event_s, state.counters[r].now_s) >= clock.horizon_s:
                    return AT_HORIZON
                if state.log[0].num_steps >= clock.max_steps:
                    return AT_MAX_STEPS
                pop_event(cluster)
                outcome = begin_step(state, cluster, r, engines, pools, event_s)
                if outcome != STEP_QUOTA_REACHED:
                    return outcome
                continue
            pop_event(cluster)
            if kind == STEP_ENDS:
                step_ended(state, cluster, pools, r)
            elif kind == ARRIVAL:
                arrive(state, cluster, pools, r, event_s)
            elif kind == ABORT:
                client_disconnected(state, cluster, pools, r, since_s, event_s)
            elif len(pools) > 0:
                send_to_decode(state, cluster, r, event_s)
        elif len(pools) > 0 and clock.next_transfer_s <= arrival_s:
            now_s = clock.next_transfer_s
            r = kv_transfer.pop_finished(cluster, now_s)
            while r >= 0:
                transfer_finished(state, cluster, r, now_s)
                r = kv_transfer.pop_finished(cluster, now_s)
        else:
            clock.next_arrival += 1
            arrive(state, cluster, pools, clock.next_arrival - 1, arrival_s)


@njit_inner
def begin_step(
    state: State,
    cluster: ClusterState,
    replica: int,
    engines: tuple[int, ...],
    pools: tuple[int, ...],
    now_s: float,
) -> int:
    """Let a server plan: PLANNED, or STEP_QUOTA_REACHED if nothing was scheduled, or STALLED if no
    pending event could change that."""
    counters, clock, log = state.counters[replica], cluster.clock[0], state.log[0]
    counters.now_s = max(now_s, counters.now_s)
    before = log.num_events
    dispatch.schedule_for(state, replica, engines)
    if len(pools) > 0 and counters.num_reserved > 0:
        start_transfers(state, cluster, replica, now_s)
    changes = counters.num_scheduled + counters.num_preempted + counters.num_ended
    clock.replica = replica
    if changes > 0:
        open_step(state, cluster, replica)
        return PLANNED
    works = has_work(state, replica)
    cluster.servers[replica].activity = BLOCKED if works else IDLE
    if works and counters.num_reserved == 0 and no_pending_events(cluster):
        open_step(state, cluster, replica)  # it never runs: its row records the reason
        clock.stuck_request = stuck_request(state, replica)
        return STALLED
    log.num_events = before  # outside a step; the transfers record pending KV
    return STEP_QUOTA_REACHED


@njit_inner
def no_pending_events(cluster: ClusterState) -> bool:
    clock = cluster.clock[0]
    all_arrived = clock.next_arrival == clock.num_arrivals and clock.num_queued_events == 0
    return all_arrived and clock.next_transfer_s == np.inf


@njit_inner
def idle(state: State, cluster: ClusterState) -> bool:
    """No event is pending. True if no server has work; else a server that is stuck plans once more,
    and records why."""
    for replica in range(cluster.config[0].num_replicas):
        if has_work(state, replica):
            wake(state, cluster, replica, state.counters[replica].now_s)
            return False
    return True


@njit
def run_slice(
    state: State,
    cluster: ClusterState,
    engines: tuple[int, ...],
    pools: tuple[int, ...],
    max_steps: int,
) -> int:
    """Run up to `max_steps` steps, timed by the latency model; returns why it stopped."""
    while True:
        outcome = run_until_next_step(state, cluster, engines, pools, max_steps > 0)
        if outcome != PLANNED:
            return outcome
        replica = cluster.clock[0].replica
        step = state.steps[state.counters[replica].step]
        start_step(state, cluster, replica, step_seconds(cluster.latency[replica], step))
        max_steps -= 1


@njit
def next_step(state: State, cluster: ClusterState, engines: tuple[int, ...]) -> int:
    """Handle events up to the next step and plan it, for an executor that runs it itself.

    PLANNED: run `state.scheduled[clock.replica]`, then call `finish_step`. Otherwise the status of
    the run, or RECORDING_FULL for its records (`simulator.with_more_room`)."""
    return run_until_next_step(state, cluster, engines, COLOCATED, True)


@njit
def finish_step(state: State, cluster: ClusterState, replica: int, duration_s: float) -> None:
    """The planned step has run in `duration_s` seconds. `cluster.flags`: which of its items end, by
    EOS (reasons.STOP) or because their client disconnected (reasons.ABORT)."""
    server = cluster.servers[replica]
    state.steps[state.counters[replica].step].duration_s = duration_s
    server.busy_until_s = state.counters[replica].now_s + duration_s
    cluster.clock[0].num_steps_open += 1
    step_ended(state, cluster, COLOCATED, replica)


@njit
def finalize(state: State, cluster: ClusterState, pools: tuple[int, ...]) -> None:
    """Finalize a run that is cut short: end the steps that have begun, and handle no other
    event."""
    while cluster.clock[0].num_steps_open > 0:
        replica, kind = cluster.event_queue[0].subject, cluster.event_queue[0].kind
        pop_event(cluster)
        if kind == STEP_ENDS:
            step_ended(state, cluster, pools, replica)

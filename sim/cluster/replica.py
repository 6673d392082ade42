"""One server: a step begins (the engine plans it), and later ends (its tokens are counted).

A latency model or a real engine runs the step in between."""

from sim.cluster.cluster_state import (
    BLOCKED,
    BUSY,
    IDLE,
    READY,
    STEP_BEGINS,
    STEP_ENDS,
    ClusterState,
)
from sim.cluster.event_queue import push_event
from sim.core import scheduler_ops as ops
from sim.core import waiting_queue
from sim.core.compiled import njit_inner
from sim.core.state import State
from sim.latency.step_cost import measure_load


@njit_inner
def wake(state: State, cluster: ClusterState, replica: int, now_s: float) -> None:
    """An event changed a server that is not in a step: let it plan at `now_s`."""
    server = cluster.servers[replica]
    if server.activity in (IDLE, BLOCKED):
        server.activity = READY
        push_event(cluster, now_s, now_s, replica, STEP_BEGINS)


@njit_inner
def has_work(state: State, replica: int) -> bool:
    counters = state.counters[replica]
    queued = counters.num_waiting + counters.num_swapped + counters.num_loading
    return counters.num_running + queued > 0


@njit_inner
def open_step(state: State, cluster: ClusterState, replica: int) -> None:
    """Write the row of the step just planned, without its duration, and its items."""
    counters, log, policy = state.counters[replica], state.log[0], state.policy[replica]
    step = state.steps[log.num_steps]
    step.start_s, step.duration_s, step.replica = counters.now_s, 0.0, replica
    step.first_item, step.num_items = log.num_items, counters.num_scheduled
    first_event = cluster.clock[0].first_event
    step.first_event, step.num_events = first_event, log.num_events - first_event
    cluster.clock[0].first_event = log.num_events
    step.stop_reason, step.num_preempted = counters.stop_reason, counters.num_preempted
    step.num_running = counters.num_running
    step.num_waiting = counters.num_waiting + counters.num_swapped + counters.num_loading
    step.kv_blocks = policy.num_gpu_blocks - 1 - counters.num_free_blocks
    step.num_regular_gaps = 0
    counters.peak_kv_blocks = max(counters.peak_kv_blocks, step.kv_blocks)
    measure_load(state, replica, step)
    counters.step = log.num_steps
    log.num_steps += 1
    if cluster.clock[0].record_items:
        items, first = state.items, log.num_items
        for i in range(counters.num_scheduled):
            items[first + i] = state.scheduled[replica, i]
        log.num_items += counters.num_scheduled


@njit_inner
def start_step(state: State, cluster: ClusterState, replica: int, duration_s: float) -> None:
    """The planned step takes `duration_s` seconds: queue the event of its end."""
    counters, server, clock = state.counters[replica], cluster.servers[replica], cluster.clock[0]
    state.steps[counters.step].duration_s = duration_s
    server.activity = BUSY
    server.busy_until_s = counters.now_s + duration_s
    clock.num_steps_open += 1
    push_event(cluster, server.busy_until_s, server.busy_until_s, replica, STEP_ENDS)


@njit_inner
def close_step(state: State, cluster: ClusterState, replica: int) -> None:
    """The step has run: its tokens are counted, and requests that ended are in `ended`."""
    counters, server = state.counters[replica], cluster.servers[replica]
    ops.complete(state, replica, cluster.flags, server.busy_until_s)
    state.steps[counters.step].num_regular_gaps = state.log[0].num_regular_gaps
    cluster.clock[0].num_steps_open -= 1
    server.activity = IDLE


@njit_inner
def has_room(state: State, cluster: ClusterState) -> bool:
    """Whether there is room for the records of one more step and of the aborts before it."""
    log, clock = state.log[0], cluster.clock[0]
    most, replicas = state.scheduled.shape[1], len(cluster.servers)
    return (
        log.num_steps + 1 < len(state.steps)
        and log.num_gaps + most * replicas < len(state.gaps)
        and log.num_events + 4 * most + 16 + clock.num_queued_events < len(state.events)
        and (not clock.record_items or log.num_items + most < len(state.items))
    )


@njit_inner
def stuck_request(state: State, replica: int) -> int:
    """The request that blocks a stuck replica: the next one waiting for KV, otherwise the first
    running one."""
    counters = state.counters[replica]
    if counters.num_swapped > 0:
        return state.swapped[replica, counters.num_swapped - 1]
    if counters.num_loading > 0:
        return state.loading[replica, 0]
    if counters.num_waiting > 0:
        return waiting_queue.head(state, replica)
    return state.running[replica, 0]

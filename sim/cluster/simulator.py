"""Running a cluster from Python: slices of the compiled loop until the run ends or is ended. The
loop (loop.py) returns every few thousand steps, so that Python can check a deadline, a cancellation
or a newer dial value, and make more room for records."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim.cluster.cluster_state import CLOCK, LOOP, QUEUED_EVENT, ClusterState
from sim.cluster.loop import (
    ALL_DONE,
    AT_HORIZON,
    AT_MAX_STEPS,
    COLOCATED,
    DISAGGREGATED,
    RECORDING_FULL,
    STEP_QUOTA_REACHED,
    finalize,
    run_slice,
)
from sim.cluster.topology import SINGLE_REPLICA, Topology
from sim.core import reasons
from sim.core.recording import STEP, Recording
from sim.core.requests import Table
from sim.core.state import State, events_per_step, new_state, records, uninitialised
from sim.engines import dispatch
from sim.engines.registry import engine_spec

STEPS_PER_SLICE = 20_000
FIRST_ITEMS = 1 << 24  # room for item records at the start; it doubles when it is used up
MOST_RECORD_BYTES = 8 << 30  # of all records together


@dataclass(frozen=True)
class Limits:
    """Limits of a run: simulated seconds, steps, and seconds of computing time."""

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
    topology: Topology = SINGLE_REPLICA,
    loop_think_s: tuple[float, ...] = (),
    limits: Limits = NO_LIMITS,
    cancelled: Callable[[], bool] = lambda: False,
    record_items: bool = True,
) -> Recording:
    """Simulate a cluster until all requests have ended, no progress is possible, or a limit is
    reached.

    Parameters: the request table (sorted by arrival; rows that a closed loop releases last, loop by
    loop, with arrival inf), its run table, one POLICY and one LATENCY row per replica, and how the
    replicas are connected. The table is copied: a workload can be run again. `cancelled` is called
    between slices of steps."""
    state, cluster = prepare(
        requests,
        runs,
        policy,
        latency,
        topology=topology,
        loop_think_s=loop_think_s,
        limits=limits,
        record_items=record_items,
    )
    engines = dispatch.used(policy.engine)
    give_up = time.monotonic() + limits.deadline_s
    while True:
        outcome = run_slice(state, cluster, engines, pools_of(cluster), STEPS_PER_SLICE)
        if outcome == RECORDING_FULL:
            if record_bytes(state) > MOST_RECORD_BYTES // 2:
                reason = f"records: {MOST_RECORD_BYTES >> 30} GiB are full; ask for less of a run"
                return close(state, cluster, "bounded", reason)
            state = with_more_room(state, cluster)
        elif outcome != STEP_QUOTA_REACHED:
            break
        elif cancelled():
            return close(state, cluster, "cancelled", "cancelled by the user")
        elif time.monotonic() > give_up:
            reason = f"deadline: {limits.deadline_s:g} s of computing time are used up"
            return close(state, cluster, "bounded", reason)
    return close(state, cluster, *explain_outcome(outcome, state, cluster))


def prepare(
    requests: Table,
    runs: Table,
    policy: Table,
    latency: Table,
    *,
    topology: Topology = SINGLE_REPLICA,
    loop_think_s: tuple[float, ...] = (),
    limits: Limits = NO_LIMITS,
    record_items: bool = True,
) -> tuple[State, ClusterState]:
    """An idle cluster before its first request; parameters as for `run`."""
    num_requests = len(requests)
    tokens = int(np.minimum(requests.output_len, requests.max_tokens).sum())
    requests = topology.with_prefill_requests(requests)
    policy = topology.with_slots(policy, num_requests)
    state = new_state(
        requests,
        runs,
        policy,
        num_steps=4096,
        num_items=min(tokens + 4 * len(requests), FIRST_ITEMS) if record_items else 0,
        num_events=4 * len(requests) + 2 * events_per_step(policy),
        longest=longest_held(requests, policy) if len(policy) > 1 else None,
    )
    clock = records(1, CLOCK)
    clock.horizon_s, clock.max_steps = limits.horizon_s, limits.max_steps
    clock.record_items, clock.stuck_request = record_items, -1
    clock.next_transfer_s = np.inf
    users = requests[:num_requests]
    released = np.isinf(users.arrival_s)
    clock.num_arrivals = num_requests - released.sum()
    loops = records(len(loop_think_s), LOOP)
    for k, think_s in enumerate(loop_think_s):
        rows = np.flatnonzero(released & (users.loop == k))
        loops[k].next, loops[k].end = (rows[0], rows[-1] + 1) if len(rows) else (0, 0)
        loops[k].think_s = think_s
    event_queue = int(np.isfinite(users.abort_after_s).sum() + released.sum()) + len(policy) + 1
    if topology.disaggregated:
        event_queue += num_requests
    cluster = ClusterState(
        clock=clock,
        latency=topology.with_store(latency),
        event_queue=records(event_queue, QUEUED_EVENT),
        loops=loops,
        flags=np.zeros(int(policy.max_num_seqs.max()), np.int32),
        servers=topology.servers(len(policy)),
        config=topology.config(num_requests, len(policy)),
        kv_transfers=topology.kv_transfers(num_requests),
        active_transfers=np.zeros(2 * num_requests if topology.disaggregated else 1, np.int64),
        forecast=records(1, STEP),
    )
    return state, cluster


def longest_held(requests: Table, policy: Table) -> int | None:
    """Tokens of the longest request, if no engine reserves more: for many servers, rows of the
    block table with room for max_model_len would exceed the memory of this machine."""
    engines = {dispatch.KERNELS[number] for number in policy.engine.tolist()}
    if not all(engine_spec(engine).holds_known_tokens for engine in engines):
        return None
    outputs = np.minimum(requests.max_tokens, requests.output_len)
    return int((requests.num_prompt_tokens.astype(np.int64) + outputs).max(initial=1)) + 1


def pools_of(cluster: ClusterState) -> tuple[int, ...]:
    """The argument that tells the compiled loop whether there are prefill and decode servers."""
    return DISAGGREGATED if cluster.config[0].disaggregated else COLOCATED


def record_bytes(state: State) -> int:
    return sum(t.nbytes for t in (state.steps, state.items, state.events, state.gaps))


def with_more_room(state: State, cluster: ClusterState) -> State:
    """The same state with twice the room in tables that are nearly full."""
    log, most = state.log[0], state.scheduled.shape[1]
    margin = (8 + len(cluster.servers)) * most + 64 + int(cluster.clock[0].num_queued_events)
    grown = {}
    for name, used in (
        ("steps", log.num_steps),
        ("items", log.num_items),
        ("events", log.num_events),
        ("gaps", log.num_gaps),
    ):
        rows = getattr(state, name)
        if used + margin >= len(rows) and (name != "items" or cluster.clock[0].record_items):
            larger = uninitialised(2 * len(rows) + margin, rows.dtype)
            larger[:used] = rows[:used]
            grown[name] = larger
    return state._replace(**grown)


def explain_outcome(outcome: int, state: State, cluster: ClusterState) -> tuple[str, str | None]:
    """(status, reason as text) of a run that ended by itself."""
    clock, log = cluster.clock[0], state.log[0]
    if outcome == ALL_DONE:
        return "finished", None
    if outcome == AT_HORIZON:
        return "bounded", f"horizon: {clock.horizon_s:g} s of simulated time are used up"
    if outcome == AT_MAX_STEPS:
        return "bounded", f"max_steps: {clock.max_steps:,} steps were taken"
    last, replica = state.steps[log.num_steps - 1], clock.replica
    request, policy = state.requests[clock.stuck_request], state.policy[replica]
    free, blocks = state.counters[replica].num_free_blocks, policy.num_gpu_blocks - 1
    needs = -(-int(request.num_tokens) // int(policy.block_size))
    return "stalled", (
        f"stop reason {reasons.STOP_REASONS[last.stop_reason]}: request {clock.stuck_request} "
        f"({request.num_prompt_tokens:,} prompt and {request.num_output_tokens:,} output tokens, "
        f"{needs:,} KV blocks) cannot go on; {free:,} of {blocks:,} KV blocks are free"
    )


def close(state: State, cluster: ClusterState, status: str, reason: str | None) -> Recording:
    """The records written so far, as a Recording."""
    if cluster.clock[0].num_steps_open > 0:
        finalize(state, cluster, pools_of(cluster))
    log, policy, config = state.log[0], state.policy[0], cluster.config[0]
    users, replicas = int(config.num_requests), int(config.num_replicas)
    return Recording(
        steps=state.steps[: log.num_steps],
        items=state.items[: log.num_items],
        events=state.events[: log.num_events],
        gaps=state.gaps[: log.num_gaps],
        requests=state.requests[:users],
        status=status,
        reason=reason,
        stuck_request=int(cluster.clock[0].stuck_request),
        block_size=int(policy.block_size),
        num_blocks=int(policy.num_gpu_blocks - 1),
        peak_kv_blocks=int(state.counters.peak_kv_blocks[:replicas].max()),
        replica_blocks=np.array(state.policy.num_gpu_blocks[:replicas] - 1),
        replica_peaks=np.array(state.counters.peak_kv_blocks[:replicas]),
        prefill_requests=state.requests[users : 2 * users],
        kv_transfers=cluster.kv_transfers if config.disaggregated else cluster.kv_transfers[:0],
    )

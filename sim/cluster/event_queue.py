"""The queue of pending events: a binary heap by time.

At one instant steps end first, then requests arrive or are aborted, then steps begin. An engine
therefore plans with everything known at that time."""

import numpy as np

from sim.cluster.cluster_state import STEP_BEGINS, STEP_ENDS, ClusterState
from sim.core.compiled import njit_inline, njit_inner


@njit_inline
def _rank(kind: int) -> int:
    if kind == STEP_ENDS:
        return 0
    return 2 if kind == STEP_BEGINS else 1


@njit_inner
def _earlier(one, other) -> bool:
    if one.time_s != other.time_s:
        return one.time_s < other.time_s
    if one.kind != other.kind:
        first, second = _rank(one.kind), _rank(other.kind)
        if first != second:
            return first < second
    if one.since_s != other.since_s:
        return one.since_s < other.since_s
    return one.subject < other.subject


@njit_inner
def _swap(event_queue, a: int, b: int) -> None:
    time_s, since_s = event_queue[a].time_s, event_queue[a].since_s
    subject, kind = event_queue[a].subject, event_queue[a].kind
    event_queue[a] = event_queue[b]
    event_queue[b].time_s, event_queue[b].since_s = time_s, since_s
    event_queue[b].subject, event_queue[b].kind = subject, kind


@njit_inner
def push_event(
    cluster: ClusterState, time_s: float, since_s: float, subject: int, kind: int
) -> None:
    event_queue, clock = cluster.event_queue, cluster.clock[0]
    place = clock.num_queued_events
    clock.num_queued_events += 1
    event = event_queue[place]
    event.time_s, event.since_s, event.subject, event.kind = time_s, since_s, subject, kind
    while place > 0 and _earlier(event_queue[place], event_queue[(place - 1) // 2]):
        _swap(event_queue, place, (place - 1) // 2)
        place = (place - 1) // 2


@njit_inner
def pop_event(cluster: ClusterState) -> None:
    event_queue, clock = cluster.event_queue, cluster.clock[0]
    clock.num_queued_events -= 1
    length = clock.num_queued_events
    event_queue[0] = event_queue[length]
    place = 0
    while 2 * place + 1 < length:
        child = 2 * place + 1
        if child + 1 < length and _earlier(event_queue[child + 1], event_queue[child]):
            child += 1
        if not _earlier(event_queue[child], event_queue[place]):
            break
        _swap(event_queue, child, place)
        place = child


@njit_inline
def next_event_s(cluster: ClusterState) -> float:
    """Time of the next event, inf if there is none."""
    return cluster.event_queue[0].time_s if cluster.clock[0].num_queued_events > 0 else np.inf

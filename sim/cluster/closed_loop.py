"""Closed loops: each user sends the next request a think time after the last one has ended."""

from sim.cluster.cluster_state import ARRIVAL, ClusterState
from sim.cluster.event_queue import push_event
from sim.core.compiled import njit_inner
from sim.core.state import State


@njit_inner
def release_next(state: State, cluster: ClusterState, r: int, now_s: float) -> None:
    """Request `r` has ended: the next request of its loop arrives after the think time."""
    if state.requests[r].loop < 0:
        return
    loop = cluster.loops[state.requests[r].loop]
    if loop.next < loop.end:
        arrival_s = now_s + loop.think_s
        state.requests[loop.next].arrival_s = arrival_s
        push_event(cluster, arrival_s, arrival_s, loop.next, ARRIVAL)
        loop.next += 1

"""The waiting queue of a replica: first come first served, or by priority.
 FCFS is a list threaded through the request table, with preempted requests put back at its front.
Under the priority policy it is a binary heap by (priority, arrival, id), and nobody is favoured for
having run. Source: `vllm/v1/core/sched/request_queue.py`, 0.26.0."""

from sim.compiled import njit
from sim.state import State


@njit
def put_last(state: State, replica: int, r: int) -> None:
    """A new request joins the queue."""
    if state.policy[replica].priority:
        _push(state, replica, r)
        return
    counters, request = state.counters[replica], state.requests[r]
    request.next_waiting = -1
    request.previous_waiting = counters.last_waiting
    if counters.last_waiting < 0:
        counters.first_waiting = r
    else:
        state.requests[counters.last_waiting].next_waiting = r
    counters.last_waiting = r
    counters.num_waiting += 1


@njit
def put_first(state: State, replica: int, r: int) -> None:
    """A preempted request returns: to the head of the line, or to its rank under priority."""
    if state.policy[replica].priority:
        _push(state, replica, r)
        return
    counters, request = state.counters[replica], state.requests[r]
    request.previous_waiting = -1
    request.next_waiting = counters.first_waiting
    if counters.first_waiting < 0:
        counters.last_waiting = r
    else:
        state.requests[counters.first_waiting].previous_waiting = r
    counters.first_waiting = r
    counters.num_waiting += 1


@njit
def head(state: State, replica: int) -> int:
    """The request whose turn it is; asked only while somebody waits."""
    if state.policy[replica].priority:
        return state.heap[replica, 0]
    return state.counters[replica].first_waiting


@njit
def take_out(state: State, replica: int, r: int) -> None:
    """Remove `r`, the head or (when it is aborted) any other waiting request."""
    counters = state.counters[replica]
    counters.num_waiting -= 1
    if state.policy[replica].priority:
        place = 0
        while state.heap[replica, place] != r:
            place += 1
        last = state.heap[replica, counters.num_waiting]
        if last != r:
            _sift_down(state, replica, last, _sift_up(state, replica, last, place))
        return
    request = state.requests[r]
    if request.previous_waiting < 0:
        counters.first_waiting = request.next_waiting
    else:
        state.requests[request.previous_waiting].next_waiting = request.next_waiting
    if request.next_waiting < 0:
        counters.last_waiting = request.previous_waiting
    else:
        state.requests[request.next_waiting].previous_waiting = request.previous_waiting


@njit
def _before(state: State, a: int, b: int) -> bool:
    one, other = state.requests[a], state.requests[b]
    if one.priority != other.priority:
        return one.priority < other.priority
    if one.arrival_s != other.arrival_s:
        return one.arrival_s < other.arrival_s
    return a < b


@njit
def _push(state: State, replica: int, r: int) -> None:
    counters = state.counters[replica]
    counters.num_waiting += 1
    _sift_up(state, replica, r, counters.num_waiting - 1)


@njit
def _sift_up(state: State, replica: int, r: int, place: int) -> int:
    """Let `r` rise from `place` until its parent goes before it; returns where it stands."""
    heap = state.heap[replica]
    while place > 0 and _before(state, r, heap[(place - 1) // 2]):
        heap[place] = heap[(place - 1) // 2]
        place = (place - 1) // 2
    heap[place] = r
    return place


@njit
def _sift_down(state: State, replica: int, r: int, place: int) -> None:
    """Let `r` sink from `place` until it goes before its children."""
    heap, length = state.heap[replica], state.counters[replica].num_waiting
    while 2 * place + 1 < length:
        child = 2 * place + 1
        if child + 1 < length and _before(state, heap[child + 1], heap[child]):
            child += 1
        if not _before(state, heap[child], r):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = r

"""The waiting queue of a replica: first come first served, or by priority.

FCFS is a list threaded through the request table, with preempted requests put back at its front.
Under the priority policy it is a binary heap by (priority, arrival, id), and a preempted request
has no advantage. Source: `vllm/v1/core/sched/request_queue.py`, 0.26.0."""

from sim.core.compiled import njit, njit_inline, njit_inner
from sim.core.state import State

# Where a preempted request waits (state.POLICY.requeue) if there are no priorities.
TO_HEAD, TO_TAIL, TO_ARRIVAL_PLACE = range(3)


@njit_inner
def put_last(state: State, replica: int, r: int) -> None:
    """Add a new request to the queue."""
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


@njit_inner
def put_first(state: State, replica: int, r: int) -> None:
    """Put a preempted request back: at the head of the queue, or at its rank under priority, or at
    its place in order of arrival, depending on the engine."""
    policy, counters, requests = state.policy[replica], state.counters[replica], state.requests
    if policy.priority:
        _push(state, replica, r)
        return
    before, behind = -1, counters.first_waiting
    if policy.requeue == TO_ARRIVAL_PLACE:
        while behind >= 0 and arrived_before(state, behind, r):
            before, behind = behind, requests[behind].next_waiting
    requests[r].previous_waiting = before
    requests[r].next_waiting = behind
    if before < 0:
        counters.first_waiting = r
    else:
        requests[before].next_waiting = r
    if behind < 0:
        counters.last_waiting = r
    else:
        requests[behind].previous_waiting = r
    counters.num_waiting += 1


@njit
def head(state: State, replica: int) -> int:
    """The next request to admit. The queue must not be empty."""
    if state.policy[replica].priority:
        return state.heap[replica, 0]
    return state.counters[replica].first_waiting


@njit_inner
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


@njit_inline
def arrived_before(state: State, a: int, b: int) -> bool:
    """Whether `a` was added to its replica before `b`."""
    return state.requests[a].arrival_order < state.requests[b].arrival_order


@njit_inner
def sort_by_arrival(state: State, replica: int) -> None:
    """Sort `running` by arrival, for engines that serve in that order; it is nearly always
    sorted."""
    running = state.running[replica]
    for i in range(1, state.counters[replica].num_running):
        r, place = running[i], i
        while place > 0 and arrived_before(state, r, running[place - 1]):
            running[place] = running[place - 1]
            place -= 1
        running[place] = r


@njit_inner
def list_active(state: State, replica: int, most_waiting: int) -> int:
    """Fill `active` with the first max_num_seqs of running and waiting requests in order of
    arrival, with at most the first `most_waiting` waiting requests. Returns how many. For engines
    with one list for both (TensorRT-LLM).

    `running` is sorted by arrival; the waiting queue already is (TO_ARRIVAL_PLACE)."""
    counters, active = state.counters[replica], state.active[replica]
    running = state.running[replica]
    sort_by_arrival(state, replica)
    i, n, waiting = 0, 0, counters.first_waiting
    while n < state.policy[replica].max_num_seqs and (i < counters.num_running or waiting >= 0):
        if waiting < 0 or (i < counters.num_running and arrived_before(state, running[i], waiting)):
            active[n] = running[i]
            i += 1
        else:
            active[n] = waiting
            most_waiting -= 1
            waiting = state.requests[waiting].next_waiting if most_waiting > 0 else -1
        n += 1
    return n


@njit_inner
def _before(state: State, a: int, b: int) -> bool:
    one, other = state.requests[a], state.requests[b]
    if one.priority != other.priority:
        return one.priority < other.priority
    if one.arrival_s != other.arrival_s:
        return one.arrival_s < other.arrival_s
    return a < b


@njit_inner
def _push(state: State, replica: int, r: int) -> None:
    counters = state.counters[replica]
    counters.num_waiting += 1
    _sift_up(state, replica, r, counters.num_waiting - 1)


@njit_inner
def _sift_up(state: State, replica: int, r: int, place: int) -> int:
    """Sift `r` up from `place` until its parent precedes it; returns its final place."""
    heap = state.heap[replica]
    while place > 0 and _before(state, r, heap[(place - 1) // 2]):
        heap[place] = heap[(place - 1) // 2]
        place = (place - 1) // 2
    heap[place] = r
    return place


@njit_inner
def _sift_down(state: State, replica: int, r: int, place: int) -> None:
    """Sift `r` down from `place` until it precedes its children."""
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

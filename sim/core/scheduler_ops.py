"""The moves that policies share: plan, admit, preempt; and what follows a step: complete, abort.

A policy chooses, these mutate. `add`, `complete`, `abort` and `cancel_step` are legal between any
two steps; with `policies.schedule` they are all that an executor, simulated or real, needs."""

import numpy as np

from sim.core import kv_cache as kv
from sim.core import reasons, swapping, waiting_queue
from sim.core.compiled import njit, njit_inline, njit_inner
from sim.core.endings import abort, complete, drop
from sim.core.events import note
from sim.core.state import State

__all__ = [
    "abort",
    "add",
    "admit",
    "begin_step",
    "cancel_step",
    "complete",
    "drop",
    "note",
    "plan",
    "preempt",
    "swap_in",
    "swap_out",
    "unplan",
]


@njit_inline
def begin_step(state: State, replica: int) -> None:
    counters = state.counters[replica]
    counters.num_scheduled = 0
    counters.num_admitted = 0
    counters.num_preempted = 0
    counters.num_ended = 0
    counters.num_reserved = 0
    counters.num_swapped_in = 0
    counters.swapped_out_blocks = 0
    counters.swapped_in_blocks = 0
    counters.stop_reason = reasons.QUEUE_EMPTY


@njit_inline
def plan(state: State, replica: int, r: int, n: int, needed: int) -> None:
    """Give `r` the next `n` tokens of the step."""
    counters = state.counters[replica]
    item = state.plan[replica, counters.num_scheduled]
    item.request = r
    item.num_tokens = n
    item.num_computed_tokens = state.requests[r].num_computed_tokens
    item.num_needed = needed
    counters.num_scheduled += 1


@njit_inner
def unplan(state: State, replica: int, r: int) -> int:
    """Take the tokens of `r` out of the step again; returns how many it had (0: none).

    Blocks that were entered into the prefix cache for them leave it when `preempt` releases them.
    """
    counters, items = state.counters[replica], state.plan[replica]
    place = counters.num_scheduled - 1
    while place >= 0 and items[place].request != r:
        place -= 1
    if place < 0:
        return 0
    tokens = items[place].num_tokens
    for k in range(place, counters.num_scheduled - 1):
        items[k] = items[k + 1]
    counters.num_scheduled -= 1
    note(state, r, reasons.UNSCHEDULED, tokens, 0)
    return tokens


@njit
def add(state: State, replica: int, r: int) -> None:
    """A request arrives at a replica's waiting queue."""
    request = state.requests[r]
    request.num_tokens = request.num_prompt_tokens + request.num_output_tokens
    request.stop_at = min(
        request.num_prompt_tokens + min(request.max_tokens, request.output_len),
        state.policy[replica].max_model_len,
    )
    request.replica = replica
    request.arrival_order = state.counters[replica].num_added
    state.counters[replica].num_added += 1
    request.status = reasons.WAITING
    waiting_queue.put_last(state, replica, r)


@njit_inner
def admit(state: State, replica: int, r: int, num_hits: int) -> None:
    """Move the head of the waiting queue to the end of `running`, holding its prefix hits."""
    counters, request = state.counters[replica], state.requests[r]
    waiting_queue.take_out(state, replica, r)
    kv.take_slot(state, replica, r, num_hits)
    hit_tokens = request.capacity
    request.num_computed_tokens = hit_tokens
    if request.status == reasons.PREEMPTED_WAITING:
        request.resumed_hit_tokens += hit_tokens
        note(state, r, reasons.RESUMED, hit_tokens, 0)
    else:
        request.hit_tokens = hit_tokens
        request.first_scheduled_s = counters.now_s
        note(state, r, reasons.ADMITTED, hit_tokens, 0)
    request.context_len = request.num_tokens
    request.status = reasons.RUNNING
    state.running[replica, counters.num_running] = r
    counters.num_running += 1
    counters.num_admitted += 1


@njit_inner
def _take_off(state: State, replica: int, place: int) -> int:
    """A running request loses its place in `running`; returns which."""
    counters, running = state.counters[replica], state.running[replica]
    r = running[place]
    for k in range(place, counters.num_running - 1):
        running[k] = running[k + 1]
    counters.num_running -= 1
    counters.num_preempted += 1
    state.requests[r].num_preemptions += 1
    return r


@njit_inner
def preempt(state: State, replica: int, place: int) -> None:
    """Preempt by recompute: all blocks back, nothing computed, outputs kept."""
    r = _take_off(state, replica, place)
    request = state.requests[r]
    computed = request.num_computed_tokens
    kv.rewind_cache(state, replica, r, computed)
    held = kv.release(state, replica, r)
    note(state, r, reasons.PREEMPTION, computed, held)
    request.high_water = max(request.high_water, computed)
    request.num_computed_tokens = 0
    request.status = reasons.PREEMPTED_WAITING
    if state.policy[replica].requeue == waiting_queue.TO_TAIL:
        waiting_queue.put_last(state, replica, r)
    else:
        waiting_queue.put_first(state, replica, r)


@njit_inner
def swap_out(state: State, replica: int, place: int) -> None:
    """Preempt by swap: its blocks are copied to host memory, nothing is computed again."""
    r = _take_off(state, replica, place)
    request, counters = state.requests[r], state.counters[replica]
    moved = kv.release(state, replica, r)
    note(state, r, reasons.SWAPPED_OUT, request.num_computed_tokens, moved)
    swapping.push(state, replica, r, moved)
    counters.swapped_out_blocks += moved


@njit_inner
def swap_in(state: State, replica: int) -> int:
    """The last request swapped out runs again, with as many blocks as it had; returns which."""
    counters = state.counters[replica]
    r = state.swapped[replica, counters.num_swapped - 1]
    request = state.requests[r]
    swapping.remove(state, replica, r)
    moved = request.num_host_blocks
    kv.take_slot(state, replica, r, kv.NO_HITS)
    kv.grow(state, replica, r, moved * state.policy[replica].block_size)
    note(state, r, reasons.SWAPPED_IN, request.num_computed_tokens, moved)
    counters.swapped_in_blocks += moved
    request.status = reasons.RUNNING
    state.running[replica, counters.num_running] = r
    counters.num_running += 1
    counters.num_swapped_in += 1
    return r


@njit
def cancel_step(state: State, replica: int) -> None:
    """The planned step did not run: it failed, or was cancelled.

    Requests that it admitted return to the head of the waiting queue, since they may hold prefix
    hits that were to be computed in this step; running ones keep their blocks; blocks that were
    entered into the prefix cache for tokens of this step are taken out. Swapped-in ones are swapped
    out as they were: no step admits and swaps in."""
    counters = state.counters[replica]
    for _ in range(counters.num_swapped_in):
        counters.num_running -= 1
        r = state.running[replica, counters.num_running]
        kv.release(state, replica, r)
        swapping.push(state, replica, r, state.requests[r].num_host_blocks)
    for _ in range(counters.num_admitted):
        counters.num_running -= 1
        r = state.running[replica, counters.num_running]
        request = state.requests[r]
        kv.rewind_cache(state, replica, r, request.num_computed_tokens)
        if request.num_preemptions > 0:
            request.resumed_hit_tokens -= request.num_computed_tokens
            request.status = reasons.PREEMPTED_WAITING
        else:
            request.first_scheduled_s = np.nan
            request.status = reasons.WAITING
        kv.release(state, replica, r)
        request.num_computed_tokens = 0
        waiting_queue.put_first(state, replica, r)
    for i in range(counters.num_scheduled):
        item = state.plan[replica, i]
        if state.requests[item.request].status == reasons.RUNNING:
            kv.rewind_cache(state, replica, item.request, item.num_computed_tokens)
    counters.num_scheduled = counters.num_admitted = counters.num_swapped_in = 0

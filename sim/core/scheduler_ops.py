"""The operations on scheduler state, shared by all engines and executors.

The kernel of an engine decides; these functions change the state. Within a step it calls
`schedule_tokens`, `admit`, `preempt`, `swap_out`, `swap_in`, `ignore`. Between two steps an
executor, simulated or real, calls `add`, `complete`, `abort` and `cancel_step`. It needs no others,
except `dispatch.schedule`."""

import numpy as np

from sim.core import kv_cache as kv
from sim.core import kv_loading, reasons, waiting_queue
from sim.core.compiled import njit, njit_inline, njit_inner
from sim.core.event_log import record_event, record_gap, record_refusal
from sim.core.state import State

__all__ = [
    "abort",
    "add",
    "admit",
    "begin_step",
    "cancel_step",
    "complete",
    "ignore",
    "preempt",
    "record_event",
    "record_refusal",
    "schedule_tokens",
    "swap_in",
    "swap_out",
    "unschedule",
]

# --- tokens of a step -----------------------------------------------------------------------------


@njit_inline
def begin_step(state: State, replica: int) -> None:
    """Clear the current step."""
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
def schedule_tokens(state: State, replica: int, r: int, n: int, needed: int) -> None:
    """Schedule the next `n` of the `needed` tokens that `r` has still to compute."""
    counters = state.counters[replica]
    item = state.scheduled[replica, counters.num_scheduled]
    item.request = r
    item.num_tokens = n
    item.num_computed_tokens = state.requests[r].num_computed_tokens
    item.num_needed = needed
    counters.num_scheduled += 1


@njit_inner
def unschedule(state: State, replica: int, r: int) -> int:
    """Remove the tokens of `r` from the step; returns how many it had (0: none).

    Blocks that were cached for these tokens are evicted when `preempt` frees them."""
    counters, items = state.counters[replica], state.scheduled[replica]
    place = counters.num_scheduled - 1
    while place >= 0 and items[place].request != r:
        place -= 1
    if place < 0:
        return 0
    tokens = items[place].num_tokens
    for k in range(place, counters.num_scheduled - 1):
        items[k] = items[k + 1]
    counters.num_scheduled -= 1
    record_event(state, r, reasons.UNSCHEDULED, tokens, 0)
    return tokens


# --- arrival and admission ------------------------------------------------------------------------


@njit
def add(state: State, replica: int, r: int) -> None:
    """Add a request to a replica's waiting queue."""
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
    """Move `r` from the waiting queue to the end of `running`, with its prefix-cache hits."""
    counters, request = state.counters[replica], state.requests[r]
    waiting_queue.take_out(state, replica, r)
    kv.take_slot(state, replica, r, num_hits)
    hit_tokens = request.capacity
    request.num_computed_tokens = hit_tokens
    if request.status == reasons.PREEMPTED_WAITING:
        request.resumed_hit_tokens += hit_tokens
        record_event(state, r, reasons.RESUMED, hit_tokens, 0)
    else:
        request.hit_tokens = hit_tokens
        request.first_scheduled_s = counters.now_s
        record_event(state, r, reasons.ADMITTED, hit_tokens, 0)
    request.context_len = request.num_tokens
    request.status = reasons.RUNNING
    state.running[replica, counters.num_running] = r
    counters.num_running += 1
    counters.num_admitted += 1


@njit_inner
def ignore(state: State, replica: int, r: int, rejection: int, limit: int) -> None:
    """Take `r` out of the waiting queue for good: it has more than `limit` tokens, the most that
    can ever be scheduled (vLLM V0: FINISHED_IGNORED)."""
    request, counters = state.requests[r], state.counters[replica]
    record_event(state, r, reasons.IGNORED, request.num_tokens, limit)
    waiting_queue.take_out(state, replica, r)
    request.status = reasons.REJECTED
    request.rejection = rejection
    request.end_s = counters.now_s
    state.ended[replica, counters.num_ended] = r
    counters.num_ended += 1


# --- preemption -----------------------------------------------------------------------------------


@njit_inner
def preempt(state: State, replica: int, place: int) -> None:
    """Preempt the request at `place` of `running` by recompute: its blocks are freed, none of its
    tokens count as computed, its outputs are kept."""
    r = _remove_running(state, replica, place)
    request = state.requests[r]
    computed = request.num_computed_tokens
    kv.evict_uncomputed_blocks(state, replica, r, computed)
    held = kv.free(state, replica, r)
    record_event(state, r, reasons.PREEMPTION, computed, held)
    request.high_water = max(request.high_water, computed)
    request.num_computed_tokens = 0
    request.status = reasons.PREEMPTED_WAITING
    if state.policy[replica].requeue == waiting_queue.TO_TAIL:
        waiting_queue.put_last(state, replica, r)
    else:
        waiting_queue.put_first(state, replica, r)


@njit_inner
def swap_out(state: State, replica: int, place: int) -> None:
    """Preempt the request at `place` of `running` by swap: its KV is copied to host memory."""
    r = _remove_running(state, replica, place)
    request, counters = state.requests[r], state.counters[replica]
    moved = kv.free(state, replica, r)
    record_event(state, r, reasons.SWAPPED_OUT, request.num_computed_tokens, moved)
    _push_swapped(state, replica, r, moved)
    counters.swapped_out_blocks += moved


@njit_inner
def swap_in(state: State, replica: int) -> int:
    """Swap in the request swapped out last, with as many blocks as it had; returns its id."""
    counters = state.counters[replica]
    r = state.swapped[replica, counters.num_swapped - 1]
    request = state.requests[r]
    _remove_swapped(state, replica, r)
    moved = request.num_host_blocks
    kv.take_slot(state, replica, r, kv.NO_HITS)
    kv.allocate_slots(state, replica, r, moved * state.policy[replica].block_size)
    record_event(state, r, reasons.SWAPPED_IN, request.num_computed_tokens, moved)
    counters.swapped_in_blocks += moved
    request.status = reasons.RUNNING
    state.running[replica, counters.num_running] = r
    counters.num_running += 1
    counters.num_swapped_in += 1
    return r


@njit_inner
def _remove_running(state: State, replica: int, place: int) -> int:
    """Remove a victim from `running`; returns its id."""
    counters, running = state.counters[replica], state.running[replica]
    r = running[place]
    for k in range(place, counters.num_running - 1):
        running[k] = running[k + 1]
    counters.num_running -= 1
    counters.num_preempted += 1
    state.requests[r].num_preemptions += 1
    return r


@njit_inner
def _push_swapped(state: State, replica: int, r: int, blocks: int) -> None:
    """Record that the KV of `r` is in `blocks` blocks of host memory.

    `swapped` is a stack: victims are the last to have arrived, and no request is admitted while one
    is swapped out, so its top arrived first. Returning the top first is first come, first served.
    """
    request, counters = state.requests[r], state.counters[replica]
    request.num_host_blocks = blocks
    request.status = reasons.SWAPPED
    counters.num_free_host_blocks -= blocks
    state.swapped[replica, counters.num_swapped] = r
    counters.num_swapped += 1


@njit_inner
def _remove_swapped(state: State, replica: int, r: int) -> None:
    """Free the host memory of `r`: it is swapped in, or aborted."""
    counters, swapped = state.counters[replica], state.swapped[replica]
    place = counters.num_swapped - 1
    while swapped[place] != r:
        place -= 1
    for k in range(place, counters.num_swapped - 1):
        swapped[k] = swapped[k + 1]
    counters.num_swapped -= 1
    counters.num_free_host_blocks += state.requests[r].num_host_blocks


# --- after a step ---------------------------------------------------------------------------------


@njit
def complete(state: State, replica: int, flags: np.ndarray, now_s: float) -> None:
    """The scheduled tokens were computed by `now_s`: count them, emit output tokens, finish.

    A request whose computed tokens catch up with its known tokens emits one. `flags` has one entry
    per scheduled item, in batch order: NOT_FINISHED, or STOP (the executor saw EOS) or ABORT;
    length limits are found here. Finished requests free their blocks in batch order and are
    appended to `ended`."""
    counters, log, gaps = state.counters[replica], state.log[0], state.gaps
    requests, items = state.requests, state.scheduled[replica]
    previous_end_s, regular = counters.previous_end_s, 0
    gap_since_s = np.inf  # when the gap recorded last began
    for i in range(counters.num_scheduled):
        item = items[i]
        request = requests[item.request]
        if request.num_computed_tokens < request.high_water:
            again = min(request.high_water - request.num_computed_tokens, item.num_tokens)
            request.recomputed_tokens += again
        request.num_computed_tokens += item.num_tokens
        ends = flags[i] == reasons.ABORT
        if item.num_tokens == item.num_needed and not ends:
            request.num_tokens += 1
            request.num_output_tokens += 1
            if request.last_token_s == previous_end_s:
                regular += 1
                request.max_gap_s = max(request.max_gap_s, now_s - previous_end_s)
            elif request.num_output_tokens == 1:
                request.first_token_s = now_s
            else:
                seconds = now_s - request.last_token_s
                request.max_gap_s = max(request.max_gap_s, seconds)
                if request.last_token_s == gap_since_s:
                    gaps[log.num_gaps - 1].count += 1
                else:
                    record_gap(gaps, log, counters.step, item.request, seconds)
                    gap_since_s = request.last_token_s
            request.last_token_s = now_s
            ends = request.num_tokens >= request.stop_at or flags[i] != reasons.NOT_FINISHED
        if ends:
            state.ended[replica, counters.num_ended] = item.request
            _finish(state, replica, state.ended[replica, counters.num_ended], flags[i], now_s)
            counters.num_ended += 1
    if counters.num_ended > 0:
        _remove_finished(state, replica)
    log.num_regular_gaps = regular
    counters.previous_end_s = counters.now_s = now_s


@njit_inner
def _finish(state: State, replica: int, r: int, flag: int, now_s: float) -> None:
    """Finish `r`; `_remove_finished` takes it out of `running`."""
    request = state.requests[r]
    policy = state.policy[replica]
    if not policy.hold_finished and (not policy.hold_for_transfer or flag == reasons.ABORT):
        kv.free(state, replica, r)
    request.status = reasons.FINISHED
    request.finish_reason = flag
    if flag == reasons.ABORT:
        request.status = reasons.ABORTED_REQUEST
    elif flag == reasons.NOT_FINISHED:
        if request.num_output_tokens >= request.max_tokens:
            request.finish_reason = reasons.LENGTH
        elif request.num_output_tokens >= request.output_len:
            request.finish_reason = reasons.STOP
        else:
            request.finish_reason = reasons.MODEL_LEN
    request.end_s = now_s


@njit_inner
def _remove_finished(state: State, replica: int) -> None:
    """Remove from `running` the requests that have finished; the order of the others stays.

    A static batch stays complete until its last member finishes; then all free their KV."""
    counters, running = state.counters[replica], state.running[replica]
    kept = 0
    for i in range(counters.num_running):
        kept += state.requests[running[i]].status == reasons.RUNNING
    if state.policy[replica].hold_finished and kept > 0:
        return
    kept = 0
    for i in range(counters.num_running):
        if state.requests[running[i]].status == reasons.RUNNING:
            running[kept] = running[i]
            kept += 1
        elif state.policy[replica].hold_finished:
            kv.free(state, replica, running[i])
    counters.num_running = kept


@njit
def cancel_step(state: State, replica: int) -> None:
    """Undo the scheduled step, which did not run: it failed, or was cancelled.

    Requests that it admitted return to the head of the waiting queue, since their prefix hits may
    be blocks of the same step. Running requests keep their blocks; blocks that were cached for
    tokens of this step are evicted. Requests that it swapped in are swapped out again: no step
    admits and swaps in."""
    counters = state.counters[replica]
    for _ in range(counters.num_swapped_in):
        counters.num_running -= 1
        r = state.running[replica, counters.num_running]
        kv.free(state, replica, r)
        _push_swapped(state, replica, r, state.requests[r].num_host_blocks)
    for _ in range(counters.num_admitted):
        counters.num_running -= 1
        r = state.running[replica, counters.num_running]
        request = state.requests[r]
        kv.evict_uncomputed_blocks(state, replica, r, request.num_computed_tokens)
        if request.num_preemptions > 0:
            request.resumed_hit_tokens -= request.num_computed_tokens
            request.status = reasons.PREEMPTED_WAITING
        else:
            request.first_scheduled_s = np.nan
            request.status = reasons.WAITING
        kv.free(state, replica, r)
        request.num_computed_tokens = 0
        waiting_queue.put_first(state, replica, r)
    for i in range(counters.num_scheduled):
        item = state.scheduled[replica, i]
        if state.requests[item.request].status == reasons.RUNNING:
            kv.evict_uncomputed_blocks(state, replica, item.request, item.num_computed_tokens)
    counters.num_scheduled = counters.num_admitted = counters.num_swapped_in = 0


# --- abort ----------------------------------------------------------------------------------------


@njit
def abort(state: State, r: int, now_s: float) -> bool:
    """Abort `r` between two steps. False if it had ended already, or never arrived."""
    request = state.requests[r]
    replica = request.replica
    if request.status == reasons.RUNNING:
        _finish(state, replica, r, reasons.ABORT, now_s)
        _remove_finished(state, replica)
    elif request.status in (reasons.WAITING, reasons.PREEMPTED_WAITING):
        waiting_queue.take_out(state, replica, r)
        _set_aborted(state, r, now_s)
    elif request.status == reasons.SWAPPED:
        _remove_swapped(state, replica, r)
        _set_aborted(state, r, now_s)
    elif request.status in (reasons.LOADING, reasons.LOADED):
        kv_loading.cancel(state, replica, r)
        _set_aborted(state, r, now_s)
    else:
        return False
    record_event(state, r, reasons.ABORTED, request.num_computed_tokens, 0)
    return True


@njit_inner
def _set_aborted(state: State, r: int, now_s: float) -> None:
    """`r`, which holds no KV, ends as aborted."""
    request = state.requests[r]
    request.status = reasons.ABORTED_REQUEST
    request.finish_reason = reasons.ABORT
    request.end_s = now_s

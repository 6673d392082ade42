"""How requests end: tokens are counted and the last one finishes, a client goes away, the queue
drops.
"""

import numpy as np

from sim.core import kv_cache as kv
from sim.core import kv_loading, reasons, swapping, waiting_queue
from sim.core.compiled import njit, njit_inner
from sim.core.events import note, write_gap
from sim.core.state import State


@njit
def complete(state: State, replica: int, flags: np.ndarray, now_s: float) -> None:
    """The planned tokens were computed by `now_s`: count them, emit, finish.

    A request whose computed tokens catch up with its known tokens emits one. `flags` holds one
    entry a planned item, in plan order: NOT_FINISHED, or STOP (the executor saw EOS) or ABORT;
    length limits are found here. Finished requests free their blocks in plan order and stand in
    `ended`."""
    counters, log, gaps = state.counters[replica], state.log[0], state.gaps
    requests, plan_ = state.requests, state.plan[replica]
    previous_end_s, regular = counters.previous_end_s, 0
    gap_since_s = np.inf  # when the gap written last began
    for i in range(counters.num_scheduled):
        item = plan_[i]
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
                    write_gap(gaps, log, counters.step, item.request, seconds)
                    gap_since_s = request.last_token_s
            request.last_token_s = now_s
            ends = request.num_tokens >= request.stop_at or flags[i] != reasons.NOT_FINISHED
        if ends:
            state.ended[replica, counters.num_ended] = item.request
            _end(state, replica, state.ended[replica, counters.num_ended], flags[i], now_s)
            counters.num_ended += 1
    if counters.num_ended > 0:
        _close_ranks(state, replica)
    log.num_regular_gaps = regular
    counters.previous_end_s = counters.now_s = now_s


@njit_inner
def _end(state: State, replica: int, r: int, flag: int, now_s: float) -> None:
    """Finish `r`; it leaves `running` when the ranks are closed."""
    request = state.requests[r]
    policy = state.policy[replica]
    if not policy.hold_finished and (not policy.hold_for_transfer or flag == reasons.ABORT):
        kv.release(state, replica, r)
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
def _close_ranks(state: State, replica: int) -> None:
    """Drop from `running` whoever does not run any more; the order stays.

    A static batch stays as it is until its last member is done, then all give their KV back.
    """
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
            kv.release(state, replica, running[i])
    counters.num_running = kept


@njit
def abort(state: State, r: int, now_s: float) -> bool:
    """The client went away, between two steps. False if `r` had ended already, or never came."""
    request = state.requests[r]
    replica = request.replica
    if request.status == reasons.RUNNING:
        _end(state, replica, r, reasons.ABORT, now_s)
        _close_ranks(state, replica)
    elif request.status in (reasons.WAITING, reasons.PREEMPTED_WAITING):
        waiting_queue.take_out(state, replica, r)
        _leave(state, r, now_s)
    elif request.status == reasons.SWAPPED:
        swapping.remove(state, replica, r)
        _leave(state, r, now_s)
    elif request.status in (reasons.LOADING, reasons.LOADED):
        kv_loading.lose(state, replica, r)
        _leave(state, r, now_s)
    else:
        return False
    note(state, r, reasons.ABORTED, request.num_computed_tokens, 0)
    return True


@njit_inner
def _leave(state: State, r: int, now_s: float) -> None:
    """Abort `r`, which holds no KV."""
    request = state.requests[r]
    request.status = reasons.ABORTED_REQUEST
    request.finish_reason = reasons.ABORT
    request.end_s = now_s


@njit_inner
def drop(state: State, replica: int, r: int, why: int, limit: int) -> None:
    """Take `r` out of the waiting queue for ever: it has more tokens than may ever be scheduled."""
    request, counters = state.requests[r], state.counters[replica]
    note(state, r, reasons.IGNORED, request.num_tokens, limit)
    waiting_queue.take_out(state, replica, r)
    request.status = reasons.REJECTED
    request.rejection = why
    request.end_s = counters.now_s
    state.ended[replica, counters.num_ended] = r
    counters.num_ended += 1

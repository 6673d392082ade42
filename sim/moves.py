"""The moves that policies share: plan, admit, preempt; and what follows a step: complete, abort.
 A policy chooses, these mutate. `add`, `complete`, `abort` and `cancel_step` are legal between any
two steps; with `policies.schedule` they are all that an executor, simulated or real, needs."""

import numpy as np

from sim import kv_cache as kv
from sim import queues, reasons
from sim.compiled import njit, njit_inline
from sim.state import State


@njit_inline
def note(state: State, r: int, kind: int, value: int, limit: int) -> None:
    """Write down what happened to `r` in the step at hand (see reasons.EVENTS)."""
    log = state.log[0]
    event = state.events[log.num_events]
    event.step = log.num_steps
    event.request = r
    event.kind = kind
    event.value = value
    event.limit = limit
    log.num_events += 1


@njit_inline
def begin_step(state: State, replica: int) -> None:
    counters = state.counters[replica]
    counters.num_planned = 0
    counters.num_admitted = 0
    counters.num_preempted = 0
    counters.num_ended = 0
    counters.stop_reason = reasons.QUEUE_EMPTY


@njit_inline
def plan(state: State, replica: int, r: int, n: int, needed: int) -> None:
    """Give `r` the next `n` tokens of the step."""
    counters = state.counters[replica]
    item = state.plan[replica, counters.num_planned]
    item.request = r
    item.num_tokens = n
    item.num_computed = state.requests[r].num_computed
    item.num_needed = needed
    counters.num_planned += 1


@njit
def unplan(state: State, replica: int, r: int) -> int:
    """Take the tokens of `r` out of the step again; returns how many it had (0: none).

    Blocks that were entered into the prefix cache for them leave it when `preempt` releases them.
    """
    counters, items = state.counters[replica], state.plan[replica]
    place = counters.num_planned - 1
    while place >= 0 and items[place].request != r:
        place -= 1
    if place < 0:
        return 0
    tokens = items[place].num_tokens
    for k in range(place, counters.num_planned - 1):
        items[k] = items[k + 1]
    counters.num_planned -= 1
    note(state, r, reasons.UNSCHEDULED, tokens, 0)
    return tokens


@njit
def add(state: State, replica: int, r: int) -> None:
    """A request arrives at a replica's waiting queue."""
    request = state.requests[r]
    request.num_tokens = request.prompt_len
    request.stop_at = min(
        request.prompt_len + min(request.max_tokens, request.output_len),
        state.policy[replica].max_model_len,
    )
    request.replica = replica
    request.status = reasons.WAITING
    queues.put_last(state, replica, r)


@njit
def admit(state: State, replica: int, r: int, num_hits: int) -> None:
    """Move the head of the waiting queue to the end of `running`, holding its prefix hits."""
    counters, request = state.counters[replica], state.requests[r]
    queues.take_out(state, replica, r)
    kv.take_slot(state, replica, r, num_hits)
    hit_tokens = request.capacity
    request.num_computed = hit_tokens
    if request.status == reasons.PREEMPTED_WAITING:
        request.resumed_hit_tokens += hit_tokens
        note(state, r, reasons.RESUMED, hit_tokens, 0)
    else:
        request.hit_tokens = hit_tokens
        request.first_scheduled_s = counters.now_s
        note(state, r, reasons.ADMITTED, hit_tokens, 0)
    request.status = reasons.RUNNING
    state.running[replica, counters.num_running] = r
    counters.num_running += 1
    counters.num_admitted += 1


@njit
def preempt(state: State, replica: int, place: int) -> None:
    """Preempt by recompute: all blocks back, nothing computed, outputs kept."""
    counters, running = state.counters[replica], state.running[replica]
    r = running[place]
    request = state.requests[r]
    for k in range(place, counters.num_running - 1):
        running[k] = running[k + 1]
    counters.num_running -= 1
    computed = request.num_computed
    kv.rewind_cache(state, replica, r, computed)
    held = kv.release(state, replica, r)
    note(state, r, reasons.PREEMPTION, computed, held)
    request.high_water = max(request.high_water, computed)
    request.num_computed = 0
    request.num_preemptions += 1
    request.status = reasons.PREEMPTED_WAITING
    queues.put_first(state, replica, r)
    counters.num_preempted += 1


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
    for i in range(counters.num_planned):
        item = plan_[i]
        request = requests[item.request]
        if request.num_computed < request.high_water:
            again = min(request.high_water - request.num_computed, item.num_tokens)
            request.recomputed_tokens += again
        request.num_computed += item.num_tokens
        ends = flags[i] == reasons.ABORT
        if item.num_tokens == item.num_needed and not ends:
            request.num_tokens += 1
            request.num_outputs += 1
            if request.last_token_s == previous_end_s:
                regular += 1
                request.max_gap_s = max(request.max_gap_s, now_s - previous_end_s)
            elif request.num_outputs == 1:
                request.first_token_s = now_s
            else:
                seconds = now_s - request.last_token_s
                request.max_gap_s = max(request.max_gap_s, seconds)
                _write_gap(gaps, log, item.request, seconds)
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


@njit_inline
def _write_gap(gaps, log, r: int, seconds: float) -> None:
    gap = gaps[log.num_gaps]
    gap.step = log.num_steps
    gap.request = r
    gap.seconds = seconds
    log.num_gaps += 1


@njit
def _end(state: State, replica: int, r: int, flag: int, now_s: float) -> None:
    """Finish `r`; it leaves `running` when the ranks are closed."""
    request = state.requests[r]
    kv.release(state, replica, r)
    request.status = reasons.FINISHED
    request.finish_reason = flag
    if flag == reasons.ABORT:
        request.status = reasons.ABORTED_REQUEST
    elif flag == reasons.NOT_FINISHED:
        if request.num_outputs >= request.max_tokens:
            request.finish_reason = reasons.LENGTH
        elif request.num_outputs >= request.output_len:
            request.finish_reason = reasons.STOP
        else:
            request.finish_reason = reasons.MODEL_LEN
    request.end_s = now_s


@njit
def _close_ranks(state: State, replica: int) -> None:
    """Drop from `running` whoever does not run any more; the order stays."""
    counters, running = state.counters[replica], state.running[replica]
    kept = 0
    for i in range(counters.num_running):
        if state.requests[running[i]].status == reasons.RUNNING:
            running[kept] = running[i]
            kept += 1
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
        queues.take_out(state, replica, r)
        request.status = reasons.ABORTED_REQUEST
        request.finish_reason = reasons.ABORT
        request.end_s = now_s
    else:
        return False
    note(state, r, reasons.ABORTED, request.num_computed, 0)
    return True


@njit
def cancel_step(state: State, replica: int) -> None:
    """The planned step did not run: it failed, or was cancelled.

    Requests that it admitted return to the head of the waiting queue, since they may hold prefix
    hits that were to be computed in this step; running ones keep their blocks; blocks that were
    entered into the prefix cache for tokens of this step are taken out."""
    counters = state.counters[replica]
    for _ in range(counters.num_admitted):
        counters.num_running -= 1
        r = state.running[replica, counters.num_running]
        request = state.requests[r]
        kv.rewind_cache(state, replica, r, request.num_computed)
        if request.num_preemptions > 0:
            request.resumed_hit_tokens -= request.num_computed
            request.status = reasons.PREEMPTED_WAITING
        else:
            request.first_scheduled_s = np.nan
            request.status = reasons.WAITING
        kv.release(state, replica, r)
        request.num_computed = 0
        queues.put_first(state, replica, r)
    for i in range(counters.num_planned):
        item = state.plan[replica, i]
        if state.requests[item.request].status == reasons.RUNNING:
            kv.rewind_cache(state, replica, item.request, item.num_computed)
    counters.num_planned = counters.num_admitted = 0

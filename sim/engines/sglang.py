"""SGLang: a prefill batch runs alone while a request can be admitted; otherwise requests decode.

Admission estimates the future: each decoding request is expected to generate new_token_ratio of the
tokens that it may still generate, and a new request must fit beside all of them. The ratio falls
with every decode step; when the estimate was too low and memory runs out, requests are retracted
and the ratio is set again. With enable_mixed_chunk decodes join the prefill batch.

Source: SGLang 0.5.5, `python/sglang/srt/managers/scheduler.py` (`get_new_batch_prefill`,
`update_running_batch`), `schedule_policy.py` (`PrefillAdder`), `schedule_batch.py`
(`retract_decode`); overlap schedule off, schedule_policy fcfs. The rule in words, and what is
simplified: docs/sglang-rule.md."""

import numpy as np

from sim.core import kv_cache as kv
from sim.core import reasons, waiting_queue
from sim.core import scheduler_ops as ops
from sim.core.compiled import njit_inline, njit_inner
from sim.core.state import State

CLIP_MAX_NEW_TOKENS = 4096  # the estimate counts no more output tokens than these
RETRACT_DECODE_STEPS = 20  # tokens that each remaining request can generate after a retraction
MIN_NEW_TOKEN_RATIO_FACTOR = 0.14  # of the initial ratio
NEW_TOKEN_RATIO_DECAY_STEPS = 600
NO_LIMIT = 1 << 60


@njit_inner
def schedule(state: State, replica: int) -> None:
    """Plan one step: a prefill batch if there is one, else a decode batch."""
    counters, policy = state.counters[replica], state.policy[replica]
    if counters.num_running < counters.batch_size:  # a request has ended: admission may go on
        counters.batch_is_full = 0
    if counters.num_running == 0:
        counters.new_token_ratio = policy.init_new_token_ratio
    num_decoding = count_decoding(state, replica)
    schedule_prefill(state, replica, num_decoding)
    if counters.num_scheduled == 0:
        schedule_decodes(state, replica)
    else:
        ends_in_chunk = allocate_prefill(state, replica)
        if policy.enable_mixed_chunk:
            decode_all(state, replica)
        if num_decoding == 0 or policy.enable_mixed_chunk or ends_in_chunk:
            counters.batch_is_full = 0
    counters.batch_size = counters.num_running


# --- prefill -------------------------------------------------------------------------------------


@njit_inner
def schedule_prefill(state: State, replica: int, num_decoding: int) -> None:
    """Schedule a prefill batch: the rest of a chunked prompt first, then the waiting queue."""
    counters, policy = state.counters[replica], state.policy[replica]
    joining = num_decoding if policy.enable_mixed_chunk else 0
    chunk = policy.max_num_batched_tokens - joining if policy.enable_chunked_prefill else NO_LIMIT
    budget = policy.max_prefill_tokens - joining
    free = counters.num_free_blocks * policy.block_size
    room = free - joining - expected_tokens(state, replica)
    r = chunked_request(state, replica) if num_decoding < counters.num_running else -1
    if r >= 0:
        needed = state.requests[r].num_tokens - state.requests[r].num_computed_tokens
        n = min(needed, chunk, int(room))
        if n == needed:
            room -= clipped(max_new_tokens(state, replica, r))
        else:
            counters.stop_reason = reasons.BUDGET if n == chunk else reasons.KV_BLOCKS
        if n > 0:
            ops.schedule_tokens(state, replica, r, n, needed)
            tokens = ceil_paged_tokens(state, replica, n)
            chunk, budget, room = chunk - tokens, budget - tokens, room - tokens
    if counters.num_waiting > 0:
        counters.stop_reason = admit_waiting(state, replica, num_decoding, chunk, budget, room)


@njit_inner
def admit_waiting(
    state: State, replica: int, num_decoding: int, chunk: int, budget: int, room: float
) -> int:
    """Admit first come, first served, until max_running_requests, `room`, max_prefill_tokens or the
    chunk runs out; returns which of them did."""
    counters, policy = state.counters[replica], state.policy[replica]
    while counters.num_waiting > 0 and not counters.batch_is_full:
        r = waiting_queue.head(state, replica)
        request = state.requests[r]
        if counters.num_scheduled >= policy.max_num_seqs - num_decoding:
            limit = policy.max_num_seqs
            ops.record_refusal(state, r, reasons.REFUSED_MAX_NUM_SEQS, num_decoding, limit)
            counters.batch_is_full = 1
            break
        hits = kv.find_longest_cache_hit(state, replica, r) if policy.enable_prefix_caching else 0
        needed = request.num_tokens - hits * policy.block_size
        outputs = max_new_tokens(state, replica, r)
        left = room - kv.num_free_hit_blocks(state, replica, hits) * policy.block_size
        whole = needed + clipped(outputs - request.num_output_tokens)
        if whole >= left:
            value, limit = kv.blocks_for(whole, policy.block_size), int(left) // policy.block_size
            ops.record_refusal(state, r, reasons.REFUSED_KV_BLOCKS, value, max(limit, 0))
            counters.batch_is_full = 1
            break
        n, tokens = needed, ceil_paged_tokens(state, replica, needed)
        exceeds_budget = tokens >= budget and counters.num_scheduled > 0
        if tokens > chunk:
            n = tokens = max(chunk, 0) // policy.block_size * policy.block_size
        if exceeds_budget or n == 0:
            limit = max(min(chunk, budget), 0)
            ops.record_refusal(state, r, reasons.REFUSED_BUDGET, needed, limit)
            return reasons.BUDGET
        ops.admit(state, replica, r, hits)
        ops.schedule_tokens(state, replica, r, n, needed)
        chunk, budget, room = chunk - tokens, budget - tokens, left - tokens
        if n == needed:
            room -= clipped(outputs)
        if room <= 0:
            counters.batch_is_full = 1
        elif budget <= 0 or chunk <= 0:
            return reasons.BUDGET
    if counters.num_waiting == 0:
        return reasons.QUEUE_EMPTY
    if num_decoding + counters.num_scheduled >= policy.max_num_seqs:
        return reasons.MAX_NUM_SEQS
    return reasons.KV_BLOCKS


@njit_inner
def count_decoding(state: State, replica: int) -> int:
    """How many running requests decode."""
    n = 0
    for i in range(state.counters[replica].num_running):
        n += is_decoding(state, state.running[replica, i])
    return n


@njit_inner
def chunked_request(state: State, replica: int) -> int:
    """The running request whose prompt is in progress, -1 for none."""
    for i in range(state.counters[replica].num_running - 1, -1, -1):
        r = state.running[replica, i]
        if not is_decoding(state, r):
            return r
    return -1


@njit_inner
def expected_tokens(state: State, replica: int) -> float:
    """Tokens that the decoding requests are expected to generate."""
    counters, expected = state.counters[replica], 0.0
    for i in range(counters.num_running):
        r = state.running[replica, i]
        if is_decoding(state, r):
            left = max_new_tokens(state, replica, r) - state.requests[r].num_output_tokens
            expected += clipped(left) * counters.new_token_ratio
    return expected


@njit_inline
def is_decoding(state: State, r: int) -> bool:
    """Whether the prompt of running request `r` is computed."""
    return state.requests[r].num_computed_tokens >= state.requests[r].context_len


@njit_inline
def max_new_tokens(state: State, replica: int, r: int) -> int:
    """The output tokens that `r` may generate at most, as the front end clips them."""
    request = state.requests[r]
    return min(request.max_tokens, state.policy[replica].max_model_len - request.num_prompt_tokens)


@njit_inline
def ceil_paged_tokens(state: State, replica: int, tokens: int) -> int:
    """`tokens` rounded up to whole pages."""
    page = state.policy[replica].block_size
    return kv.blocks_for(tokens, page) * page


@njit_inline
def clipped(tokens: int) -> int:
    return min(max(tokens, 0), CLIP_MAX_NEW_TOKENS)


@njit_inner
def allocate_prefill(state: State, replica: int) -> bool:
    """Allocate the pages of the prefill batch; returns whether it leaves a prompt in progress."""
    ends_in_chunk = False
    for i in range(state.counters[replica].num_scheduled):
        item = state.scheduled[replica, i]
        allocate_pages(
            state, replica, np.int64(item.request), item.num_computed_tokens + item.num_tokens
        )
        ends_in_chunk |= item.num_tokens < item.num_needed
    return ends_in_chunk


@njit_inline
def allocate_pages(state: State, replica: int, r: int, tokens: int) -> bool:
    """Allocate the pages for the first `tokens` tokens of `r`; False if too few are free."""
    request = state.requests[r]
    if tokens > request.capacity and not kv.allocate_slots(state, replica, r, tokens):
        return False
    if state.policy[replica].enable_prefix_caching and tokens >= request.cache_at:
        kv.cache_full_blocks(state, replica, r, tokens)
    return True


# --- decode --------------------------------------------------------------------------------------


@njit_inner
def schedule_decodes(state: State, replica: int) -> None:
    """Schedule a decode batch. If pages are short, retract requests; else lower new_token_ratio."""
    counters, initial = state.counters[replica], state.policy[replica].init_new_token_ratio
    if lacks_pages(state, replica):
        retract(state, replica)
    else:
        lowest = initial * MIN_NEW_TOKEN_RATIO_FACTOR
        decay = (initial - lowest) / NEW_TOKEN_RATIO_DECAY_STEPS
        counters.new_token_ratio = max(counters.new_token_ratio - decay, lowest)
    decode_all(state, replica)


@njit_inner
def decode_all(state: State, replica: int) -> None:
    """Schedule a token for every decoding request. A request without a free page waits; this
    happens in a mixed batch with pages of several tokens."""
    counters = state.counters[replica]
    for i in range(counters.num_running):
        r = state.running[replica, i]
        if is_decoding(state, r):
            if allocate_pages(state, replica, r, state.requests[r].num_computed_tokens + 1):
                ops.schedule_tokens(state, replica, r, 1, 1)
            else:
                ops.record_refusal(state, r, reasons.REFUSED_KV_BLOCKS, 1, counters.num_free_blocks)


@njit_inner
def lacks_pages(state: State, replica: int) -> bool:
    """Whether there are too few pages for one more token of every decoding request."""
    counters, needed = state.counters[replica], 0
    for i in range(counters.num_running):
        r = state.running[replica, i]
        needed += (
            is_decoding(state, r) and state.requests[r].num_tokens > state.requests[r].capacity
        )
    return needed > counters.num_free_blocks


@njit_inner
def retract(state: State, replica: int) -> None:
    """Retract decoding requests, fewest outputs first, until the others have room for a token; then
    set new_token_ratio so that RETRACT_DECODE_STEPS more tokens of each fit the estimate.

    The last decoding request is never retracted; a prompt in progress is, if necessary."""
    counters, requests = state.counters[replica], state.requests
    while lacks_pages(state, replica):
        none, num_decoding = counters.num_running, 0
        victim = chunked = none
        for i in range(counters.num_running):
            r = state.running[replica, i]
            if not is_decoding(state, r):
                chunked = i
                continue
            num_decoding += 1
            if victim == none or retract_before(
                requests[r], requests[state.running[replica, victim]]
            ):
                victim = i
        if num_decoding <= 1:
            victim = chunked
        if victim == none:
            break
        ops.preempt(state, replica, victim)
    counters.stop_reason, counters.batch_is_full = reasons.PREEMPTED, 0
    outputs, most, n = 0, 0, 0
    for i in range(counters.num_running):
        r = state.running[replica, i]
        if is_decoding(state, r):
            outputs += requests[r].num_output_tokens
            most += max_new_tokens(state, replica, r)
            n += 1
    counters.new_token_ratio = min((outputs + RETRACT_DECODE_STEPS * n) / (most + 1), 1.0)


@njit_inline
def retract_before(one, other) -> bool:
    """Whether `one`, which follows `other` in `running`, is retracted first: it has fewer outputs,
    or equally many and a prompt that is not shorter."""
    if one.num_output_tokens != other.num_output_tokens:
        return one.num_output_tokens < other.num_output_tokens
    return one.num_prompt_tokens >= other.num_prompt_tokens

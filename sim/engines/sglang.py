"""SGLang: a prefill batch runs alone while anybody can be admitted; else everybody decodes.

Admission estimates the future: each decoding request is expected to generate new_token_ratio of
what it may still generate, and a newcomer must fit beside all of that. The ratio falls with every
decode step; when the estimate was too low and memory runs out, requests are retracted and the ratio
is set anew. With enable_mixed_chunk the decodes join the prefill batch.

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

CLIP_MAX_NEW_TOKENS = 4096  # the estimate looks no further ahead
RETRACT_DECODE_STEPS = 20  # tokens that everybody left shall be able to generate afterwards
MIN_NEW_TOKEN_RATIO_FACTOR = 0.14  # of the initial ratio
NEW_TOKEN_RATIO_DECAY_STEPS = 600
NO_LIMIT = 1 << 60


@njit_inner
def schedule(state: State, replica: int) -> None:
    """Plan one step."""
    counters, policy = state.counters[replica], state.policy[replica]
    if counters.num_running < counters.batch_size:  # somebody left: ask again
        counters.batch_is_full = 0
    if counters.num_running == 0:
        counters.new_token_ratio = policy.init_new_token_ratio
    num_decoding = schedule_prefill(state, replica)
    if counters.num_scheduled == 0:
        schedule_decodes(state, replica)
    else:
        leaves_a_cut = allocate(state, replica)
        if policy.enable_mixed_chunk:
            plan_decodes(state, replica)
        if num_decoding == 0 or policy.enable_mixed_chunk or leaves_a_cut:
            counters.batch_is_full = 0
    counters.batch_size = counters.num_running


# --- prefill -------------------------------------------------------------------------------------


@njit_inner
def schedule_prefill(state: State, replica: int) -> int:
    """Plan a prefill batch: the prompt that was cut first, then the waiting queue. Returns how many
    decode.
    """
    counters, policy = state.counters[replica], state.policy[replica]
    cut, num_decoding, future = look_ahead(state, replica)
    joining = num_decoding if policy.enable_mixed_chunk else 0
    chunk = policy.max_num_batched_tokens - joining if policy.enable_chunked_prefill else NO_LIMIT
    budget = policy.max_prefill_tokens - joining
    room = counters.num_free_blocks * policy.block_size - joining - future
    if cut >= 0:
        needed = state.requests[cut].num_tokens - state.requests[cut].num_computed_tokens
        n = min(needed, chunk, int(room))
        if n == needed:
            room -= clipped(most_outputs(state, replica, cut))
        else:
            counters.stop_reason = reasons.BUDGET if n == chunk else reasons.KV_BLOCKS
        if n > 0:
            ops.schedule_tokens(state, replica, cut, n, needed)
            tokens = in_pages(state, replica, n)
            chunk, budget, room = chunk - tokens, budget - tokens, room - tokens
    if counters.num_waiting > 0:
        counters.stop_reason = admit_waiting(state, replica, num_decoding, chunk, budget, room)
    return num_decoding


@njit_inner
def admit_waiting(
    state: State, replica: int, num_decoding: int, chunk: int, budget: int, room: float
) -> int:
    """Admit first come, first served, until places, `room`, max_prefill_tokens or the chunk run
    out; returns which of them did.
    """
    counters, policy = state.counters[replica], state.policy[replica]
    while counters.num_waiting > 0 and not counters.batch_is_full:
        r = waiting_queue.head(state, replica)
        request = state.requests[r]
        if counters.num_scheduled >= policy.max_num_seqs - num_decoding:
            ops.record_refusal(
                state, r, reasons.REFUSED_MAX_NUM_SEQS, num_decoding, policy.max_num_seqs
            )
            counters.batch_is_full = 1
            break
        hits = kv.find_longest_cache_hit(state, replica, r) if policy.enable_prefix_caching else 0
        needed, outputs = (
            request.num_tokens - hits * policy.block_size,
            most_outputs(state, replica, r),
        )
        left = room - kv.num_free_hit_blocks(state, replica, hits) * policy.block_size
        whole = needed + clipped(outputs - request.num_output_tokens)
        if whole >= left:
            value, limit = kv.blocks_for(whole, policy.block_size), int(left) // policy.block_size
            ops.record_refusal(state, r, reasons.REFUSED_KV_BLOCKS, value, max(limit, 0))
            counters.batch_is_full = 1
            break
        n, tokens = needed, in_pages(state, replica, needed)
        too_many = tokens >= budget and counters.num_scheduled > 0
        if tokens > chunk:
            n = tokens = max(chunk, 0) // policy.block_size * policy.block_size
        if too_many or n == 0:
            ops.record_refusal(state, r, reasons.REFUSED_BUDGET, needed, max(min(chunk, budget), 0))
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
def look_ahead(state: State, replica: int):
    """(the request whose prompt was cut or -1, how many decode, tokens they are expected to
    generate)."""
    counters, cut, num_decoding, future = state.counters[replica], -1, 0, 0.0
    for i in range(counters.num_running):
        r = state.running[replica, i]
        if is_decoding(state, r):
            num_decoding += 1
            left = most_outputs(state, replica, r) - state.requests[r].num_output_tokens
            future += clipped(left) * counters.new_token_ratio
        else:
            cut = r
    return cut, num_decoding, future


@njit_inline
def is_decoding(state: State, r: int) -> bool:
    """Whether the prompt of `r`, which runs, is computed."""
    return state.requests[r].num_computed_tokens >= state.requests[r].context_len


@njit_inline
def most_outputs(state: State, replica: int, r: int) -> int:
    """max_new_tokens, as the front end clips it."""
    request = state.requests[r]
    return min(request.max_tokens, state.policy[replica].max_model_len - request.num_prompt_tokens)


@njit_inline
def in_pages(state: State, replica: int, tokens: int) -> int:
    """`tokens` rounded up to whole pages."""
    page = state.policy[replica].block_size
    return kv.blocks_for(tokens, page) * page


@njit_inline
def clipped(tokens: int) -> int:
    return min(max(tokens, 0), CLIP_MAX_NEW_TOKENS)


@njit_inner
def allocate(state: State, replica: int) -> bool:
    """Take the pages of a prefill batch, now that all of it is known; returns whether it leaves a
    prompt half done.
    """
    leaves_a_cut = False
    for i in range(state.counters[replica].num_scheduled):
        item = state.scheduled[replica, i]
        take_pages(
            state, replica, np.int64(item.request), item.num_computed_tokens + item.num_tokens
        )
        leaves_a_cut |= item.num_tokens < item.num_needed
    return leaves_a_cut


@njit_inline
def take_pages(state: State, replica: int, r: int, tokens: int) -> bool:
    """Give `r` the pages for its first `tokens` tokens; False when there are not enough."""
    request = state.requests[r]
    if tokens > request.capacity and not kv.allocate_slots(state, replica, r, tokens):
        return False
    if state.policy[replica].enable_prefix_caching and tokens >= request.cache_at:
        kv.cache_full_blocks(state, replica, r, tokens)
    return True


# --- decode --------------------------------------------------------------------------------------


@njit_inner
def schedule_decodes(state: State, replica: int) -> None:
    """Everybody who decodes gets a token; retract requests when there are too few pages for that,
    else trust the estimate a little more."""
    counters, initial = state.counters[replica], state.policy[replica].init_new_token_ratio
    if lacks_pages(state, replica):
        retract(state, replica)
    else:
        lowest = initial * MIN_NEW_TOKEN_RATIO_FACTOR
        decay = (initial - lowest) / NEW_TOKEN_RATIO_DECAY_STEPS
        counters.new_token_ratio = max(counters.new_token_ratio - decay, lowest)
    plan_decodes(state, replica)


@njit_inner
def plan_decodes(state: State, replica: int) -> None:
    """A token for everybody who decodes. Without a page (possible in a mixed batch with pages of
    several tokens) one waits."""
    counters = state.counters[replica]
    for i in range(counters.num_running):
        r = state.running[replica, i]
        if is_decoding(state, r):
            if take_pages(state, replica, r, state.requests[r].num_computed_tokens + 1):
                ops.schedule_tokens(state, replica, r, 1, 1)
            else:
                ops.record_refusal(state, r, reasons.REFUSED_KV_BLOCKS, 1, counters.num_free_blocks)


@njit_inner
def lacks_pages(state: State, replica: int) -> bool:
    """Whether there are too few pages for one more token of everybody who decodes."""
    counters, needed = state.counters[replica], 0
    for i in range(counters.num_running):
        r = state.running[replica, i]
        needed += (
            is_decoding(state, r) and state.requests[r].num_tokens > state.requests[r].capacity
        )
    return needed > counters.num_free_blocks


@njit_inner
def retract(state: State, replica: int) -> None:
    """Retract decoding requests, those with the fewest outputs first, until the others have room
    for a token; expect of those left what they have generated and RETRACT_DECODE_STEPS more.

    The last one is never retracted; a half-done prompt pays for it, if need be."""
    counters, requests = state.counters[replica], state.requests
    while lacks_pages(state, replica):
        nobody, others = counters.num_running, 0
        victim = cut = nobody
        for i in range(counters.num_running):
            r = state.running[replica, i]
            if not is_decoding(state, r):
                cut = i
                continue
            others += 1
            if victim == nobody or goes_first(
                requests[r], requests[state.running[replica, victim]]
            ):
                victim = i
        if others <= 1:
            victim = cut
        if victim == nobody:
            break
        ops.preempt(state, replica, victim)
    counters.stop_reason, counters.batch_is_full = reasons.PREEMPTED, 0
    outputs, most, n = 0, 0, 0
    for i in range(counters.num_running):
        r = state.running[replica, i]
        if is_decoding(state, r):
            outputs += requests[r].num_output_tokens
            most += most_outputs(state, replica, r)
            n += 1
    counters.new_token_ratio = min((outputs + RETRACT_DECODE_STEPS * n) / (most + 1), 1.0)


@njit_inline
def goes_first(one, other) -> bool:
    """Whether `one`, which stands behind `other`, is retracted first: fewer outputs, else no
    shorter a prompt."""
    if one.num_output_tokens != other.num_output_tokens:
        return one.num_output_tokens < other.num_output_tokens
    return one.num_prompt_tokens >= other.num_prompt_tokens

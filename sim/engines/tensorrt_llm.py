"""TensorRT-LLM in-flight batching: two schedulers read one list of requests, in order of arrival.

The capacity scheduler decides which requests may have KV memory, the micro-batch scheduler which of
these get tokens of this step. The active list holds the first max_batch_size requests that arrived
and have not ended; a paused request keeps its place in it. The first chunk of a prompt takes the
blocks of the whole prompt. Reused blocks cost no tokens of the budget; the capacity scheduler
counts the blocks that must be free.

Source: NVIDIA/TensorRT-LLM, `tensorrt_llm/_torch/pyexecutor/scheduler/scheduler.py` @ 002f3cc3d055
and, for counts of blocks, `kvCacheManager.cpp` @ b35ac1b64368. Not modelled: the overlap scheduler,
priorities, `KVCacheV2Scheduler`, and the step that a prompt waits while another request computes a
block that both start with (here the block is computed twice)."""

import numpy as np

from sim.core import kv_cache as kv
from sim.core import reasons, waiting_queue
from sim.core import scheduler_ops as ops
from sim.core.compiled import njit_inline, njit_inner
from sim.core.state import State

CAPACITY_POLICIES = ("GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH")
GUARANTEED_NO_EVICT, MAX_UTILIZATION, STATIC_BATCH = range(len(CAPACITY_POLICIES))
CHUNKING_POLICIES = ("none", "FIRST_COME_FIRST_SERVED", "EQUAL_PROGRESS", "FORCE_CHUNK")
WHOLE_PROMPTS, FIRST_COME_FIRST_SERVED, EQUAL_PROGRESS, FORCE_CHUNK = range(len(CHUNKING_POLICIES))


@njit_inner
def schedule(state: State, replica: int) -> None:
    """Plan one step: the active list, the capacity scheduler, the micro-batch scheduler."""
    counters, policy = state.counters[replica], state.policy[replica]
    most_waiting = policy.max_num_seqs
    if policy.capacity_policy == STATIC_BATCH and any_generating(state, replica):
        most_waiting = np.int64(1)  # no request joins: the first waiting one is refused
    num_active = waiting_queue.list_active(state, replica, most_waiting)
    if counters.num_running + counters.num_waiting > num_active:
        counters.stop_reason = reasons.MAX_BATCH_SIZE
    if policy.capacity_policy == MAX_UTILIZATION:
        num_fitting = max_utilization(state, replica, num_active)
    else:
        num_fitting = guaranteed_no_evict(state, replica, num_active)
    num_chosen = micro_batch(state, replica, num_fitting)
    schedule_batch(state, replica, num_fitting, num_chosen)
    if counters.num_preempted > 0:
        counters.stop_reason = reasons.PREEMPTED


@njit_inline
def is_generating(state: State, r: int) -> bool:
    """Whether the prompt of `r` (and, after a pause, the tokens it had generated) is computed."""
    request = state.requests[r]
    return request.status == reasons.RUNNING and request.num_computed_tokens >= request.context_len


@njit_inner
def any_generating(state: State, replica: int) -> bool:
    """Whether a running request generates."""
    for i in range(state.counters[replica].num_running):
        if is_generating(state, state.running[replica, i]):
            return True
    return False


@njit_inline
def most_tokens(state: State, replica: int, r: int) -> int:
    """Prompt + max_tokens: the most tokens that `r` may hold, one more than are ever stored."""
    request = state.requests[r]
    return min(request.num_prompt_tokens + request.max_tokens, state.policy[replica].max_model_len)


@njit_inner
def blocks_needed(state: State, replica: int, r: int, tokens: int):
    """(free blocks that `r` needs in order to hold `tokens` tokens, blocks it can reuse)."""
    policy, request = state.policy[replica], state.requests[r]
    needed = kv.blocks_for(tokens, policy.block_size) - request.num_blocks
    if request.status == reasons.RUNNING or not policy.enable_prefix_caching:
        return needed, 0
    hits = kv.find_longest_cache_hit(state, replica, r)
    return needed - hits + kv.num_free_hit_blocks(state, replica, hits), hits


@njit_inline
def add_fitting(state: State, replica: int, n: int, r: int, hits: int) -> None:
    """Record `r` as the n-th request that fits."""
    request, candidate = state.requests[r], state.candidates[replica, n]
    candidate.request, candidate.num_hits, candidate.num_tokens = r, hits, 0
    computed = hits * state.policy[replica].block_size
    if request.status == reasons.RUNNING:
        computed = request.num_computed_tokens
    candidate.num_needed = request.num_tokens - computed


# --- capacity scheduler: KV memory ---------------------------------------------------------------


@njit_inner
def guaranteed_no_evict(state: State, replica: int, num_active: int) -> int:
    """Admit requests whose KV fits up to their last token; no request is ever paused. Returns how
    many fit.

    Generating requests first, then prompts in order of arrival up to the first that does not fit:
    no request overtakes. STATIC_BATCH admits prompts only while no request generates."""
    policy, counters, active = state.policy[replica], state.counters[replica], state.active[replica]
    free, n = counters.num_free_blocks, 0
    for i in range(num_active):
        r = active[i]
        if is_generating(state, r):
            needed, hits = blocks_needed(state, replica, r, most_tokens(state, replica, r))
            add_fitting(state, replica, n, r, hits)
            free -= needed
            n += 1
    closed = policy.capacity_policy == STATIC_BATCH and n > 0
    for i in range(num_active):
        r = active[i]
        if is_generating(state, r):
            continue
        if closed:
            ops.record_refusal(state, r, reasons.REFUSED_CLOSED_BATCH, n, n)
            counters.stop_reason = reasons.MAX_BATCH_SIZE
            break
        needed, hits = blocks_needed(state, replica, r, most_tokens(state, replica, r))
        if needed > free:
            ops.record_refusal(state, r, reasons.REFUSED_KV_BLOCKS, needed, free)
            counters.stop_reason = reasons.KV_BLOCKS
            break
        add_fitting(state, replica, n, r, hits)
        free -= needed
        n += 1
    return n


@njit_inner
def max_utilization(state: State, replica: int, num_active: int) -> int:
    """Admit requests whose KV fits in this step, pausing the last started request when memory is
    short. Returns how many fit.

    Requests behind the victim do not run in this step, and no request is paused for one behind it.
    After a pause the list is walked again: the victim's blocks may be shared."""
    policy, counters = state.policy[replica], state.counters[replica]
    active, running = state.active[replica], state.running[replica]
    lookahead = 2 if policy.two_step_lookahead else 1
    i, used, end = 0, 0, num_active
    while i < end:
        r = active[i]
        tokens = state.requests[r].num_tokens
        if is_generating(state, r):
            tokens = min(tokens - 1 + lookahead, most_tokens(state, replica, r))
        needed, hits = blocks_needed(state, replica, r, tokens)
        if used + needed <= counters.num_free_blocks:
            add_fitting(state, replica, i, r, hits)
            used += needed
            i += 1
            continue
        last = counters.num_running - 1
        if last < 0 or waiting_queue.arrived_before(state, running[last], r):
            ops.record_refusal(
                state, r, reasons.REFUSED_KV_BLOCKS, needed, counters.num_free_blocks - used
            )
            counters.stop_reason = reasons.KV_BLOCKS
            break
        while active[end - 1] != running[last]:
            end -= 1
        end -= 1
        ops.preempt(state, replica, last)
        i, used = 0, 0
    return i


# --- micro-batch scheduler: tokens of this step --------------------------------------------------


@njit_inner
def micro_batch(state: State, replica: int, num_fitting: int) -> int:
    """Divide max_num_tokens among the requests that fit; returns how many of them are chosen.

    A generating request costs one token, a whole prompt all of its tokens; the first that does not
    fit ends it. Chunked prompts share what the generating requests leave."""
    policy, counters = state.policy[replica], state.counters[replica]
    candidates, left = state.candidates[replica], policy.max_num_batched_tokens
    chunked, wanted, n = policy.chunking_policy != WHOLE_PROMPTS, 0, 0
    while n < num_fitting:
        candidate = candidates[n]
        if is_generating(state, candidate.request):
            if left < 1:
                counters.stop_reason = reasons.BUDGET
                break
            left -= 1
        elif chunked:
            wanted += candidate.num_needed
        else:
            if candidate.num_needed > left:
                counters.stop_reason = reasons.WHOLE_PROMPT
                break
            left -= candidate.num_needed
        candidate.num_tokens = candidate.num_needed
        n += 1
    if policy.chunking_policy == FORCE_CHUNK:
        force_chunk(state, replica, n, left)
    elif wanted > left:
        counters.stop_reason = reasons.BUDGET
        if policy.chunking_policy == EQUAL_PROGRESS:
            equal_progress(state, replica, n, left)
        else:
            first_come_first_served(state, replica, n, left)
    return n


@njit_inner
def first_come_first_served(state: State, replica: int, n: int, left: int) -> None:
    """Each prompt in turn gets the tokens that are left; a cut chunk is rounded down to chunk_unit,
    and the remainder goes to later prompts."""
    for k in range(n):
        candidate = state.candidates[replica, k]
        if not is_generating(state, candidate.request):
            if candidate.num_needed > left:
                candidate.num_tokens = left - left % state.policy[replica].chunk_unit
            left -= candidate.num_tokens


@njit_inner
def equal_progress(state: State, replica: int, n: int, left: int) -> None:
    """In each round every prompt gets one more unit, or its smaller rest, while that fits."""
    candidates, unit = state.candidates[replica], state.policy[replica].chunk_unit
    for k in range(n):
        if not is_generating(state, candidates[k].request):
            candidates[k].num_tokens = 0
    moved = True
    while moved:
        moved = False
        for k in range(n):
            more = min(unit, candidates[k].num_needed - candidates[k].num_tokens)
            if 0 < more <= left:
                candidates[k].num_tokens += more
                left -= more
                moved = True


@njit_inner
def force_chunk(state: State, replica: int, n: int, left: int) -> None:
    """Each chunk ends at the next multiple of snapshot_every, where linear attention keeps a
    snapshot of its state."""
    policy, counters = state.policy[replica], state.counters[replica]
    for k in range(n):
        candidate = state.candidates[replica, k]
        if is_generating(state, candidate.request):
            continue
        request = state.requests[candidate.request]
        computed = request.num_tokens - candidate.num_needed
        snapshot = (computed // policy.snapshot_every + 1) * policy.snapshot_every
        if snapshot < request.num_prompt_tokens:
            candidate.num_tokens = snapshot - computed
            counters.stop_reason = reasons.CHUNK_CAP
        if candidate.num_tokens > left:
            candidate.num_tokens = left - left % policy.chunk_unit
            counters.stop_reason = reasons.BUDGET
        left -= candidate.num_tokens


@njit_inner
def schedule_batch(state: State, replica: int, num_fitting: int, num_chosen: int) -> None:
    """Schedule the chosen tokens: cut prompts, prompts that end here, then generating requests.

    All prompts are admitted before any block is allocated, so that they find the blocks to reuse
    that the capacity scheduler counted."""
    candidates, left = state.candidates[replica], state.policy[replica].max_num_batched_tokens
    for k in range(num_chosen):
        r = candidates[k].request
        if candidates[k].num_tokens > 0 and state.requests[r].status != reasons.RUNNING:
            hits = kv.find_longest_cache_hit(state, replica, r) if candidates[k].num_hits > 0 else 0
            ops.admit(state, replica, r, hits)
    for group in range(3):
        for k in range(num_chosen):
            candidate = candidates[k]
            if candidate.num_tokens > 0 and group == batch_group(state, candidate):
                left -= candidate.num_tokens
                schedule_request(state, replica, candidate.request, candidate.num_tokens)
    for k in range(num_fitting):
        candidate = candidates[k]
        if candidate.num_tokens == 0:
            kind = reasons.REFUSED_BUDGET
            if k == num_chosen and state.counters[replica].stop_reason == reasons.WHOLE_PROMPT:
                kind = reasons.REFUSED_WHOLE_PROMPT
            ops.record_refusal(state, candidate.request, kind, candidate.num_needed, left)


@njit_inline
def batch_group(state: State, candidate) -> int:
    """The group of a request in the batch: 0 a cut prompt, 1 one that ends here, 2 generating."""
    if is_generating(state, candidate.request):
        return 2
    return 1 if candidate.num_tokens == candidate.num_needed else 0


@njit_inline
def schedule_request(state: State, replica: int, r: int, n: int) -> None:
    """Schedule `n` tokens of `r`, with blocks for its whole prompt or its next token."""
    request = state.requests[r]
    needed = request.num_tokens - request.num_computed_tokens
    computed = request.num_computed_tokens + n
    if request.num_tokens > request.capacity:
        kv.allocate_slots(state, replica, r, request.num_tokens)
    if state.policy[replica].enable_prefix_caching and computed >= request.cache_at:
        kv.cache_full_blocks(state, replica, r, computed)
    ops.schedule_tokens(state, replica, r, n, needed)

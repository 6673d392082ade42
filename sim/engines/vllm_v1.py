"""vLLM V1: no phases. Computed tokens catch up with known tokens, within one budget a step.

Running requests come first, in list order; then, if nobody had to be preempted, waiting requests
are admitted until the budget, max_num_seqs or the KV blocks run out. That decodes come before new
prompts is a consequence of list order, not a rule.

Source: `vllm/v1/core/sched/scheduler.py`, `Scheduler.schedule`, vLLM 0.26.0, synchronous
scheduling."""

from sim.core import kv_cache as kv
from sim.core import kv_loading, reasons, waiting_queue
from sim.core import scheduler_ops as ops
from sim.core.compiled import njit_inner
from sim.core.state import State


@njit_inner
def schedule(state: State, replica: int) -> None:
    """Plan one step."""
    counters = state.counters[replica]
    budget, cut = schedule_running(state, replica)
    if counters.num_preempted > 0:
        counters.stop_reason = reasons.PREEMPTED
    else:
        budget, cut, goes_on = admit_loaded(state, replica, budget, cut)
        counters.stop_reason = admit_waiting(state, replica, budget, cut) if goes_on else cut


@njit_inner
def schedule_running(state: State, replica: int):
    """Serve `running` in list order; returns (tokens left, why the last chunk was cut)."""
    policy, counters, running = (
        state.policy[replica],
        state.counters[replica],
        state.running[replica],
    )
    budget, cut = policy.max_num_batched_tokens, reasons.QUEUE_EMPTY
    i = 0
    while i < counters.num_running and budget > 0:
        r = running[i]
        request = state.requests[r]
        needed = request.num_tokens - request.num_computed_tokens
        n = needed
        if 0 < policy.long_prefill_token_threshold < n:
            n = policy.long_prefill_token_threshold
            cut = reasons.CHUNK_CAP
        if n > budget:
            n = budget
            cut = reasons.BUDGET
        n = min(n, policy.max_model_len - request.num_computed_tokens - 1)
        if n == 0:
            ops.note(state, r, reasons.STUCK_AT_MAX_MODEL_LEN, needed, policy.max_model_len)
            i += 1
            continue

        if request.num_computed_tokens + n > request.capacity:
            fits, given_back, scheduled_victims = make_room(state, replica, r, n)
            budget += given_back
            i -= scheduled_victims
            if not fits:
                break
        if policy.enable_prefix_caching and request.num_computed_tokens + n >= request.cache_at:
            kv.enter_full_blocks(state, replica, r, request.num_computed_tokens + n)
        ops.plan(state, replica, r, n, needed)
        budget -= n
        i += 1

    for k in range(i, counters.num_running):
        request = state.requests[running[k]]
        needed = request.num_tokens - request.num_computed_tokens
        if counters.num_preempted > 0:
            kind, limit = reasons.REFUSED_PREEMPTED, 0
        else:
            kind, limit = reasons.REFUSED_BUDGET, budget
            cut = reasons.BUDGET
        ops.note(state, running[k], kind, needed, limit)
    return budget, cut


@njit_inner
def make_room(state: State, replica: int, r: int, n: int):
    """Get the blocks for `n` more tokens of `r`, preempting one victim after the other.

    Returns (whether `r` got them, tokens that came back to the budget, victims that had some).
    """
    policy, counters = state.policy[replica], state.counters[replica]
    given_back = scheduled_victims = 0
    tokens = state.requests[r].num_computed_tokens + n
    while not kv.grow(state, replica, r, tokens):
        place = counters.num_running - 1
        if policy.priority:
            place = least_important(state, replica)
        victim = state.running[replica, place]
        unscheduled = ops.unplan(state, replica, victim)
        if unscheduled > 0:
            given_back += unscheduled
            scheduled_victims += 1
        ops.preempt(state, replica, place)
        if victim == r:
            return False, given_back, scheduled_victims
    return True, given_back, scheduled_victims


@njit_inner
def least_important(state: State, replica: int) -> int:
    """Place in `running` of the largest (priority, arrival); of equals the first."""
    running, requests = state.running[replica], state.requests
    worst = 0
    for place in range(1, state.counters[replica].num_running):
        one, other = requests[running[place]], requests[running[worst]]
        if one.priority > other.priority or (
            one.priority == other.priority and one.arrival_s > other.arrival_s
        ):
            worst = place
    return worst


@njit_inner
def admit_loaded(state: State, replica: int, budget: int, cut: int):
    """Those whose KV has come from elsewhere run before anybody waiting, in order; those whose KV
    is still on its way are passed over. Returns (tokens left, why a chunk was cut or nobody more
    goes, whether others may)."""
    policy, counters = state.policy[replica], state.counters[replica]
    place = 0
    while counters.num_loaded > 0 and place < counters.num_loading:
        r = state.loading[replica, place]
        request = state.requests[r]
        if request.status != reasons.LOADED:
            place += 1
            continue
        needed = request.num_tokens - request.num_computed_tokens
        if budget == 0:
            ops.note(state, r, reasons.REFUSED_BUDGET, needed, 0)
            return budget, reasons.BUDGET, False
        if counters.num_running >= policy.max_num_seqs:
            limit = policy.max_num_seqs
            ops.note(state, r, reasons.REFUSED_MAX_NUM_SEQS, counters.num_running, limit)
            return budget, reasons.MAX_NUM_SEQS, False
        n = needed
        if 0 < policy.long_prefill_token_threshold < n:
            n = policy.long_prefill_token_threshold
            cut = reasons.CHUNK_CAP
        if n > budget:
            n = budget
            cut = reasons.BUDGET
        tokens = request.num_computed_tokens + n
        if not kv.grow(state, replica, r, min(tokens, policy.max_model_len)):
            missing = kv.blocks_for(tokens, policy.block_size) - request.num_blocks
            ops.note(state, r, reasons.REFUSED_KV_BLOCKS, missing, counters.num_free_blocks)
            return budget, reasons.KV_BLOCKS, False
        kv_loading.enter(state, replica, r)
        if policy.enable_prefix_caching:
            kv.enter_full_blocks(state, replica, r, tokens)
        ops.plan(state, replica, r, n, needed)
        budget -= n
    return budget, cut, True


@njit_inner
def admit_waiting(state: State, replica: int, budget: int, cut: int) -> int:
    """Admit from the head of the waiting queue; the first that cannot go ends it. Returns why it
    ended.
    """
    policy, counters = state.policy[replica], state.counters[replica]
    while counters.num_waiting > 0:
        r = waiting_queue.head(state, replica)
        request = state.requests[r]
        if budget == 0:
            ops.note(state, r, reasons.REFUSED_BUDGET, request.num_tokens, 0)
            return reasons.BUDGET
        if counters.num_running >= policy.max_num_seqs:
            limit = policy.max_num_seqs
            ops.note(state, r, reasons.REFUSED_MAX_NUM_SEQS, counters.num_running, limit)
            return reasons.MAX_NUM_SEQS

        hits = kv.look_up(state, replica, r) if policy.enable_prefix_caching else 0
        if request.load_tokens == request.num_prompt_tokens:  # its last block comes in any case
            hits = min(hits, (request.load_tokens - 1) // policy.block_size)
        computed = hits * policy.block_size
        if request.load_tokens > computed:
            refusal, missing = lacks_blocks(
                state, replica, r, hits, request.num_tokens, kv_loading.promised(state, replica)
            )
            if refusal == reasons.ADMITTED and counters.num_loading == state.loading.shape[1]:
                refusal, missing = reasons.REFUSED_SLOTS, counters.num_loading
            if refusal != reasons.ADMITTED:
                ops.note(state, r, refusal, missing, counters.num_free_blocks)
                return reasons.KV_BLOCKS
            kv_loading.reserve(state, replica, r, hits)
            continue
        needed = request.num_tokens - computed
        n = needed
        if 0 < policy.long_prefill_token_threshold < n:
            n = policy.long_prefill_token_threshold
            cut = reasons.CHUNK_CAP
        if n > budget:
            if not policy.enable_chunked_prefill:
                ops.note(state, r, reasons.REFUSED_WHOLE_PROMPT, n, budget)
                return reasons.WHOLE_PROMPT
            n = budget
            cut = reasons.BUDGET

        refusal, missing = lacks_blocks(state, replica, r, hits, computed + n, kv.NO_BLOCKS)
        if refusal != reasons.ADMITTED:
            ops.note(state, r, refusal, missing, counters.num_free_blocks)
            return reasons.KV_BLOCKS
        ops.admit(state, replica, r, hits)
        kv.grow(state, replica, r, min(computed + n, policy.max_model_len))
        if policy.enable_prefix_caching:
            kv.enter_full_blocks(state, replica, r, computed + n)
        ops.plan(state, replica, r, n, needed)
        budget -= n
    return cut


@njit_inner
def lacks_blocks(state: State, replica: int, r: int, hits: int, tokens: int, promised: int):
    """(ADMITTED, 0) if `r` may have the blocks for `tokens` tokens, else (which refusal, blocks
    needed).

    The full-prompt gate asks for room for the whole prompt, and what it had generated, though only
    the chunk is allocated: nothing stays reserved. Hits that lie in the free list cost free blocks
    too. The watermark is waived while nothing runs. `promised` blocks are free and spoken for."""
    policy, counters = state.policy[replica], state.counters[replica]
    extra = kv.count_free(state, replica, hits) + promised
    if counters.num_running > 0:
        extra += policy.watermark_blocks
    if policy.scheduler_reserve_full_isl:
        whole = min(state.requests[r].num_tokens, policy.max_model_len)
        needed = max(kv.blocks_for(whole, policy.block_size) - hits, 0) + extra
        if needed > counters.num_free_blocks:
            return reasons.REFUSED_FULL_PROMPT, needed
    chunk = min(tokens, policy.max_model_len)
    needed = max(kv.blocks_for(chunk, policy.block_size) - hits, 0) + extra
    if needed > counters.num_free_blocks:
        return reasons.REFUSED_KV_BLOCKS, needed
    return reasons.ADMITTED, 0

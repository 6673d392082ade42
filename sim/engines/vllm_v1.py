"""vLLM V1: no phases. Computed tokens catch up with known tokens, within one budget per step.

Running requests come first, in list order. Then, unless a request was preempted, waiting requests
are admitted until the budget, max_num_seqs or the KV blocks run out. Decodes come before new
prompts because of the list order; there is no rule for it.

Source: `vllm/v1/core/sched/scheduler.py`, `Scheduler.schedule`, vLLM 0.26.0, synchronous
scheduling."""

from sim.core import kv_cache as kv
from sim.core import kv_loading, reasons, waiting_queue
from sim.core import scheduler_ops as ops
from sim.core.compiled import njit_inline, njit_inner
from sim.core.state import State
from sim.engines import _kv_connector as kv_connector


@njit_inner
def schedule(state: State, replica: int) -> None:
    """Plan one step."""
    counters = state.counters[replica]
    budget = schedule_running(state, replica)
    if counters.num_preempted > 0:
        counters.stop_reason = reasons.PREEMPTED
        return
    budget = admit_loaded(state, replica, budget)
    if budget >= 0:
        admit_waiting(state, replica, budget)


@njit_inline
def cap(policy, needed: int) -> int:
    """`needed` tokens, or the most that one request may get in a step."""
    if 0 < policy.long_prefill_token_threshold < needed:
        return policy.long_prefill_token_threshold
    return needed


@njit_inline
def next_chunk(state: State, replica: int, needed: int, budget: int) -> int:
    """How many of the `needed` tokens run in this step; a cut is recorded as its stop reason."""
    counters, n = state.counters[replica], cap(state.policy[replica], needed)
    if n < needed:
        counters.stop_reason = reasons.CHUNK_CAP
    if n > budget:
        n = budget
        counters.stop_reason = reasons.BUDGET
    return n


# --- running requests -----------------------------------------------------------------------------


@njit_inner
def schedule_running(state: State, replica: int) -> int:
    """Schedule `running` in list order; returns the tokens left of the budget."""
    policy, counters = state.policy[replica], state.counters[replica]
    running, budget, i = state.running[replica], policy.max_num_batched_tokens, 0
    while i < counters.num_running and budget > 0:
        r = running[i]
        request = state.requests[r]
        needed = request.num_tokens - request.num_computed_tokens
        n = next_chunk(state, replica, needed, budget)
        n = min(n, policy.max_model_len - request.num_computed_tokens - 1)
        if n == 0:
            limit = policy.max_model_len
            ops.record_refusal(state, r, reasons.STUCK_AT_MAX_MODEL_LEN, needed, limit)
            i += 1
            continue
        computed = request.num_computed_tokens + n
        if computed > request.capacity:
            num_scheduled = counters.num_scheduled
            budget += allocate_or_preempt(state, replica, r, computed)
            i -= num_scheduled - counters.num_scheduled  # victims that stood before it
            if request.status != reasons.RUNNING:
                break
        if policy.enable_prefix_caching and computed >= request.cache_at:
            kv.cache_full_blocks(state, replica, r, computed)
        ops.schedule_tokens(state, replica, r, n, needed)
        budget -= n
        i += 1

    for k in range(i, counters.num_running):
        request = state.requests[running[k]]
        needed = request.num_tokens - request.num_computed_tokens
        if counters.num_preempted > 0:
            ops.record_refusal(state, running[k], reasons.REFUSED_PREEMPTED, needed, 0)
        else:
            ops.record_refusal(state, running[k], reasons.REFUSED_BUDGET, needed, budget)
            counters.stop_reason = reasons.BUDGET
    return budget


@njit_inner
def allocate_or_preempt(state: State, replica: int, r: int, tokens: int) -> int:
    """Allocate blocks for `tokens` tokens of `r`, preempting victims until they are free. The last
    victim may be `r` itself. Returns the tokens that go back to the budget."""
    policy, counters = state.policy[replica], state.counters[replica]
    unscheduled = 0
    while not kv.allocate_slots(state, replica, r, tokens):
        place = (
            lowest_priority_index(state, replica) if policy.priority else counters.num_running - 1
        )
        victim = state.running[replica, place]
        unscheduled += ops.unschedule(state, replica, victim)
        ops.preempt(state, replica, place)
        if victim == r:
            break
    return unscheduled


@njit_inner
def lowest_priority_index(state: State, replica: int) -> int:
    """The place in `running` of the largest (priority, arrival); the first one if equal."""
    running, requests = state.running[replica], state.requests
    worst = 0
    for place in range(1, state.counters[replica].num_running):
        one, other = requests[running[place]], requests[running[worst]]
        if one.priority > other.priority or (
            one.priority == other.priority and one.arrival_s > other.arrival_s
        ):
            worst = place
    return worst


# --- admission ------------------------------------------------------------------------------------


@njit_inner
def admit_waiting(state: State, replica: int, budget: int) -> None:
    """Admit from the head of the waiting queue; the first request that is refused ends it."""
    policy, counters = state.policy[replica], state.counters[replica]
    while counters.num_waiting > 0:
        r = waiting_queue.head(state, replica)
        request = state.requests[r]
        if step_is_full(state, replica, r, request.num_tokens, budget):
            return
        hits = kv.find_longest_cache_hit(state, replica, r) if policy.enable_prefix_caching else 0
        hits = kv_connector.local_hits(state, replica, r, hits)
        computed = hits * policy.block_size
        if request.load_tokens > computed:
            promised = kv_loading.num_promised_blocks(state, replica)
            if not has_blocks(state, replica, r, hits, request.num_tokens, promised):
                return
            if not kv_connector.reserve(state, replica, r, hits):
                counters.stop_reason = reasons.KV_BLOCKS
                return
            continue
        needed = request.num_tokens - computed
        if not policy.enable_chunked_prefill and cap(policy, needed) > budget:
            whole = cap(policy, needed)
            ops.record_refusal(state, r, reasons.REFUSED_WHOLE_PROMPT, whole, budget)
            counters.stop_reason = reasons.WHOLE_PROMPT
            return
        n = next_chunk(state, replica, needed, budget)
        if not has_blocks(state, replica, r, hits, computed + n, kv.NO_BLOCKS):
            return
        ops.admit(state, replica, r, hits)
        kv.allocate_slots(state, replica, r, min(computed + n, policy.max_model_len))
        if policy.enable_prefix_caching:
            kv.cache_full_blocks(state, replica, r, computed + n)
        ops.schedule_tokens(state, replica, r, n, needed)
        budget -= n


@njit_inner
def admit_loaded(state: State, replica: int, budget: int) -> int:
    """Admit the requests whose KV has arrived from elsewhere; returns the tokens left of the
    budget, -1 if one was refused: then no waiting request is admitted either."""
    r = kv_connector.next_loaded(state, replica)
    while r >= 0:
        needed = state.requests[r].num_tokens - state.requests[r].num_computed_tokens
        if step_is_full(state, replica, r, needed, budget):
            return -1
        n = next_chunk(state, replica, needed, budget)
        if not kv_connector.start_running(state, replica, r, n):
            state.counters[replica].stop_reason = reasons.KV_BLOCKS
            return -1
        ops.schedule_tokens(state, replica, r, n, needed)
        budget -= n
        r = kv_connector.next_loaded(state, replica)
    return budget


@njit_inner
def step_is_full(state: State, replica: int, r: int, needed: int, budget: int) -> bool:
    """Whether the budget is spent or max_num_seqs requests run; the refusal of `r` is recorded."""
    policy, counters = state.policy[replica], state.counters[replica]
    if budget == 0:
        ops.record_refusal(state, r, reasons.REFUSED_BUDGET, needed, budget)
        counters.stop_reason = reasons.BUDGET
        return True
    if counters.num_running >= policy.max_num_seqs:
        limit = policy.max_num_seqs
        ops.record_refusal(state, r, reasons.REFUSED_MAX_NUM_SEQS, counters.num_running, limit)
        counters.stop_reason = reasons.MAX_NUM_SEQS
        return True
    return False


@njit_inner
def has_blocks(state: State, replica: int, r: int, hits: int, tokens: int, promised: int) -> bool:
    """Whether `r` may have blocks for `tokens` tokens; a refusal is recorded.

    The full-prompt gate requires room for the whole prompt and the generated tokens of `r`, but
    only the chunk is allocated and nothing stays reserved. Hits in the free list cost free blocks
    too. The watermark is waived while no request runs. `promised` blocks are free but not
    available."""
    policy, counters = state.policy[replica], state.counters[replica]
    extra = kv.num_free_hit_blocks(state, replica, hits) + promised
    if counters.num_running > 0:
        extra += policy.watermark_blocks
    free = counters.num_free_blocks
    if policy.scheduler_reserve_full_isl:
        needed = num_new_blocks(policy, hits, state.requests[r].num_tokens) + extra
        if needed > free:
            ops.record_refusal(state, r, reasons.REFUSED_FULL_PROMPT, needed, free)
            counters.stop_reason = reasons.KV_BLOCKS
            return False
    needed = num_new_blocks(policy, hits, tokens) + extra
    if needed > free:
        ops.record_refusal(state, r, reasons.REFUSED_KV_BLOCKS, needed, free)
        counters.stop_reason = reasons.KV_BLOCKS
        return False
    return True


@njit_inline
def num_new_blocks(policy, hits: int, tokens: int) -> int:
    """Blocks for `tokens` tokens beside the `hits` that are cached already."""
    return max(kv.blocks_for(min(tokens, policy.max_model_len), policy.block_size) - hits, 0)

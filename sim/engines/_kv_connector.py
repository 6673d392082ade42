"""Requests of vLLM V1 whose KV comes from elsewhere: from a prefill server, or from a KV store.

A request reserves its blocks when its turn in the waiting queue comes, and waits beside the queue
until its KV has arrived; then it runs before every waiting request. State: sim/core/kv_loading.py.

Source: `vllm/v1/core/sched/scheduler.py`, `Scheduler.schedule`, vLLM 0.26.0."""

from sim.core import kv_cache as kv
from sim.core import kv_loading, reasons
from sim.core import scheduler_ops as ops
from sim.core.compiled import njit_inner
from sim.core.state import State


@njit_inner
def local_hits(state: State, replica: int, r: int, hits: int) -> int:
    """The prefix hits that `r` keeps of `hits`. The last block of a whole prompt is always loaded,
    whether it is cached here or not."""
    request = state.requests[r]
    if request.load_tokens == request.num_prompt_tokens:
        return min(hits, (request.load_tokens - 1) // state.policy[replica].block_size)
    return hits


@njit_inner
def reserve(state: State, replica: int, r: int, hits: int) -> bool:
    """The head of the queue reserves its blocks, which are free; False if no more requests may."""
    counters = state.counters[replica]
    if counters.num_loading == state.loading.shape[1]:
        free = counters.num_free_blocks
        ops.record_refusal(state, r, reasons.REFUSED_SLOTS, counters.num_loading, free)
        return False
    kv_loading.reserve_blocks(state, replica, r, hits)
    return True


@njit_inner
def next_loaded(state: State, replica: int) -> int:
    """The first request whose KV has arrived, -1 for none; those still loading are skipped."""
    counters = state.counters[replica]
    if counters.num_loaded > 0:
        for place in range(counters.num_loading):
            r = state.loading[replica, place]
            if state.requests[r].status == reasons.LOADED:
                return r
    return -1


@njit_inner
def start_running(state: State, replica: int, r: int, n: int) -> bool:
    """`r`, whose KV has arrived, joins `running` with blocks for `n` more tokens; False if these
    are not free."""
    policy, counters, request = state.policy[replica], state.counters[replica], state.requests[r]
    tokens = request.num_computed_tokens + n
    if not kv.allocate_slots(state, replica, r, min(tokens, policy.max_model_len)):
        missing = kv.blocks_for(tokens, policy.block_size) - request.num_blocks
        free = counters.num_free_blocks
        ops.record_refusal(state, r, reasons.REFUSED_KV_BLOCKS, missing, free)
        return False
    kv_loading.start_running(state, replica, r)
    if policy.enable_prefix_caching:
        kv.cache_full_blocks(state, replica, r, tokens)
    return True

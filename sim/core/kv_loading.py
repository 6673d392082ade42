"""KV that was computed elsewhere: reserve blocks, wait until the KV has arrived, then run.

This is vLLM's rule with an asynchronous KV connector. A request whose KV is to be loaded takes its
blocks when it reaches the head of the waiting queue, and is WAITING_FOR_REMOTE_KVS until they are
filled. Requests behind it in the queue are not blocked. Afterwards it is admitted before them. All
of its known tokens are computed except the last, which is computed again for its logits.

Source: `vllm/v1/core/sched/scheduler.py`, `Scheduler.schedule`, `_update_waiting_for_remote_kv` and
`nixl` pull scheduler `get_num_new_matched_tokens`, vLLM 0.26.0."""

from sim.core import kv_cache as kv
from sim.core import reasons, waiting_queue
from sim.core.compiled import njit, njit_inner
from sim.core.event_log import record_event
from sim.core.state import State


@njit_inner
def num_promised_blocks(state: State, replica: int) -> int:
    """Blocks that running requests need for the rest of their prompts. A load may not take them:
    it would hold blocks without making progress (`_inflight_prefill_reserved_blocks`)."""
    policy, blocks = state.policy[replica], 0
    for i in range(state.counters[replica].num_running):
        request = state.requests[state.running[replica, i]]
        known = min(request.num_tokens, policy.max_model_len)
        blocks += max(kv.blocks_for(known, policy.block_size) - request.num_blocks, 0)
    return blocks


@njit_inner
def reserve_blocks(state: State, replica: int, r: int, num_hits: int) -> None:
    """Move the head of the waiting queue to `loading`, with blocks for all its known tokens.

    The caller has looked up its prefix hits and checked that the blocks are free. If only a prefix
    is loaded (from a KV store), the rest gets its blocks too. Otherwise loaded prefixes could fill
    the pool, and none of their requests could run."""
    counters, request = state.counters[replica], state.requests[r]
    waiting_queue.take_out(state, replica, r)
    kv.take_slot(state, replica, r, num_hits)
    request.hit_tokens = request.num_computed_tokens = request.capacity
    kv.allocate_slots(state, replica, r, request.num_tokens)
    request.context_len = request.num_tokens
    request.status = reasons.LOADING
    state.loading[replica, counters.num_loading] = r
    counters.num_loading += 1
    counters.num_reserved += 1
    used = state.policy[replica].num_gpu_blocks - 1 - counters.num_free_blocks
    counters.peak_kv_blocks = max(counters.peak_kv_blocks, used)
    missing = request.load_tokens - request.num_computed_tokens
    record_event(state, r, reasons.LOADING_KV, missing, request.num_blocks)


@njit
def mark_loaded(state: State, replica: int, r: int) -> None:
    """The KV of `r` has arrived: its blocks count as computed and enter the prefix cache."""
    request, policy = state.requests[r], state.policy[replica]
    request.status = reasons.LOADED
    request.num_computed_tokens = min(request.load_tokens, request.num_tokens - 1)
    request.high_water = max(request.high_water, request.num_computed_tokens)
    state.counters[replica].num_loaded += 1
    if policy.enable_prefix_caching and request.num_computed_tokens >= request.cache_at:
        kv.cache_full_blocks(state, replica, r, request.num_computed_tokens)


@njit_inner
def start_running(state: State, replica: int, r: int) -> None:
    """Move a request whose KV has arrived to the end of `running`; it keeps its blocks."""
    counters, request = state.counters[replica], state.requests[r]
    remove(state, replica, r)
    if request.first_scheduled_s != request.first_scheduled_s:  # nan
        request.first_scheduled_s = counters.now_s
    record_event(state, r, reasons.KV_LOADED, request.num_computed_tokens, 0)
    request.status = reasons.RUNNING
    state.running[replica, counters.num_running] = r
    counters.num_running += 1
    request.load_tokens = 0


@njit_inner
def remove(state: State, replica: int, r: int) -> None:
    """Remove `r` from `loading`; it keeps its blocks."""
    counters, loading = state.counters[replica], state.loading[replica]
    place = 0
    while loading[place] != r:
        place += 1
    for k in range(place, counters.num_loading - 1):
        loading[k] = loading[k + 1]
    counters.num_loading -= 1
    if state.requests[r].status == reasons.LOADED:
        counters.num_loaded -= 1


@njit_inner
def cancel(state: State, replica: int, r: int) -> None:
    """Free the blocks of `r`, whose KV is no longer needed or will not arrive."""
    request = state.requests[r]
    remove(state, replica, r)
    kv.free(state, replica, r)
    request.num_computed_tokens = request.high_water = request.hit_tokens = 0
    request.load_tokens = 0

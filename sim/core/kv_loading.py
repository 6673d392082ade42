"""KV that was computed elsewhere: blocks are reserved first, then it comes, then its request runs.

As vLLM's scheduler does with an asynchronous KV connector: a request whose KV is to be loaded takes
its blocks when its turn in the waiting queue comes, is WAITING_FOR_REMOTE_KVS until they are
filled, does not block those behind it, and then stands before them. It enters with all its tokens
computed but the last known one, which is computed again for its logits.

Source: `vllm/v1/core/sched/scheduler.py`, `Scheduler.schedule`, `_update_waiting_for_remote_kv` and
`nixl` pull scheduler `get_num_new_matched_tokens`, vLLM 0.26.0."""

from sim.core import kv_cache as kv
from sim.core import reasons, waiting_queue
from sim.core.compiled import njit, njit_inner
from sim.core.events import note
from sim.core.state import State


@njit_inner
def promised(state: State, replica: int) -> int:
    """Blocks that prompts being computed still need. A load takes its blocks out of what is left
    beside them: it holds them without getting on (`_inflight_prefill_reserved_blocks`)."""
    policy, blocks = state.policy[replica], 0
    for i in range(state.counters[replica].num_running):
        request = state.requests[state.running[replica, i]]
        known = min(request.num_tokens, policy.max_model_len)
        blocks += max(kv.blocks_for(known, policy.block_size) - request.num_blocks, 0)
    return blocks


@njit_inner
def reserve(state: State, replica: int, r: int, num_hits: int) -> None:
    """Take the head of the waiting queue out of it, with blocks for all its known tokens.

    The caller has looked up its prefix hits and made sure that the blocks are free. Where only a
    prefix comes from elsewhere (a KV store) the rest has its blocks too: else loaded prefixes could
    fill the pool, and none of them go on."""
    counters, request = state.counters[replica], state.requests[r]
    waiting_queue.take_out(state, replica, r)
    kv.take_slot(state, replica, r, num_hits)
    request.hit_tokens = request.num_computed_tokens = request.capacity
    kv.grow(state, replica, r, request.num_tokens)
    request.context_len = request.num_tokens
    request.status = reasons.LOADING
    state.loading[replica, counters.num_loading] = r
    counters.num_loading += 1
    counters.num_reserved += 1
    used = state.policy[replica].num_gpu_blocks - 1 - counters.num_free_blocks
    counters.peak_kv_blocks = max(counters.peak_kv_blocks, used)
    note(
        state,
        r,
        reasons.LOADING_KV,
        request.load_tokens - request.num_computed_tokens,
        request.num_blocks,
    )


@njit
def arrived(state: State, replica: int, r: int) -> None:
    """The KV of `r` has come: its blocks count as computed, and may be found by others."""
    request, policy = state.requests[r], state.policy[replica]
    request.status = reasons.LOADED
    request.num_computed_tokens = min(request.load_tokens, request.num_tokens - 1)
    request.high_water = max(request.high_water, request.num_computed_tokens)
    state.counters[replica].num_loaded += 1
    if policy.enable_prefix_caching and request.num_computed_tokens >= request.cache_at:
        kv.enter_full_blocks(state, replica, r, request.num_computed_tokens)


@njit_inner
def enter(state: State, replica: int, r: int) -> None:
    """A request whose KV has come joins `running`; it keeps its blocks."""
    counters, request = state.counters[replica], state.requests[r]
    forget(state, replica, r)
    if request.first_scheduled_s != request.first_scheduled_s:  # nan
        request.first_scheduled_s = counters.now_s
    note(state, r, reasons.KV_LOADED, request.num_computed_tokens, 0)
    request.status = reasons.RUNNING
    state.running[replica, counters.num_running] = r
    counters.num_running += 1
    request.load_tokens = 0


@njit_inner
def forget(state: State, replica: int, r: int) -> None:
    """Take `r` out of the list of those whose KV comes from elsewhere; it keeps its blocks."""
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
def lose(state: State, replica: int, r: int) -> None:
    """The KV of `r` is not wanted any more, or will not come: its blocks go back."""
    request = state.requests[r]
    forget(state, replica, r)
    kv.release(state, replica, r)
    request.num_computed_tokens = request.high_water = request.hit_tokens = 0
    request.load_tokens = 0

"""Paged KV memory of a replica: blocks, reference counts, the free list, and the prefix cache.

A request holds a row of the block table, its slot. Blocks are allocated from the head of the free
list. A finished request frees its blocks tail first, blocks without a hash to the front of the list
and blocks in the prefix cache to its back: the list is in LRU order, and a prompt's tail is evicted
before its head.

The prefix cache holds whole blocks under a hash that is chained over the tokens before them. A
look-up also compares the tokens, so a hash collision has no effect.

Source: `vllm/v1/core/block_pool.py`, `kv_cache_utils.py`, `single_type_kv_cache_manager.py`,
0.26.0. Not modelled: sliding windows, several cache groups, connectors."""

import numpy as np

from sim.core.compiled import njit, njit_inline, njit_inner
from sim.core.state import State

HASH_BITS = (1 << 31) - 1
HASH_FACTOR = 0x5BD1E995
SECOND_FACTOR = 0x27D4EB2F
CHAIN_START = np.int64(0x2545F491)  # typed, as NO_HITS below

NO_HITS = NO_BLOCKS = np.int64(0)  # typed: a plain 0 would compile its receivers once more


@njit_inline
def blocks_for(tokens: int, block_size: int) -> int:
    return (tokens + block_size - 1) // block_size


# --- free list -----------------------------------------------------------------------------------


@njit_inline
def _unlink(blocks, block: int) -> None:
    before, after = blocks[block].previous_free, blocks[block].next_free
    blocks[before].next_free = after
    blocks[after].previous_free = before


@njit_inline
def _insert_after(blocks, block: int, before: int) -> None:
    after = blocks[before].next_free
    blocks[block].previous_free = before
    blocks[block].next_free = after
    blocks[before].next_free = block
    blocks[after].previous_free = block


# --- allocating and freeing ---------------------------------------------------------------------


@njit_inline
def allocate_slots(state: State, replica: int, r: int, tokens: int) -> bool:
    """Allocate the missing blocks for the first `tokens` tokens of `r`. Returns False and allocates
    nothing if there are too few free blocks.

    Blocks come from the head of the free list and leave the prefix cache."""
    request, counters = state.requests[r], state.counters[replica]
    blocks, block_size = state.blocks[replica], state.policy[replica].block_size
    held, enough = request.num_blocks, blocks_for(tokens, block_size)
    if enough - held > counters.num_free_blocks:
        return False
    block = blocks[0].next_free
    for k in range(held, enough):
        maybe_evict_cached_block(state, replica, block)
        blocks[block].references = 1
        state.block_table[replica, request.slot, k] = block
        block = blocks[block].next_free
    blocks[0].next_free = block
    blocks[block].previous_free = 0
    if enough > held:
        counters.num_free_blocks -= enough - held
        request.num_blocks = enough
    request.capacity = request.num_blocks * block_size
    return True


@njit_inner
def take_slot(state: State, replica: int, r: int, num_hits: int) -> None:
    """Give `r` a row of the block table that starts with the blocks in `hits`."""
    request, counters = state.requests[r], state.counters[replica]
    blocks, block_size = state.blocks[replica], state.policy[replica].block_size
    counters.num_free_slots -= 1
    request.slot = state.free_slots[replica, counters.num_free_slots]
    for k in range(num_hits):
        block = state.hits[replica, k]
        if blocks[block].references == 0:
            _unlink(blocks, block)
            counters.num_free_blocks -= 1
        blocks[block].references += 1
        state.block_table[replica, request.slot, k] = block
    request.num_blocks = request.num_cached_blocks = num_hits
    request.capacity = num_hits * block_size
    request.cache_at = (num_hits + 1) * block_size
    request.tail_hash = CHAIN_START
    if num_hits > 0:
        request.tail_hash = blocks[state.hits[replica, num_hits - 1]].hash


@njit_inner
def free(state: State, replica: int, r: int) -> int:
    """Free all blocks of `r` and its slot; returns how many blocks it held."""
    request, counters = state.requests[r], state.counters[replica]
    if request.slot < 0:
        return 0
    blocks, row = state.blocks[replica], state.block_table[replica, request.slot]
    held = request.num_blocks
    for k in range(held):
        block = row[k]
        blocks[block].references -= 1
        if blocks[block].references == 0:
            counters.num_free_blocks += 1
            if blocks[block].hash < 0:
                _insert_after(blocks, block, 0)
    if request.num_cached_blocks > 0:
        for k in range(held - 1, -1, -1):
            block = row[k]
            if blocks[block].references == 0 and blocks[block].hash >= 0:
                _insert_after(blocks, block, blocks[0].previous_free)
    state.free_slots[replica, counters.num_free_slots] = request.slot
    counters.num_free_slots += 1
    request.slot = -1
    request.num_blocks = request.capacity = request.num_cached_blocks = 0
    return held


# --- content -------------------------------------------------------------------------------------


@njit
def token_run(state: State, r: int, position: int, end: int):
    """(first token id, length) of the longest run of consecutive ids of `r` in [position, end)."""
    request = state.requests[r]
    if position >= request.num_prompt_tokens and request.output_base >= 0:
        return request.output_base + position - request.num_prompt_tokens, end - position
    low, high = request.first_run, request.first_run + request.num_runs
    while high - low > 1:
        middle = (low + high) // 2
        if state.runs[middle].start <= position:
            low = middle
        else:
            high = middle
    run_end = request.num_prompt_tokens if request.output_base >= 0 else end
    if low + 1 < request.first_run + request.num_runs:
        run_end = state.runs[low + 1].start
    base = state.runs[low].token + position - state.runs[low].start
    if run_end >= end:
        return base, end - position
    if run_end == request.num_prompt_tokens and base + run_end - position == request.output_base:
        return base, end - position  # the outputs continue the prompt's last run
    return base, run_end - position


@njit_inline
def _mix(value: int, word: int) -> int:
    """Fold 31 bits of `word` into a 31-bit value; products stay below 2**62."""
    value = ((value ^ (word & HASH_BITS)) * HASH_FACTOR) & HASH_BITS
    value = ((value ^ (value >> 16)) * SECOND_FACTOR) & HASH_BITS
    return value ^ (value >> 15)


@njit_inner
def block_hash(state: State, replica: int, previous: int, r: int, k: int) -> int:
    """Hash of block `k` of request `r`, chained to the hash of the block before."""
    block_size = state.policy[replica].block_size
    position, end = k * block_size, (k + 1) * block_size
    value = _mix(CHAIN_START, previous)
    while position < end:
        base, n = token_run(state, r, position, end)
        value = _mix(_mix(_mix(value, base), base >> 31), n)
        position += n
    return value


@njit_inner
def _same_tokens(state: State, a: int, b: int, start: int, end: int) -> bool:
    """Whether requests `a` and `b` hold the same tokens in [start, end)."""
    while start < end:
        base_a, n_a = token_run(state, a, start, end)
        base_b, n_b = token_run(state, b, start, end)
        if base_a != base_b:
            return False
        start += min(n_a, n_b)
    return True


# --- prefix cache --------------------------------------------------------------------------------


@njit_inner
def find_longest_cache_hit(state: State, replica: int, r: int) -> int:
    """Fill `hits` with the longest run of cached blocks that `r` starts with; returns how many.

    The last token is always computed, so at most (num_tokens - 1) // block_size blocks hit. Of
    several blocks with the same content the one cached first is taken."""
    block_size, blocks = state.policy[replica].block_size, state.blocks[replica]
    most = (state.requests[r].num_tokens - 1) // block_size
    mask = state.buckets.shape[1] - 1
    chain, same_as = CHAIN_START, -1
    for k in range(most):
        chain = block_hash(state, replica, chain, r, k)
        block = state.buckets[replica, chain & mask].first
        while block > 0:
            candidate = blocks[block]
            if candidate.hash == chain and candidate.index == k:
                owner = candidate.owner
                start = k * block_size if owner == same_as else 0
                if owner == r or _same_tokens(state, r, owner, start, (k + 1) * block_size):
                    same_as = owner
                    break
            block = candidate.next_in_bucket
        if block == 0:
            return k
        state.hits[replica, k] = block
    return most


@njit_inline
def num_free_hit_blocks(state: State, replica: int, num_hits: int) -> int:
    """How many of the hit blocks are in the free list: using them costs free blocks too."""
    free = 0
    for k in range(num_hits):
        free += state.blocks[replica, state.hits[replica, k]].references == 0
    return free


@njit_inner
def cache_full_blocks(state: State, replica: int, r: int, tokens: int) -> None:
    """Put every block of `r` that is full of its first `tokens` tokens into the prefix cache."""
    request, block_size = state.requests[r], state.policy[replica].block_size
    mask = state.buckets.shape[1] - 1
    k = request.num_cached_blocks
    while (k + 1) * block_size <= tokens:
        chain = block_hash(state, replica, request.tail_hash, r, k)
        number = state.block_table[replica, request.slot, k]
        block, bucket = state.blocks[replica, number], state.buckets[replica, chain & mask]
        block.hash, block.owner, block.index = chain, r, k
        block.next_in_bucket = 0
        block.previous_in_bucket = bucket.last
        if bucket.last > 0:
            state.blocks[replica, bucket.last].next_in_bucket = number
        else:
            bucket.first = number
        bucket.last = number
        request.tail_hash = chain
        k += 1
    request.num_cached_blocks = k
    request.cache_at = (k + 1) * block_size


@njit_inline
def maybe_evict_cached_block(state: State, replica: int, number: int) -> None:
    """Take a block out of the prefix cache, if it is in it."""
    blocks, block = state.blocks[replica], state.blocks[replica, number]
    if block.hash < 0:
        return
    bucket = state.buckets[replica, block.hash & (state.buckets.shape[1] - 1)]
    if block.previous_in_bucket > 0:
        blocks[block.previous_in_bucket].next_in_bucket = block.next_in_bucket
    else:
        bucket.first = block.next_in_bucket
    if block.next_in_bucket > 0:
        blocks[block.next_in_bucket].previous_in_bucket = block.previous_in_bucket
    else:
        bucket.last = block.previous_in_bucket
    block.hash = -1


@njit_inner
def evict_uncomputed_blocks(state: State, replica: int, r: int, computed: int) -> None:
    """Take the blocks of `r` beyond its first `computed` tokens out of the prefix cache.

    Blocks are cached when they are scheduled. If that step does not run, their KV never exists.
    vLLM 0.26.0 keeps the cached blocks of a victim that already had tokens; this is not reproduced.
    """
    request, block_size = state.requests[r], state.policy[replica].block_size
    kept = computed // block_size
    if kept >= request.num_cached_blocks:
        return
    row = state.block_table[replica, request.slot]
    for k in range(kept, request.num_cached_blocks):
        maybe_evict_cached_block(state, replica, row[k])
    request.num_cached_blocks = kept
    request.cache_at = (kept + 1) * block_size
    request.tail_hash = state.blocks[replica, row[kept - 1]].hash if kept > 0 else CHAIN_START

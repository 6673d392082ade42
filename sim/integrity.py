"""Invariants of the state, checked the slow and obvious way. Tests call it after every step."""

import numpy as np

from sim import kv_cache as kv
from sim import queues, reasons
from sim.state import State


def check_integrity(state: State, replica: int = 0) -> None:
    """Raise AssertionError, with what is wrong, if the replica's state contradicts itself."""
    check_lists(state, replica)
    check_loading(state, replica)
    check_swapped(state, replica)
    check_blocks(state, replica)
    check_prefix_cache(state, replica)


def running_ids(state: State, replica: int = 0) -> list[int]:
    return [int(r) for r in state.running[replica, : state.counters[replica].num_running]]


def waiting_ids(state: State, replica: int = 0) -> list[int]:
    """The waiting queue in the order in which it will be asked."""
    counters, requests = state.counters[replica], state.requests
    if state.policy[replica].priority:
        waiting = [int(r) for r in state.heap[replica, : counters.num_waiting]]
        return sorted(waiting, key=lambda r: (requests[r].priority, requests[r].arrival_s, r))
    waiting, r = [], int(counters.first_waiting)
    while r >= 0:
        waiting.append(r)
        r = int(requests[r].next_waiting)
    return waiting


def free_blocks(state: State, replica: int = 0) -> list[int]:
    """The free list from its head on, walked both ways."""
    blocks = state.blocks[replica]
    forward, backward = (
        follow(links.tolist(), 0) for links in (blocks.next_free, blocks.previous_free)
    )
    assert forward == backward[::-1], "the free list differs forwards and backwards"
    return forward


def follow(links: list[int], start: int) -> list[int]:
    """Where the links lead from `start` on, until they lead back to it."""
    passed = []
    block = links[start]
    while block != start:
        passed.append(block)
        block = links[block]
    return passed


def check_lists(state: State, replica: int) -> None:
    counters, requests = state.counters[replica], state.requests
    running, waiting = running_ids(state, replica), waiting_ids(state, replica)
    assert len(set(running) | set(waiting)) == len(running) + len(waiting), "a request stands twice"
    assert len(running) <= state.policy[replica].max_num_seqs, "more run than max_num_seqs"
    assert len(waiting) == counters.num_waiting, "the waiting queue lost count"
    if waiting:
        assert queues.head(state, replica) == waiting[0], "the wrong request is at the head"
    if state.policy[replica].requeue == queues.TO_ARRIVAL_PLACE:
        order = requests.arrival_order[waiting].tolist()
        assert order == sorted(order), "somebody waits out of order of arrival"
    here = requests.replica == replica
    expected = np.flatnonzero(here & (requests.status == reasons.RUNNING))
    live = [r for r in running if requests[r].status == reasons.RUNNING]
    assert sorted(live) == expected.tolist(), "running list and statuses differ"
    if state.policy[replica].hold_finished:
        assert live or not running, "a batch outlived its last member"
    else:
        assert live == running, "somebody runs who has ended"
    slots = [int(requests[r].slot) for r in holders(state, replica)]
    unused = [int(slot) for slot in state.free_slots[replica, : counters.num_free_slots]]
    policy = state.policy[replica]
    assert sorted(slots + unused) == list(range(max(policy.num_slots, policy.max_num_seqs))), (
        "slots leak"
    )


def holders(state: State, replica: int) -> list[int]:
    """Who holds KV there: those that run, those whose KV comes from elsewhere, and prefill legs
    whose KV has not been fetched yet."""
    requests = state.requests
    return [int(r) for r in np.flatnonzero((requests.replica == replica) & (requests.slot >= 0))]


def check_loading(state: State, replica: int) -> None:
    """Requests whose KV comes from elsewhere hold blocks for it, and are counted."""
    counters, requests = state.counters[replica], state.requests
    loading = [int(r) for r in state.loading[replica, : counters.num_loading]]
    here = requests.replica == replica
    statuses = (reasons.LOADING, reasons.LOADED)
    expected = np.flatnonzero(here & np.isin(requests.status, statuses))
    assert sorted(loading) == expected.tolist(), "loading list and statuses differ"
    loaded = sum(requests[r].status == reasons.LOADED for r in loading)
    assert loaded == counters.num_loaded, "loaded requests lost count"
    for r in loading:
        assert requests[r].capacity >= requests[r].load_tokens, f"request {r} lacks blocks"
    allowed = set(running_ids(state, replica)) | set(loading)
    for r in set(holders(state, replica)) - allowed:
        assert state.policy[replica].hold_for_transfer, f"request {r} holds KV for nothing"
        assert requests[r].status == reasons.FINISHED, f"request {r} holds KV for nothing"


def check_swapped(state: State, replica: int) -> None:
    """The swapped hold host memory, no blocks, and stand with the first to have arrived on top."""
    counters, requests = state.counters[replica], state.requests
    swapped = [int(r) for r in state.swapped[replica, : counters.num_swapped]]
    here = requests.replica == replica
    expected = np.flatnonzero(here & (requests.status == reasons.SWAPPED))
    assert sorted(swapped) == expected.tolist(), "swapped list and statuses differ"
    assert counters.num_running + len(swapped) <= state.policy[replica].max_num_seqs
    order = [int(requests[r].arrival_order) for r in swapped]
    assert order == sorted(order, reverse=True), "who was swapped out later arrived later"
    held = sum(int(requests[r].num_host_blocks) for r in swapped)
    total = int(state.policy[replica].num_host_blocks)
    assert counters.num_free_host_blocks == total - held >= 0, "host blocks leak"
    assert all(requests[r].slot < 0 for r in swapped), "a swapped request holds a slot"


def check_blocks(state: State, replica: int) -> None:
    counters, requests, blocks = state.counters[replica], state.requests, state.blocks[replica]
    references = np.zeros(len(blocks), int)
    for r in holders(state, replica):
        request = requests[r]
        held = state.block_table[replica, request.slot, : request.num_blocks]
        assert len(set(held.tolist())) == len(held), f"request {r} holds a block twice"
        assert (held > 0).all(), f"request {r} holds the null block"
        assert request.num_computed <= request.capacity, (
            f"request {r} computed more than it can hold"
        )
        np.add.at(references, held, 1)
    assert (references == blocks.references).all(), "reference counts are off"
    free = free_blocks(state, replica)
    assert len(free) == counters.num_free_blocks, "the number of free blocks is off"
    usable = range(1, state.policy[replica].num_gpu_blocks)
    assert sorted(free) == [b for b in usable if references[b] == 0], "blocks leak"


def check_prefix_cache(state: State, replica: int, *, planned: bool = False) -> None:
    """Cached blocks stand in their bucket once; a held one is full, computed, and where it says.

    Between schedule() and complete() (`planned`) blocks may be full of tokens of this very step.
    """
    blocks, buckets, policy = state.blocks[replica], state.buckets[replica], state.policy[replica]
    found = set()
    for k in np.flatnonzero((buckets.first != 0) | (buckets.last != 0)).tolist():
        bucket = buckets[k]
        block, previous = int(bucket.first), 0
        while block != 0:
            assert blocks[block].previous_in_bucket == previous, "a bucket is broken"
            assert blocks[block].hash >= 0, "an evicted block is still in its bucket"
            assert block not in found, "a block is in the cache twice"
            found.add(block)
            previous, block = block, int(blocks[block].next_in_bucket)
        assert bucket.last == previous, "a bucket lost its end"
    assert found == set(np.flatnonzero(blocks.hash >= 0).tolist()), "a bucket lost blocks"
    if not policy.enable_prefix_caching:
        return
    tokens = {}
    if planned:
        plan = state.plan[replica, : state.counters[replica].num_planned]
        tokens = {int(item.request): int(item.num_tokens) for item in plan}
    for r in running_ids(state, replica):
        request = state.requests[r]
        known = request.num_computed + tokens.get(r, 0)
        assert request.num_cached_blocks == known // policy.block_size, (
            f"request {r}: blocks missed"
        )
        chain = kv.CHAIN_START
        for k in range(request.num_cached_blocks):
            block = blocks[state.block_table[replica, request.slot, k]]
            chain = kv.block_hash(state, replica, chain, r, k)
            assert (block.hash, block.index) == (chain, k), f"request {r}: block {k} is mislabelled"

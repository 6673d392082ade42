"""Invariants of the state, checked by the slow and obvious method. Tests call it after every
step, so it is compiled: in plain Python a check takes longer than the test's steps do."""

from typing import Any

import numba
import numpy as np

from sim.core import kv_cache as kv
from sim.core import reasons, waiting_queue
from sim.core.compiled import INNER, OPTIONS
from sim.core.requests import Table
from sim.core.state import State, columns

# Checks allocate scratch arrays and put numbers into messages, which takes reference counts. What
# they read may be nonsense, so an index that is out of bounds raises IndexError.
CHECKS: Any = OPTIONS | {"_nrt": True, "boundscheck": True}
# (An edit of this file compiles this file alone: no kernel calls a check.)
checked: Any = numba.njit(**CHECKS)
checked_inner: Any = numba.njit(**CHECKS | INNER)


def number(table: Table, replica: int, name: str) -> int:
    """A whole number of a replica's row."""
    return int(columns(table)[name][replica])


def running_ids(state: State, replica: int = 0) -> list[int]:
    """The running requests in list order."""
    num_running = number(state.counters, replica, "num_running")
    requests: list[int] = state.running[replica, :num_running].tolist()
    return requests


def waiting_ids(state: State, replica: int = 0) -> list[int]:
    """The waiting requests in the order of admission."""
    requests: list[int] = list_waiting(state, replica).tolist()
    return requests


def check_integrity(state: State, replica: int = 0) -> None:
    """Raise AssertionError, with what is wrong, if the replica's state contradicts itself."""
    check_all(state, replica)


def check_prefix_cache(state: State, replica: int, *, planned: bool = False) -> None:
    """Each cached block is in its bucket once; a held one is full, computed, and at its place.

    Between schedule() and complete() (`planned`) blocks may be full of tokens of the current step.
    """
    check_cache(state, replica, planned)


@checked
def check_all(state: State, replica: int) -> None:
    check_lists(state, replica)
    check_loading(state, replica)
    check_swapped(state, replica)
    check_blocks(state, replica)
    check_cache(state, replica, False)


@checked
def list_waiting(state: State, replica: int) -> np.ndarray:
    """The waiting queue: the linked list, or the heap sorted by (priority, arrival, number)."""
    requests, counters = state.requests, state.counters[replica]
    waiting = np.empty(len(requests), np.int64)
    n = 0
    if not state.policy[replica].priority:
        r = counters.first_waiting
        while r >= 0:
            assert n < len(waiting), "the waiting queue has a cycle"
            waiting[n] = r
            n += 1
            r = requests[r].next_waiting
        return waiting[:n]
    for r in state.heap[replica, : counters.num_waiting]:
        place = n
        while place > 0 and asked_before(state, r, waiting[place - 1]):
            waiting[place] = waiting[place - 1]
            place -= 1
        waiting[place] = r
        n += 1
    return waiting[:n]


@checked_inner
def asked_before(state: State, a: int, b: int) -> bool:
    """Whether `a` is ahead of `b` under the priority policy."""
    one, other = state.requests[a], state.requests[b]
    if one.priority != other.priority:
        return one.priority < other.priority
    if one.arrival_s != other.arrival_s:
        return one.arrival_s < other.arrival_s
    return a < b


@checked_inner
def check_statuses(
    state: State, replica: int, listed: np.ndarray, one: int, other: int, message: str
) -> None:
    """`listed`, each once, are the replica's requests with one of two statuses."""
    found = np.zeros(len(state.requests), np.int64)
    for r in listed:
        found[r] += 1
    for r in range(len(found)):
        request = state.requests[r]
        expected = request.replica == replica and request.status in (one, other)
        assert found[r] == expected, message


@checked_inner
def check_lists(state: State, replica: int) -> None:
    requests, policy, counters = state.requests, state.policy[replica], state.counters[replica]
    running = state.running[replica, : counters.num_running]
    waiting = list_waiting(state, replica)
    listed = np.zeros(len(requests), np.bool_)
    for r in running:
        assert not listed[r], "a request is listed twice"
        listed[r] = True
    for r in waiting:
        assert not listed[r], "a request is listed twice"
        listed[r] = True
    assert len(running) <= policy.max_num_seqs, "more requests run than max_num_seqs"
    assert len(waiting) == counters.num_waiting, "the count of waiting requests is off"
    if len(waiting) > 0:
        assert waiting_queue.head(state, replica) == waiting[0], "the wrong request is at the head"
    if policy.requeue == waiting_queue.TO_ARRIVAL_PLACE:
        for i in range(1, len(waiting)):
            before, behind = requests[waiting[i - 1]], requests[waiting[i]]
            assert before.arrival_order <= behind.arrival_order, (
                "a request waits out of order of arrival"
            )
    live = np.empty(len(running), np.int64)
    num_live = 0
    for r in running:
        if requests[r].status == reasons.RUNNING:
            live[num_live] = r
            num_live += 1
    words = "the running list and the statuses differ"
    check_statuses(state, replica, live[:num_live], reasons.RUNNING, reasons.RUNNING, words)
    if policy.hold_finished:
        assert num_live > 0 or len(running) == 0, "a batch outlived its last request"
    else:
        assert num_live == len(running), "a request that has ended is in the running list"
    used = np.zeros(max(policy.num_slots, policy.max_num_seqs), np.int64)
    for slot in state.free_slots[replica, : counters.num_free_slots]:
        used[slot] += 1
    for request in requests:
        if request.replica == replica and request.slot >= 0:
            used[request.slot] += 1
    assert (used == 1).all(), "slots leak"


@checked_inner
def check_loading(state: State, replica: int) -> None:
    """Requests whose KV comes from elsewhere hold blocks for it, and are counted. Slots belong to
    them, to running requests, and to prefill requests whose KV has not been fetched yet."""
    requests, counters = state.requests, state.counters[replica]
    loading = state.loading[replica, : counters.num_loading]
    words = "the loading list and the statuses differ"
    check_statuses(state, replica, loading, reasons.LOADING, reasons.LOADED, words)
    loaded = 0
    allowed = np.zeros(len(requests), np.bool_)
    for r in loading:
        allowed[r] = True
        loaded += requests[r].status == reasons.LOADED
        assert requests[r].capacity >= requests[r].load_tokens, f"request {r} lacks blocks"
    assert loaded == counters.num_loaded, "the count of loaded requests is off"
    for r in state.running[replica, : counters.num_running]:
        allowed[r] = True
    for r in range(len(requests)):
        if requests[r].replica == replica and requests[r].slot >= 0 and not allowed[r]:
            assert state.policy[replica].hold_for_transfer, f"request {r} holds KV for nothing"
            assert requests[r].status == reasons.FINISHED, f"request {r} holds KV for nothing"


@checked_inner
def check_swapped(state: State, replica: int) -> None:
    """Swapped requests hold host memory, no blocks; the first to have arrived is on top."""
    requests, policy, counters = state.requests, state.policy[replica], state.counters[replica]
    swapped = state.swapped[replica, : counters.num_swapped]
    words = "the swapped list and the statuses differ"
    check_statuses(state, replica, swapped, reasons.SWAPPED, reasons.SWAPPED, words)
    assert counters.num_running + len(swapped) <= policy.max_num_seqs, (
        "more requests run or are swapped out than max_num_seqs"
    )
    held = 0
    for i in range(len(swapped)):
        request = requests[swapped[i]]
        held += request.num_host_blocks
        assert request.slot < 0, "a swapped request holds a slot"
        if i > 0:
            assert requests[swapped[i - 1]].arrival_order >= request.arrival_order, (
                "swapped requests are out of order of arrival"
            )
    num_free = policy.num_host_blocks - held
    assert counters.num_free_host_blocks == num_free, "host blocks leak"
    assert num_free >= 0, "host blocks leak"


@checked_inner
def check_blocks(state: State, replica: int) -> None:
    requests, policy, counters = state.requests, state.policy[replica], state.counters[replica]
    blocks = state.blocks[replica]
    references = np.zeros(len(blocks), np.int64)
    holder = np.full(len(blocks), -1)  # the last request that was seen to hold a block
    for r in range(len(requests)):
        request = requests[r]
        if request.replica != replica or request.slot < 0:
            continue
        for block in state.block_table[replica, request.slot, : request.num_blocks]:
            assert block > 0, f"request {r} holds the null block"
            assert holder[block] != r, f"request {r} holds a block twice"
            holder[block] = r
            references[block] += 1
        assert request.num_computed_tokens <= request.capacity, (
            f"request {r} computed more than it can hold"
        )
    assert (blocks.references == references).all(), "reference counts are off"
    next_free, previous_free = blocks.next_free, blocks.previous_free
    num_free, before, block = 0, 0, next_free[0]
    free = np.zeros(len(blocks), np.bool_)
    while block != 0:
        assert not free[block], "the free list has a cycle"
        assert previous_free[block] == before, "the free list differs backwards"
        free[block] = True
        num_free += 1
        before, block = block, next_free[block]
    assert previous_free[0] == before, "the free list differs backwards"
    assert num_free == counters.num_free_blocks, "the number of free blocks is off"
    num_usable = policy.num_gpu_blocks
    for block in range(1, len(blocks)):
        usable = block < num_usable
        assert free[block] == (usable and references[block] == 0), "blocks leak"


@checked
def check_cache(state: State, replica: int, planned: bool) -> None:
    """The body of check_prefix_cache."""
    blocks, policy, counters = state.blocks[replica], state.policy[replica], state.counters[replica]
    hashes, following, before = blocks.hash, blocks.next_in_bucket, blocks.previous_in_bucket
    first, last = state.buckets[replica].first, state.buckets[replica].last
    found = np.zeros(len(blocks), np.bool_)
    for bucket in range(len(first)):
        previous, block = 0, first[bucket]
        while block != 0:
            assert hashes[block] >= 0, "an evicted block is still in its bucket"
            assert before[block] == previous, "a bucket is broken"
            assert not found[block], "a block is in the cache twice"
            found[block] = True
            previous, block = block, following[block]
        assert last[bucket] == previous, "a bucket lost its end"
    assert (found == (hashes >= 0)).all(), "a bucket lost blocks"
    if not policy.enable_prefix_caching:
        return
    tokens = np.zeros(len(state.requests), np.int64)
    if planned:
        for item in state.scheduled[replica, : counters.num_scheduled]:
            tokens[item.request] = item.num_tokens
    for r in state.running[replica, : counters.num_running]:
        request = state.requests[r]
        known = request.num_computed_tokens + tokens[r]
        assert request.num_cached_blocks == known // policy.block_size, (
            f"request {r}: the count of its cached blocks is off"
        )
        chain = kv.CHAIN_START
        for k in range(request.num_cached_blocks):
            block = state.block_table[replica, request.slot, k]
            chain = kv.block_hash(state, replica, chain, r, k)
            assert hashes[block] == chain, f"request {r}: block {k} has a wrong hash"
            assert blocks[block].index == k, f"request {r}: block {k} has a wrong place"

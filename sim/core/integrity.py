"""Invariants of the state, checked in the slowest and simplest way. Tests call it after every
step."""

import numpy as np

from sim.core import kv_cache as kv
from sim.core import reasons, waiting_queue
from sim.core.compiled import njit
from sim.core.requests import Table
from sim.core.state import State, columns


def column(table: Table, name: str) -> np.ndarray:
    """A field of all rows."""
    return columns(table)[name]


def number(table: Table, replica: int, name: str) -> int:
    """A whole number of a replica's row."""
    return int(columns(table)[name][replica])


def check_integrity(state: State, replica: int = 0) -> None:
    """Raise AssertionError with the reason if the replica's state is inconsistent."""
    check_lists(state, replica)
    check_loading(state, replica)
    check_swapped(state, replica)
    check_blocks(state, replica)
    check_prefix_cache(state, replica)


def listed(state: State, replica: int, name: str) -> list[int]:
    """The requests in one of the replica's lists: running, loading or swapped."""
    there: np.ndarray = getattr(state, name)[replica]
    requests: list[int] = there[: number(state.counters, replica, f"num_{name}")].tolist()
    return requests


def running_ids(state: State, replica: int = 0) -> list[int]:
    return listed(state, replica, "running")


def waiting_ids(state: State, replica: int = 0) -> list[int]:
    """The waiting queue in the order in which its requests will be considered."""
    requests = state.requests
    if number(state.policy, replica, "priority"):
        waiting = state.heap[replica, : number(state.counters, replica, "num_waiting")].tolist()
        priority, arrival_s = column(requests, "priority"), column(requests, "arrival_s")
        return sorted(waiting, key=lambda r: (priority[r], arrival_s[r], r))
    following = column(requests, "next_waiting").tolist()
    waiting, r = [], number(state.counters, replica, "first_waiting")
    while r >= 0:
        waiting.append(r)
        r = following[r]
    return waiting


def free_blocks(state: State, replica: int = 0) -> list[int]:
    """The free list from its head; each backward link must be the reverse of the forward link."""
    blocks = state.blocks[replica]
    links: list[int] = column(blocks, "next_free").tolist()
    free: list[int] = []
    block = links[0]
    while block != 0:
        assert len(free) < len(links), "the free list does not end"
        free.append(block)
        block = links[block]
    before = column(blocks, "previous_free")[[*free, 0]]
    assert before.tolist() == [0, *free], "the free list differs forwards and backwards"
    return free


def with_status(state: State, replica: int, *statuses: int) -> list[int]:
    """The replica's requests that have one of these statuses."""
    status = column(state.requests, "status")
    here = column(state.requests, "replica") == replica
    found: list[int] = np.flatnonzero(
        here & np.logical_or.reduce([status == one for one in statuses])
    ).tolist()
    return found


def check_lists(state: State, replica: int) -> None:
    requests, policy = state.requests, columns(state.policy)
    running, waiting = running_ids(state, replica), waiting_ids(state, replica)
    assert len(set(running) | set(waiting)) == len(running) + len(waiting), (
        "a request is listed twice"
    )
    assert len(running) <= policy["max_num_seqs"][replica], "more run than max_num_seqs"
    num_waiting = number(state.counters, replica, "num_waiting")
    assert len(waiting) == num_waiting, "the length of the waiting queue is wrong"
    if waiting:
        assert waiting_queue.head(state, replica) == waiting[0], "the wrong request is at the head"
    if policy["requeue"][replica] == waiting_queue.TO_ARRIVAL_PLACE:
        order = column(requests, "arrival_order")[waiting].tolist()
        assert order == sorted(order), "the waiting queue is not in order of arrival"
    status = column(requests, "status")
    live = [r for r in running if status[r] == reasons.RUNNING]
    expected = with_status(state, replica, reasons.RUNNING)
    assert sorted(live) == expected, "running list and statuses differ"
    if policy["hold_finished"][replica]:
        assert live or not running, "a batch continues after its last member"
    else:
        assert live == running, "a request that has ended is in running"
    slots = column(requests, "slot")[holders(state, replica)].tolist()
    num_unused = number(state.counters, replica, "num_free_slots")
    unused = state.free_slots[replica, :num_unused].tolist()
    assert sorted(slots + unused) == list(
        range(max(int(policy["num_slots"][replica]), int(policy["max_num_seqs"][replica])))
    ), "slots leak"


def holders(state: State, replica: int) -> list[int]:
    """The requests that hold KV on the replica: running requests, requests whose KV is computed
    elsewhere, and prefill requests whose KV has not been transferred yet."""
    here = column(state.requests, "replica") == replica
    found: list[int] = np.flatnonzero(here & (column(state.requests, "slot") >= 0)).tolist()
    return found


def check_loading(state: State, replica: int) -> None:
    """Requests whose KV comes from elsewhere hold blocks for it, and the counter includes them."""
    requests = columns(state.requests)
    loading = listed(state, replica, "loading")
    expected = with_status(state, replica, reasons.LOADING, reasons.LOADED)
    assert sorted(loading) == expected, "loading list and statuses differ"
    loaded = sum(requests["status"][r] == reasons.LOADED for r in loading)
    assert loaded == number(state.counters, replica, "num_loaded"), (
        "the number of loaded requests is wrong"
    )
    for r in loading:
        assert requests["capacity"][r] >= requests["load_tokens"][r], f"request {r} lacks blocks"
    allowed = set(running_ids(state, replica)) | set(loading)
    for r in set(holders(state, replica)) - allowed:
        words = f"request {r} holds KV without need"
        assert number(state.policy, replica, "hold_for_transfer"), words
        assert requests["status"][r] == reasons.FINISHED, words


def check_swapped(state: State, replica: int) -> None:
    """Swapped requests hold host memory and no blocks; the top of the stack arrived first."""
    requests, policy = state.requests, columns(state.policy)
    swapped = listed(state, replica, "swapped")
    expected = with_status(state, replica, reasons.SWAPPED)
    assert sorted(swapped) == expected, "swapped list and statuses differ"
    num_running = number(state.counters, replica, "num_running")
    assert num_running + len(swapped) <= policy["max_num_seqs"][replica]
    order = column(requests, "arrival_order")[swapped].tolist()
    assert order == sorted(order, reverse=True), "the swapped stack is not in order of arrival"
    held = int(column(requests, "num_host_blocks")[swapped].sum())
    num_free = number(state.counters, replica, "num_free_host_blocks")
    assert num_free == policy["num_host_blocks"][replica] - held >= 0, "host blocks leak"
    assert (column(requests, "slot")[swapped] < 0).all(), "a swapped request holds a slot"


def check_blocks(state: State, replica: int) -> None:
    requests, blocks = columns(state.requests), state.blocks[replica]
    references = np.zeros(len(blocks), int)
    for r in holders(state, replica):
        held = state.block_table[replica, requests["slot"][r], : requests["num_blocks"][r]]
        assert len(set(held.tolist())) == len(held), f"request {r} holds a block twice"
        assert (held > 0).all(), f"request {r} holds the null block"
        assert requests["num_computed_tokens"][r] <= requests["capacity"][r], (
            f"request {r} computed more than it can hold"
        )
        references[held] += 1
    assert (references == column(blocks, "references")).all(), "reference counts are off"
    free = free_blocks(state, replica)
    num_free = number(state.counters, replica, "num_free_blocks")
    assert len(free) == num_free, "the number of free blocks is wrong"
    usable = references[: number(state.policy, replica, "num_gpu_blocks")]
    assert sorted([0, *free]) == np.flatnonzero(usable == 0).tolist(), "blocks leak"


def check_prefix_cache(state: State, replica: int, *, planned: bool = False) -> None:
    """A cached block is in its bucket once; one in use is full, computed, and has the right place.

    Between schedule() and complete() (`planned`), blocks may be full of tokens of this step."""
    blocks, policy = state.blocks[replica], columns(state.policy)
    cached = np.flatnonzero(column(blocks, "hash") >= 0)
    names = ("previous_in_bucket", "next_in_bucket")
    before, after = (
        dict(zip(cached.tolist(), column(blocks, name)[cached].tolist(), strict=True))
        for name in names
    )
    buckets, found = columns(state.buckets[replica]), set()
    for first, last in buckets[(buckets["first"] != 0) | (buckets["last"] != 0)].tolist():
        block, previous = first, 0
        while block != 0:
            assert block in before, "an evicted block is still in its bucket"
            assert before[block] == previous, "a bucket is broken"
            assert block not in found, "a block is in the cache twice"
            found.add(block)
            previous, block = block, after[block]
        assert last == previous, "a bucket lost its end"
    assert found == before.keys(), "a bucket lost blocks"
    if not policy["enable_prefix_caching"][replica]:
        return
    tokens = {}
    if planned:
        plan = state.scheduled[replica, : number(state.counters, replica, "num_scheduled")]
        tokens = dict(
            zip(column(plan, "request").tolist(), column(plan, "num_tokens").tolist(), strict=True)
        )
    requests = columns(state.requests)
    for r in running_ids(state, replica):
        known = requests["num_computed_tokens"][r] + tokens.get(r, 0)
        assert requests["num_cached_blocks"][r] == known // policy["block_size"][replica], (
            f"request {r}: blocks missed"
        )
        k = first_mislabelled(state, replica, r)
        assert k < 0, f"request {r}: block {k} is mislabelled"


@njit
def first_mislabelled(state: State, replica: int, r: int) -> int:
    """The first of the blocks of `r` in the prefix cache with a wrong hash or place, or -1."""
    chain, request = kv.CHAIN_START, state.requests[r]
    for k in range(request.num_cached_blocks):
        block = state.blocks[replica, state.block_table[replica, request.slot, k]]
        chain = kv.block_hash(state, replica, chain, r, k)
        if (block.hash, block.index) != (chain, k):
            return k
    return -1

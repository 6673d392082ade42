"""The integrity check finds each kind of contradiction that a test puts into a sound state."""

from collections.abc import Callable
from typing import Any

import pytest

from sim.core import reasons
from sim.core.integrity import check_integrity, check_prefix_cache, running_ids, waiting_ids
from sim.core.state import State
from tests.tools.builders import Server


def busy(**knobs: Any) -> Server:
    """Requests 0 and 1 run and share a cached block of 4 tokens, 2 to 4 wait, 8 blocks are free."""
    contents = [[(7, 4), (100 * k, 5)] for k in range(1, 6)]
    server = Server(
        [(9, 9)] * 5,
        contents,
        block_size=4,
        max_num_seqs=2,
        num_gpu_blocks=14,
        enable_prefix_caching=True,
        **knobs,
    )
    server.add(0, 1, 2, 3, 4).step()
    assert running_ids(server.state) == [0, 1]
    assert server.free == 8
    return server


def set_free_ring(state: State) -> None:
    """The second free block leads back to the first."""
    blocks = state.blocks[0]
    first = blocks[0].next_free
    blocks[blocks[first].next_free].next_free = first


def set_bucket(state: State, **values: int) -> None:
    """Fields of the first bucket in use."""
    bucket = next(bucket for bucket in state.buckets[0] if bucket.first)
    for name, value in values.items():
        setattr(bucket, name, value)


def set_block(state: State, r: int, k: int, name: str, value: int) -> None:
    """A field of a block that a request holds."""
    setattr(state.blocks[0][state.block_table[0, state.requests[r].slot, k]], name, value)


def set_row(table: Any, r: int, **values: Any) -> None:
    for name, value in values.items():
        setattr(table[r], name, value)


EDITS: dict[str, list[Callable[[State], None]]] = {
    "the waiting queue has a cycle": [lambda s: set_row(s.requests, 4, next_waiting=2)],
    "a request is listed twice": [lambda s: s.running[0].__setitem__(1, 0)],
    "more requests run than max_num_seqs": [lambda s: set_row(s.policy, 0, max_num_seqs=1)],
    "the count of waiting requests is off": [lambda s: set_row(s.counters, 0, num_waiting=2)],
    "the running list and the statuses differ": [
        lambda s: set_row(s.requests, 2, status=reasons.RUNNING),
        lambda s: set_row(s.requests, 1, replica=1),
    ],
    "a request that has ended is in the running list": [
        lambda s: set_row(s.requests, 1, status=reasons.FINISHED)
    ],
    "slots leak": [lambda s: set_row(s.requests, 1, slot=-1)],
    "the loading list and the statuses differ": [
        lambda s: set_row(s.requests, 2, status=reasons.LOADING),
        lambda s: set_row(s.requests, 2, status=reasons.LOADED),
    ],
    "the count of loaded requests is off": [lambda s: set_row(s.counters, 0, num_loaded=1)],
    "the swapped list and the statuses differ": [
        lambda s: set_row(s.requests, 2, status=reasons.SWAPPED)
    ],
    "host blocks leak": [lambda s: set_row(s.counters, 0, num_free_host_blocks=1)],
    "request 1 holds the null block": [
        lambda s: s.block_table[0, s.requests[1].slot].__setitem__(0, 0)
    ],
    "request 1 holds a block twice": [
        lambda s: s.block_table[0, s.requests[1].slot].__setitem__(
            1, s.block_table[0, s.requests[1].slot, 0]
        )
    ],
    "request 1 computed more than it can hold": [lambda s: set_row(s.requests, 1, capacity=8)],
    "reference counts are off": [lambda s: set_block(s, 1, 0, "references", 1)],
    "the free list has a cycle": [set_free_ring],
    "the free list differs backwards": [
        lambda s: setattr(s.blocks[0][0], "previous_free", 0),
        lambda s: setattr(s.blocks[0][s.blocks[0][0].next_free], "previous_free", 1),
    ],
    "the number of free blocks is off": [lambda s: set_row(s.counters, 0, num_free_blocks=7)],
    "blocks leak": [lambda s: set_row(s.policy, 0, num_gpu_blocks=13)],
    "an evicted block is still in its bucket": [lambda s: set_block(s, 1, 0, "hash", -1)],
    "a bucket is broken": [lambda s: set_block(s, 1, 0, "previous_in_bucket", 3)],
    "a bucket lost its end": [lambda s: set_bucket(s, last=0)],
    "a bucket lost blocks": [lambda s: set_bucket(s, first=0, last=0)],
    "request 1: the count of its cached blocks is off": [
        lambda s: set_row(s.requests, 1, num_cached_blocks=1)
    ],
    "request 1: block 1 has a wrong hash": [lambda s: set_block(s, 1, 1, "hash", 12345)],
    "request 1: block 1 has a wrong place": [lambda s: set_block(s, 1, 1, "index", 0)],
}


@pytest.mark.parametrize(
    ("edit", "message"),
    [(edit, message) for message, edits in EDITS.items() for edit in edits],
    ids=[message for message, edits in EDITS.items() for _ in edits],
)
def test_a_contradiction_is_found(edit: Callable[[State], None], message: str) -> None:
    state = busy().state
    check_integrity(state)
    edit(state)
    with pytest.raises(AssertionError, match=f"^{message}$"):
        check_integrity(state)


def test_the_head_of_a_priority_queue() -> None:
    """Waiting: 4, then 3 and 2 by arrival; the heap must have 4 on top."""
    server = Server([(9, 9)] * 5, policy="priority", max_num_seqs=2)
    server.state.requests.priority = [0, 0, 3, 3, 1]
    server.state.requests.arrival_s = [0, 0, 2, 1, 3]
    server.add(0, 1).step()
    server.add(2, 3, 4).step()
    assert waiting_ids(server.state) == [4, 3, 2]
    check_integrity(server.state)
    heap = server.state.heap[0]
    heap[[0, 1]] = heap[[1, 0]]
    with pytest.raises(AssertionError, match="the wrong request is at the head"):
        check_integrity(server.state)


def test_a_swapped_request() -> None:
    """vLLM V0 swaps the later of two requests out; each of its host blocks is counted."""
    columns = {"num_host_blocks": 10}
    server = Server(
        [(8, 9), (7, 9)], engine="vllm_v0", block_size=4, num_gpu_blocks=6, columns=columns
    ).add(0, 1)
    state = server.state
    while not server.count("num_swapped"):
        server.step()
    check_integrity(state)
    state.requests[1].num_host_blocks += 1
    with pytest.raises(AssertionError, match="host blocks leak"):
        check_integrity(state)
    state.requests[1].num_host_blocks -= 1
    state.requests[1].slot = state.free_slots[0, 0]
    with pytest.raises(AssertionError, match="slot"):
        check_integrity(state)


def test_a_batch_ends_with_its_last_request() -> None:
    server = Server([(8, 9)], engine="static").add(0)
    server.step()
    server.state.requests[0].status = reasons.FINISHED
    with pytest.raises(AssertionError, match="a batch outlived its last request"):
        check_integrity(server.state)


def test_between_schedule_and_complete_blocks_are_ahead() -> None:
    """Blocks of the planned step are in the prefix cache before they are computed."""
    server = busy()
    while server.state.requests[0].num_computed_tokens % 4 != 3:
        server.step()
    server.plan()
    check_prefix_cache(server.state, 0, planned=True)
    with pytest.raises(AssertionError, match="cached blocks is off"):
        check_prefix_cache(server.state, 0)

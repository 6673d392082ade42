"""The flat batch of a step: the position of every scheduled token.

A plan is a list of (request, tokens this step, tokens computed before). Its tokens are laid out
request by request without padding: single tokens first, sorted by context so that attention can
group neighbours, then the chunks of prompts. Pure NumPy: no device, no model.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.core import reasons
from sim.core.requests import Table
from sim.core.state import State

__all__ = ["Batch", "Rows", "make_batch", "rows_of"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """The rows of a step, one element per request in plan order; padding of a static batch last.

    start: tokens computed before; count: tokens of this step; item: its index in the plan, -1 for
    padding; samples: whether the logits of its last token are needed.
    """

    request: Ints
    start: Ints
    count: Ints
    item: Ints
    samples: NDArray[np.bool_]
    rectangle: bool = False

    def __len__(self) -> int:
        return len(self.request)


def rows_of(state: State, replica: int) -> Rows:
    """The rows of the planned step.

    A static batch computes a rectangle: prompts padded to the longest, and a token for finished
    members; the extra tokens are not sampled. Their KV is written to blocks that the member holds,
    after its own tokens, where no query attends."""
    plan = state.scheduled[replica, : state.counters[replica].num_scheduled]
    request = plan.request.astype(np.int64)
    start, count = plan.num_computed_tokens.astype(np.int64), plan.num_tokens.astype(np.int64)
    rows = Rows(request, start, count, np.arange(len(plan)), count == plan.num_needed)
    if not state.policy[replica].hold_finished or not len(plan):
        return rows
    return pad(rows, state.requests, state.running[replica, : state.counters[replica].num_running])


def pad(rows: Rows, requests: Table, members: Ints) -> Rows:
    """The rows of a static batch with those of its padding."""
    longest = int(requests.num_prompt_tokens[members].max())
    outputs = int(requests.num_output_tokens[members].max())
    if outputs == 0:
        short = rows.request[requests.num_prompt_tokens[rows.request] < longest]
        start = requests.num_prompt_tokens[short].astype(np.int64)
        count = longest - start
    else:
        short = members[requests.status[members] != reasons.RUNNING].astype(np.int64)
        start = np.full(len(short), longest + outputs - 1)
        count = np.ones(len(short), np.int64)
    return Rows(
        request=np.concatenate([rows.request, short]),
        start=np.concatenate([rows.start, start]),
        count=np.concatenate([rows.count, count]),
        item=np.concatenate([rows.item, np.full(len(short), -1)]),
        samples=np.concatenate([rows.samples, np.zeros(len(short), bool)]),
        rectangle=True,
    )


@dataclass(frozen=True)
class Batch:
    """The flat batch of a step: T tokens of R rows, single tokens first.

    token_ids, positions, slots: (T,), where slot = block * block_size + offset is where a token's
    KV goes. query_start: (R + 1,) first token of each row. context: (R,) tokens that a row's last
    token attends to. block_table: (R, most blocks), padded with 0. sampled: token indices whose
    logits are needed, in the order of `items`, which are their indices in the scheduled step.
    fresh_blocks: blocks first written in this step; tails: their slots that stay unwritten. held:
    (R,) blocks that hold a row's context. rectangle: every row counts as long as the longest
    (static batching).
    """

    token_ids: Ints
    positions: Ints
    slots: Ints
    query_start: Ints
    context: Ints
    block_table: Ints
    num_single: int
    requests: Ints
    sampled: Ints
    items: Ints
    fresh_blocks: Ints
    tails: Ints
    held: Ints
    block_size: int
    rectangle: bool

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_rows(self) -> int:
        return len(self.context)


def make_batch(rows: Rows, tokens: Ints, tables: list[Ints], block_size: int) -> Batch:
    """Lay out `rows`. tokens: (n, longest) known token ids of every request, with arbitrary
    padding; tables: the block ids of each row's request."""
    order = np.lexsort((np.where(rows.count == 1, rows.start, 0), rows.count > 1))
    request, start, count = rows.request[order], rows.start[order], rows.count[order]
    query_start = np.concatenate([[0], np.cumsum(count)])
    owner = np.repeat(np.arange(len(count)), count)
    positions = np.arange(query_start[-1]) - query_start[owner] + start[owner]
    context = start + count
    held = -(-context // block_size)
    block_table = np.zeros((len(order), int(held.max())), np.int64)
    for row, place in enumerate(order.tolist()):
        block_table[row, : held[row]] = tables[place][: held[row]]
    slots = block_table[owner, positions // block_size] * block_size + positions % block_size
    fresh, tails = first_written(block_table, start, context, held, block_size)
    samples = np.flatnonzero(rows.samples[order])
    return Batch(
        token_ids=tokens[request[owner], np.minimum(positions, tokens.shape[1] - 1)],
        positions=positions,
        slots=slots,
        query_start=query_start,
        context=context,
        block_table=block_table,
        num_single=int((count == 1).sum()),
        requests=request,
        sampled=query_start[samples + 1] - 1,
        items=rows.item[order][samples],
        fresh_blocks=fresh,
        tails=tails,
        held=held,
        block_size=block_size,
        rectangle=rows.rectangle,
    )


def first_written(
    block_table: Ints, start: Ints, context: Ints, held: Ints, block_size: int
) -> tuple[Ints, Ints]:
    """(blocks whose first token is of this step, their slots behind the last token)."""
    index = np.arange(block_table.shape[1])
    fresh = (index * block_size >= start[:, None]) & (index < held[:, None])
    last = held - 1
    opened = np.flatnonzero((last * block_size >= start) & (context % block_size != 0))
    first_slot = block_table[opened, last[opened]] * block_size
    used = context[opened] - last[opened] * block_size
    offsets = np.arange(block_size)
    tails = first_slot[:, None] + offsets
    return block_table[fresh], tails[offsets >= used[:, None]]

"""From a plan to a flat batch: every index, by hand."""

import numpy as np

from gpu_backend.models.batch import Rows, make_batch, rows_of
from tests.tools.builders import Server

TOKENS = np.arange(300).reshape(3, 100)  # request r knows the tokens 100 r ...


def rows(*planned: tuple[int, int, int, bool]) -> Rows:
    """(request, computed before, tokens, samples) in plan order."""
    request, start, count, samples = zip(*planned, strict=True)
    return Rows(
        np.array(request),
        np.array(start),
        np.array(count),
        np.arange(len(planned)),
        np.array(samples),
    )


def test_a_mixed_step() -> None:
    """A chunk, a long decode and a short one: decodes come first, from short to long."""
    planned = rows((0, 3, 4, False), (1, 9, 1, True), (2, 4, 1, True))
    tables = [np.array([7, 2]), np.array([5, 1, 9]), np.array([3, 8])]
    batch = make_batch(planned, TOKENS, tables, block_size=4)
    assert batch.requests.tolist() == [2, 1, 0]
    assert batch.token_ids.tolist() == [204, 109, 3, 4, 5, 6]
    assert batch.positions.tolist() == [4, 9, 3, 4, 5, 6]
    assert batch.slots.tolist() == [8 * 4, 9 * 4 + 1, 7 * 4 + 3, 2 * 4, 2 * 4 + 1, 2 * 4 + 2]
    assert batch.query_start.tolist() == [0, 1, 2, 6]
    assert batch.context.tolist() == [5, 10, 7]
    assert batch.block_table.tolist() == [[3, 8, 0], [5, 1, 9], [7, 2, 0]]
    assert (batch.num_single, batch.num_tokens, batch.num_rows) == (2, 6, 3)
    assert batch.sampled.tolist() == [0, 1]
    assert batch.items.tolist() == [2, 1]


def test_blocks_that_this_step_opens() -> None:
    """Only a block whose first token is of this step is fresh; its unwritten slots are tails."""
    planned = rows((0, 3, 4, False), (1, 8, 1, True), (2, 4, 4, True))
    tables = [np.array([7, 2]), np.array([5, 1, 9]), np.array([3, 8])]
    batch = make_batch(planned, TOKENS, tables, block_size=4)
    assert sorted(batch.fresh_blocks.tolist()) == [2, 8, 9]
    assert sorted(batch.tails.tolist()) == [2 * 4 + 3, 9 * 4 + 1, 9 * 4 + 2, 9 * 4 + 3]


def test_the_rows_of_a_plan() -> None:
    server = Server([(10, 3), (40, 3)], max_num_batched_tokens=32).add(0, 1)
    server.plan()
    planned = rows_of(server.state, 0)
    assert planned.request.tolist() == [0, 1]
    assert (planned.start.tolist(), planned.count.tolist()) == ([0, 0], [10, 22])
    assert planned.samples.tolist() == [True, False]


def test_a_static_batch_is_a_rectangle() -> None:
    """Prompts of 4 and 10: six padding tokens. The first is done after one token and goes on
    computing one unused token per step."""
    server = Server([(4, 1), (10, 3)], engine="static").add(0, 1)
    server.plan()
    first = rows_of(server.state, 0)
    assert first.request.tolist() == [0, 1, 0]
    assert (first.start.tolist(), first.count.tolist()) == ([0, 0, 4], [4, 10, 6])
    assert (first.item.tolist(), first.samples.tolist()) == ([0, 1, -1], [True, True, False])
    server.complete()
    for position in (10, 11):
        server.plan()
        later = rows_of(server.state, 0)
        assert later.request.tolist() == [1, 0]
        assert (later.start.tolist(), later.count.tolist()) == ([position] * 2, [1, 1])
        assert later.samples.tolist() == [True, False]
        assert later.rectangle
        server.complete()


def test_computed_tokens_are_those_the_latency_model_counts() -> None:
    """Every step of a static run computes as many tokens as the load says."""
    from sim.latency.model import load
    from sim.latency.step_cost import measure_load

    server = Server([(7, 5), (12, 2), (3, 9)], engine="static").add(0, 1, 2)
    while server.state.counters[0].num_running + server.state.counters[0].num_waiting:
        server.plan()
        step = load()
        measure_load(server.state, 0, step)
        assert rows_of(server.state, 0).count.sum() == step.num_prefill_tokens + step.num_decodes
        server.complete()

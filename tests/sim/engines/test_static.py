"""Static batching: against recorded traces, a restatement of the rule, and by hand."""

import random
from pathlib import Path
from typing import Any

import pytest

from sim import replay
from sim.cluster import simulator
from sim.core import reasons
from tests.conftest import CASES
from tests.tools.builders import Server, linear_latency, policy_rows, request_table

FILES = sorted((CASES / "static_padded").glob("*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_recorded_case(file: Path) -> None:
    case, document = replay.read_case(file)
    recorded = replay.SCHEMAS["static_padded"].recorded(document)
    assert replay.difference(replay.replay(case), recorded) is None


def restated(config: dict[str, Any], requests: list[dict[str, Any]]) -> tuple[list[Any], str]:
    """RULES-others, section C, the slow and obvious way: a batch at a time."""
    steps: list[Any] = []
    queue = sorted(requests, key=lambda q: (q["arrival_step"], q["id"]))
    s = 0
    while queue:
        s = max(s, queue[0]["arrival_step"])
        batch: list[Any] = []
        for request in queue:
            wider = [*batch, request]
            length = max(q["prompt"] for q in wider) + max(q["output"] for q in wider)
            fits = config["kv_tokens"] is None or len(wider) * length <= config["kv_tokens"]
            if request["arrival_step"] > s or len(wider) > config["max_batch_size"] or not fits:
                break
            batch = wider
        if not batch:
            later = [q["arrival_step"] for q in queue if q["arrival_step"] > s]
            last = max(later, default=s)
            for t in range(s, last + 1):
                steps.append({"s": t, "sched": [], "padded_tokens": 0})
            return steps, "stuck"
        queue = queue[len(batch) :]
        padded = len(batch) * max(q["prompt"] for q in batch)
        for t in range(max(q["output"] for q in batch)):
            live = [q for q in batch if q["output"] > t]
            row = {
                "s": s,
                "sched": [
                    [q["id"], q["prompt"] if t == 0 else 1, q["prompt"] + t - 1 if t else 0]
                    for q in live
                ],
                "finished": [q["id"] for q in live if q["output"] == t + 1],
                "padded_tokens": padded if t == 0 else len(batch),
            }
            steps.append(row)
            s += 1
    return steps, "done"


@pytest.mark.parametrize("seed", range(300))
def test_random_cases_equal_the_restated_rule(seed: int) -> None:
    draw = random.Random(seed)
    requests = [
        {
            "id": k,
            "arrival_step": draw.choice([0, draw.randint(0, 60), 30]),
            "prompt": draw.randint(1, 80),
            "output": draw.randint(1, 30),
        }
        for k in range(draw.randint(1, 15))
    ]
    config = {
        "max_batch_size": draw.choice([1, 2, 4, 8, 16]),
        "kv_tokens": draw.choice([None, 100, 110, 200, 500]),
    }
    steps, outcome = restated(config, requests)
    case = replay.Case("static_padded", str(seed), config, requests)
    document = {"steps": steps, "outcome": outcome}
    recorded = replay.SCHEMAS["static_padded"].recorded(document)
    assert replay.difference(replay.replay(case), recorded) is None


def test_finished_members_are_computed_until_the_last_one_is_done() -> None:
    """Prompts 10 and 6, outputs 2 and 4: 4 tokens of prompt padding, then 2 steps for a member that
    is done."""
    table, runs = request_table([(10, 2), (6, 4), (5, 1)])
    table.arrival_s = [0.0, 0.0, 0.01]
    policy = policy_rows("static", max_batch_size=4)
    steps = simulator.run(table, runs, policy, linear_latency()).steps
    assert steps.num_prefill_tokens.tolist() == [20, 0, 0, 0, 5]
    assert steps.num_decodes.tolist() == [0, 2, 2, 2, 0]
    assert steps.num_padding_tokens.tolist() == [4, 0, 1, 1, 0]
    assert steps.decode_context.tolist() == [0, 2 * 11, 2 * 12, 2 * 13, 0]
    assert steps.kv_blocks.tolist() == [28, 28, 28, 28, 6]
    assert reasons.STOP_REASONS[steps[2].stop_reason] == "max_batch_size"


def test_all_leave_together() -> None:
    server = Server([(4, 1), (4, 3)], engine="static", kv_tokens=14).add(0, 1)
    server.step()
    assert server.state.requests.status.tolist() == [reasons.FINISHED, reasons.RUNNING]
    assert server.free == 0
    assert server.step() == [(1, 1, 4)]
    server.step()
    assert server.free == 14


def test_a_member_that_goes_away_keeps_its_place() -> None:
    server = Server([(4, 9), (4, 3), (4, 3)], engine="static", kv_tokens=30).add(0, 1, 2)
    server.step()
    assert server.abort(0)
    assert server.step() == [(1, 1, 4)]
    assert server.state.counters[0].num_running == 2
    server.step()
    assert [r for r, _, _ in server.step()] == [2]


def test_nobody_joins_a_running_batch() -> None:
    server = Server([(4, 3), (4, 3)], engine="static").add(0)
    server.step()
    server.add(1)
    assert server.step() == [(0, 1, 4)]
    assert server.events(reasons.REFUSED_CLOSED_BATCH) == [(1, 1, 1)]

"""Little's law on every kind of run: the mean number in the system is the rate of arrivals times
the mean time there. One side is counted from the records of steps and items, the other one comes
from the request table, so a clock or a record that is wrong breaks it."""

from typing import Any

import numpy as np
import pytest

from sim.core import reasons
from sim.engines.registry import ENGINE_IDS, engine_spec
from sim.results import metrics
from sim.results.run import Result, simulate
from sim.scenario.load import parse_scenario
from tests.field.field import LINEAR, asked
from tests.tools.pools import pools

LENGTHS = {"kind": "uniform", "min": 20, "max": 60}
USERS = asked("user", LENGTHS, LENGTHS, {"kind": "poisson", "rate_per_s": 20}, 150)


def servers(count: int, engine: str, router: str = "round_robin") -> Result:
    replica = {
        "count": count,
        "latency": LINEAR,
        "policy": {"engine": engine, **engine_spec(engine).roomy},
    }
    return simulate(
        parse_scenario(
            {
                "workload": {"classes": [USERS]},
                "replicas": [replica],
                "router": {"kind": router},
            }
        )
    )


def in_system(result: Result) -> float:
    """Mean number of requests in the system: each from the arrival that the workload asked for to
    the end of the last step that gave it a token."""
    recording = result.recording
    step = np.repeat(np.arange(len(recording.steps)), recording.steps.num_items)
    ends = (recording.steps.start_s + recording.steps.duration_s)[step]
    last = np.zeros(2 * len(recording.requests))
    np.maximum.at(last, recording.items.request, ends)
    left_s = last[: len(recording.requests)]
    at_prefill = left_s == 0  # finished where its prompt was computed
    left_s[at_prefill] = last[len(recording.requests) :][at_prefill]
    arrived_s = result.workload.arrival_s
    times = np.concatenate([arrived_s, left_s])
    order = np.argsort(times, kind="stable")
    counts = np.cumsum(np.repeat([1, -1], len(arrived_s))[order])
    spans = np.diff(times[order])
    return float((counts[:-1] * spans).sum() / (times.max() - times.min()))


def rate_times_time(result: Result) -> float:
    summary = result.summary
    rate = summary["finished"] / summary["duration_s"]
    return float(rate * summary["e2e_s"]["mean"])


def check(result: Result) -> None:
    assert result.summary["finished"] == len(result.workload)
    assert in_system(result) == pytest.approx(rate_times_time(result), rel=1e-9)
    assert in_system(result) > 1


@pytest.mark.parametrize("engine", ENGINE_IDS)
def test_of_a_lone_server_of_every_policy(engine: str) -> None:
    check(servers(1, engine))


@pytest.mark.parametrize("engine", [e for e in ENGINE_IDS if e != "static"])
def test_of_those_that_run(engine: str) -> None:
    """Inside a server, from the counts of its steps: mean number running x time = sum of the times
    from the first step to the end. A static batch keeps members that have finished."""
    result = servers(1, engine)
    recording, requests = result.recording, result.recording.requests
    assert result.summary["preemptions"] == 0
    by_steps = float((recording.steps.num_running * recording.steps.duration_s).sum())
    by_requests = float((requests.end_s - requests.first_scheduled_s).sum())
    assert by_steps == pytest.approx(by_requests, rel=1e-9)


@pytest.mark.parametrize(
    "router", ["round_robin", "least_tokens", "shortest_queue", "prefix_aware", "random"]
)
def test_of_a_router(router: str) -> None:
    result = servers(3, "vllm_v1", router)
    check(result)
    recording, requests = result.recording, result.recording.requests
    for k in range(3):  # and of each server behind it
        steps, mine = metrics.steps_of(recording, k, 3), requests[requests.replica == k]
        by_steps = float((steps.num_running * steps.duration_s).sum())
        by_requests = float((mine.end_s - mine.first_scheduled_s).sum())
        assert by_steps == pytest.approx(by_requests, rel=1e-9)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("first_token_from", ["decode", "prefill"])
@pytest.mark.parametrize("fate", [{}, {"kv_unused_fraction": 0.3}, {"kv_store_bytes": 1e9}])
def test_of_prefill_and_decode_pools(
    streaming: bool, first_token_from: str, fate: dict[str, Any]
) -> None:
    result = simulate(
        pools(
            USERS,
            prefill=2,
            decode=2,
            link={"streaming": streaming, "latency_s": 1e-3, "handover_s": 0.01},
            first_token_from=first_token_from,
            **fate,
        )
    )
    check(result)
    recording, requests = result.recording, result.recording.requests
    for k in range(2, 4):
        steps = recording.steps[recording.steps.replica == k]
        mine = requests[(requests.replica == k) & (requests.status == reasons.FINISHED)]
        by_steps = float((steps.num_running * steps.duration_s).sum())
        by_requests = float((mine.end_s - mine.first_scheduled_s).sum())
        assert by_steps == pytest.approx(by_requests, rel=1e-9)

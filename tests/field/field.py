"""What the field tests share: a reported case with its numbers, small servers, per-class gaps."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.results.run import Result, simulate
from sim.scenario.load import parse_scenario

CASES = Path(__file__).parent / "cases"
TEXT = ("summary", "setup", "observed", "expected_direction", "note")
LINEAR = {"kind": "linear", "step_s": 0.005, "prefill_token_s": 1.2e-5, "decode_s": 4e-5}


def case(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((CASES / f"{name}.json").read_text())
    return document


def numbers(name: str) -> dict[str, float]:
    """The numbers of a case; each stands in the file with the phrase it was read from."""
    return {key: entry["value"] for key, entry in case(name)["numbers"].items()}


def holds_only_with(check: Callable[[bool], None]) -> None:
    """`check(True)` passes; `check(False)`, the mechanism switched off, fails."""
    check(True)
    with pytest.raises(AssertionError):
        check(False)


def asked(
    name: str,
    prompt: Any,
    output: Any,
    arrivals: dict[str, Any] | None = None,
    count: int | None = None,
    **more: Any,
) -> dict[str, Any]:
    """One class of requests; a number is a fixed length, arrivals default to all at once."""
    lengths = {
        key: value if isinstance(value, dict) else {"kind": "fixed", "tokens": int(value)}
        for key, value in (("prompt", prompt), ("output", output))
    }
    one_class = {"name": name, "arrivals": arrivals or {"kind": "all_at_once"}, **lengths, **more}
    if count is not None:
        one_class["count"] = count
    return one_class


def at(*times_s: float) -> dict[str, Any]:
    return {"kind": "at", "times_s": list(times_s)}


def serve(
    *classes: dict[str, Any],
    model: str | None = None,
    gpu: str | None = None,
    tp: int = 1,
    latency: dict[str, Any] | None = None,
    engine: str = "vllm_v1",
    seed: int = 0,
    replica: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
    **policy: Any,
) -> Result:
    """Run a server; without a model the linear toy."""
    description: dict[str, Any] = {"tp": tp, "policy": {"engine": engine, **policy}}
    description |= {"model": model, "gpu": gpu} if model else {"latency": latency or LINEAR}
    if model and latency:
        description["latency"] = latency
    scenario = {
        "version": 1,
        "seed": seed,
        "workload": {"classes": list(classes)},
        "replicas": [description | (replica or {})],
        "limits": limits or {"max_steps": 5_000_000},
    }
    return simulate(parse_scenario(scenario))


def rows_of(result: Result, name: str) -> Any:
    """Rows of the request table that belong to a class."""
    return np.flatnonzero(
        result.recording.requests.class_id == result.workload.class_names.index(name)
    )


def ttft_s(result: Result, name: str) -> Any:
    requests = result.recording.requests[rows_of(result, name)]
    return requests.first_token_s - requests.arrival_s


def token_times(result: Result, r: int) -> Any:
    """When request `r` emitted its tokens."""
    recording = result.recording
    step = np.repeat(np.arange(len(recording.steps)), recording.steps.num_items)
    items = recording.items
    mine = (items.request == r) & (items.num_tokens == items.num_needed)
    steps = recording.steps[step[mine]]
    return steps.start_s + steps.duration_s


def gaps_ms(result: Result, name: str) -> Any:
    """All gaps between tokens of the requests of a class, in ms."""
    gaps = [np.diff(token_times(result, int(r))) for r in rows_of(result, name)]
    return 1e3 * np.concatenate(gaps)

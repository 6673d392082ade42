"""Shared by all schemas of recorded cases: reading a file, and one step of a replay."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sim.core import reasons
from sim.core import scheduler_ops as ops
from sim.core.requests import RUN, Table, empty_requests
from sim.core.state import POLICY, State, columns, events_per_step, new_state, records
from sim.engines import dispatch

PLANNED = ("request", "num_tokens", "num_computed_tokens")  # what a replay prints of a planned item


@dataclass(frozen=True)
class Case:
    """The parts of a recorded case that a replay may read."""

    engine: str
    name: str
    config: dict[str, Any]
    requests: list[dict[str, Any]]


class Schema(NamedTuple):
    """How the cases of one folder are replayed and what is compared."""

    replay: Callable[[Case], dict[str, Any]]
    recorded: Callable[[dict[str, Any]], dict[str, Any]]  # the recorded trace, in the same form
    skip: Callable[[dict[str, Any]], str | None]  # why a trace is not compared, if so


Step = Annotated[int, Field(ge=0, le=1_000_000)]
Tokens = Annotated[int, Field(ge=1, le=10_000_000)]
Run = tuple[Annotated[int, Field(ge=0, le=1 << 60)], Annotated[int, Field(ge=0, le=10_000_000)]]


class RecordedRequest(BaseModel):
    """The keys that a request of every schema must have; more keys may follow."""

    model_config = ConfigDict(strict=True)
    id: Annotated[int, Field(ge=0, le=1 << 40)]
    arrival_step: Step
    abort_step: Step | None = None
    arrival_time: float | None = None
    priority: Annotated[int, Field(ge=-(1 << 30), le=1 << 30)] = 0
    prompt: Tokens | list[Annotated[Run, Field(strict=False)]] | None = None
    output: Tokens | None = None
    output_len: Tokens | None = None


class Recorded(BaseModel):
    """The parts of a case file that a replay reads."""

    config: dict[str, Any]
    requests: Annotated[list[RecordedRequest], Field(max_length=100_000)]


def described(error: ValidationError) -> str:
    """The first error: where it is, what is allowed, what was found."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg'].lower()}, found {first['input']!r:.80}"


def engine_of(document: dict[str, Any], folder: str) -> str:
    """The engine of a case that names none: vLLM V1's schema is the only one that does not."""
    return "vllm_v1" if "scheduler_reserve_full_isl" in document["config"] else folder


def parse_case(path: Path, engines: Iterable[str]) -> tuple[Case, dict[str, Any]]:
    """The case in a file, and the whole file. Raises ValueError if it is not a case."""
    try:
        document = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: not a readable JSON file ({error})") from error
    if not isinstance(document, dict):
        raise ValueError(f"{path}: a case is a JSON object, found {type(document).__name__}")
    missing = [key for key in ("config", "requests") if key not in document]
    if missing:
        raise ValueError(f"{path}: a case has config and requests; missing: {', '.join(missing)}")
    try:
        Recorded.model_validate(document)
    except ValidationError as error:
        raise ValueError(f"{path}: {described(error)}") from None
    folder = path.resolve().parent.name
    engine = folder if folder in engines else document.get("engine", engine_of(document, folder))
    return Case(engine, path.stem, document["config"], document["requests"]), document


def arrivals_and_aborts(
    case: Case, ids: list[int]
) -> tuple[dict[int, list[int]], dict[int, list[int]], int]:
    """(rows that arrive, rows that are aborted) by step in submission order, and the last such
    step.
    """
    arrivals: dict[int, list[int]] = {}
    aborts: dict[int, list[int]] = {}
    row = {id_: k for k, id_ in enumerate(ids)}
    for request in case.requests:
        arrivals.setdefault(request["arrival_step"], []).append(row[request["id"]])
        if request.get("abort_step") is not None:
            aborts.setdefault(request["abort_step"], []).append(row[request["id"]])
    return arrivals, aborts, max([*arrivals, *aborts], default=0)


def table_of(case: Case) -> tuple[Table, list[int]]:
    """(requests, their ids) of a case with lengths only; rows are in order of arrival."""
    rows = sorted(case.requests, key=lambda request: (request["arrival_step"], request["id"]))
    table = empty_requests(len(rows))
    table.num_prompt_tokens = [request["prompt"] for request in rows]
    table.max_tokens = table.output_len = [request["output"] for request in rows]
    table.arrival_s = [request["arrival_step"] for request in rows]
    return table, [request["id"] for request in rows]


def state_of(table: Table, runs: Table | None, row: Any) -> State:
    """A fresh server with one policy row, with room for every event that a step may write. No runs:
    the contents of prompts are unknown."""
    runs = records(0, RUN) if runs is None else runs
    policy = records(1, POLICY)
    policy[0] = row
    return new_state(table, runs, policy, num_events=events_per_step(policy) + 2 * len(table))


def kv_in_use(state: State) -> dict[str, Any]:
    """KV blocks held while the planned step runs."""
    free = columns(state.counters)["num_free_blocks"][0]
    return {"kv": int(columns(state.policy)["num_gpu_blocks"][0] - 1 - free)}


def events_of(state: State) -> np.ndarray:
    """The events that the planned step has written."""
    return columns(state.events)[: columns(state.log)["num_events"][0]]


def play_step(
    state: State,
    ids: list[int],
    s: int,
    planned: Callable[[State], dict[str, Any]] = kv_in_use,
) -> dict[str, Any]:
    """Schedule and complete step `s`; returns the row that `sim replay` prints of it. `planned`:
    called between the two, returns more columns."""
    dispatch.schedule(state, 0)
    num_scheduled = columns(state.counters)["num_scheduled"][0]
    plan = columns(state.scheduled)[0, :num_scheduled]
    items = zip(*(plan[name].tolist() for name in PLANNED), strict=True)
    events = events_of(state)
    kinds = list(zip(events["kind"].tolist(), events["request"].tolist(), strict=True))
    row: dict[str, Any] = {
        "s": s,
        "sched": [
            [ids[r], num_tokens, num_computed_tokens]
            for r, num_tokens, num_computed_tokens in items
        ],
        "preempted": [ids[r] for kind, r in kinds if kind == reasons.PREEMPTION],
        "finished": [],
    } | planned(state)
    if ignored := [ids[r] for kind, r in kinds if kind == reasons.IGNORED]:
        row["ignored"] = ignored
    ops.complete(state, 0, np.zeros(num_scheduled, np.int32), s + 1.0)
    ended = state.ended[0, : columns(state.counters)["num_ended"][0]]
    status = columns(state.requests)["status"]
    row["finished"] = [ids[r] for r in ended.tolist() if status[r] == reasons.FINISHED]
    return row


def walk(
    case: Case,
    state: State,
    ids: list[int],
    planned: Callable[[State], dict[str, Any]] = kv_in_use,
) -> Iterator[tuple[dict[str, Any], bool]]:
    """(row, whether a request is yet to arrive) of each step with a request in the system, until
    all requests have ended or the caller stops."""
    arrivals, _, last = arrivals_and_aborts(case, ids)
    s = 0
    while s <= last or in_system(state):
        columns(state.log)["num_events"] = 0
        for r in sorted(arrivals.get(s, [])):
            ops.add(state, 0, r)
        if in_system(state):
            yield play_step(state, ids, s, planned), s < last
        s += 1


def in_system(state: State) -> bool:
    """Whether a request waits or runs."""
    counters = columns(state.counters)
    return any(counters[name][0] > 0 for name in ("num_running", "num_waiting", "num_swapped"))


def difference(ours: dict[str, Any], recorded: dict[str, Any]) -> str | None:
    """The first step in which two replays differ, both sides; None when they are equal."""
    for one, other in zip(ours["steps"], recorded["steps"], strict=False):
        if one != other:
            keys = [k for k in one.keys() | other.keys() if one.get(k) != other.get(k)]
            sides = [{k: side.get(k) for k in sorted(keys)} for side in (one, other)]
            return f"step {other['s']}: ours {sides[0]}, recorded {sides[1]}"
    if len(ours["steps"]) != len(recorded["steps"]):
        return f"ours has {len(ours['steps'])} steps, recorded {len(recorded['steps'])}"
    if ours["status"] != recorded["status"]:
        return f"ours ends {ours['status']}, recorded {recorded['status']}"
    return None

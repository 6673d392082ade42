"""Replay of recorded scheduler cases, one step at a time and without a clock.

Only a case's engine, name, config and requests are read to replay it; the recorded trace is read by
`compare` alone. Schemas: tests/oracles/README.md.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sim import moves, policies, reasons
from sim.content import run_table
from sim.knobs.vllm_v1 import VllmV1, check_start
from sim.requests import OUTPUT_BASE, OUTPUT_STRIDE, empty_requests
from sim.state import POLICY, State, events_per_step, new_state, records


@dataclass(frozen=True)
class Case:
    """What a replay may know of a recorded case."""

    engine: str
    name: str
    config: dict[str, Any]
    requests: list[dict[str, Any]]


def read_case(path: Path) -> tuple[Case, dict[str, Any]]:
    """The case in a file, and the whole file. Raises ValueError in words when it is no case."""
    try:
        document = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: not a readable JSON file ({error})") from error
    if not isinstance(document, dict):
        raise ValueError(f"{path}: a case is a JSON object, found {type(document).__name__}")
    missing = [key for key in ("config", "requests") if key not in document]
    if missing:
        raise ValueError(f"{path}: a case has config and requests; missing: {', '.join(missing)}")
    folder = path.resolve().parent.name
    engine = folder if folder in ENGINES else document.get("engine", folder)
    return Case(engine, path.stem, document["config"], document["requests"]), document


# --- vLLM V1 -------------------------------------------------------------------------------------


def vllm_v1_knobs(config: dict[str, Any]) -> VllmV1:
    """The knobs of a recorded configuration; ValueError where vLLM's configuration check refuses
    it.

    max_num_partial_prefills and max_long_partial_prefills are checked by vLLM but not enforced by
    its scheduler: more than one only sets the threshold (vllm/config/scheduler.py, 0.26.0)."""
    names = [name for name in VllmV1.model_fields if name != "engine"]
    knobs = VllmV1(engine="vllm_v1", **{name: config[name] for name in names})
    length, partial = config["max_model_len"], config["max_num_partial_prefills"]
    check_start(knobs, config["max_num_batched_tokens"], config["max_num_seqs"], length)
    if not 1 <= config["max_long_partial_prefills"] <= partial:
        raise ValueError("max_long_partial_prefills must lie in 1..max_num_partial_prefills")
    if partial == 1:
        return knobs
    if not knobs.enable_chunked_prefill:
        raise ValueError("max_num_partial_prefills above 1 needs chunked prefill")
    if knobs.long_prefill_token_threshold > length:
        raise ValueError("long_prefill_token_threshold is greater than max_model_len")
    threshold = knobs.long_prefill_token_threshold or int(length * 0.04)
    return knobs.model_copy(update={"long_prefill_token_threshold": threshold})


def vllm_v1_state(case: Case, knobs: VllmV1) -> tuple[State, list[int]]:
    """A fresh server that knows the requests of the case, and the id of each row of its table."""
    rows = sorted(case.requests, key=lambda request: request["id"])
    table = empty_requests(len(rows))
    contents = []
    for k, request in enumerate(rows):
        row = table[k]
        content = request["prompt"] if "prompt" in request else request["prompt_token_ids"]
        content = [run if isinstance(run, list) else [run, 1] for run in content]
        contents.append(content)
        row.prompt_len = sum(n for _, n in content)
        row.max_tokens = row.output_len = request["output_len"]
        row.priority = request.get("priority", 0)
        row.arrival_s = request["arrival_time"]
        row.output_base = OUTPUT_BASE + OUTPUT_STRIDE * request["id"]
    runs, table.first_run, table.num_runs = run_table(contents)
    policy = records(1, POLICY)
    policy[0] = knobs.row()
    state = new_state(table, runs, policy, num_events=events_per_step(policy) + len(table))
    return state, [request["id"] for request in rows]


def happenings(
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


def replay_vllm_v1(case: Case) -> dict[str, Any]:
    """Until all requests ended, a step changes nothing for ever, or max_steps: RULES-vllm_v1,
    Schema.
    """
    try:
        knobs = vllm_v1_knobs(case.config)
    except ValueError:
        return {"status": "config_error", "steps": []}
    state, ids = vllm_v1_state(case, knobs)
    arrivals, aborts, last = happenings(case, ids)
    counters, usable = state.counters[0], case.config["num_gpu_blocks"] - 1
    flags = np.zeros(case.config["max_num_seqs"], np.int32)
    open_requests, steps = len(ids), []
    for s in range(case.config["max_steps"]):
        state.log.num_events = 0
        for r in arrivals.get(s, []):
            moves.add(state, 0, r)
        aborted = [r for r in aborts.get(s, []) if moves.abort(state, r, float(s))]
        policies.schedule(state, 0)
        events = state.events[: state.log[0].num_events]
        preempted = events.request[events.kind == reasons.PREEMPTION]
        plan = state.plan[0, : counters.num_planned]
        step: dict[str, Any] = {
            "s": s,
            "sched": [
                [ids[item.request], int(item.num_tokens), int(item.num_computed)] for item in plan
            ],
            "preempted": [ids[r] for r in preempted],
            "kv": int(usable - counters.num_free_blocks),
        }
        moves.complete(state, 0, flags, s + 1.0)
        step["finished"] = [ids[r] for r in state.ended[0, : counters.num_ended]]
        if aborted:
            step["aborted"] = [ids[r] for r in aborted]
        steps.append(step)
        open_requests -= len(step["finished"]) + len(aborted)
        if open_requests == 0:
            return {"status": "finished", "steps": steps}
        if s >= last and not (step["sched"] or step["preempted"] or aborted):
            return {"status": "stalled", "steps": steps}
    return {"status": "step_bound", "steps": steps}


def recorded_vllm_v1(document: dict[str, Any]) -> dict[str, Any]:
    """The recorded trace of a case, in the same form."""
    trace = document["trace"]
    steps = []
    for row in trace["steps"]:
        step = {
            "s": row["s"],
            "sched": row.get("sch", []),
            "preempted": row.get("pre", []),
            "kv": row["used"],
            "finished": row.get("fin", []),
        }
        if row.get("abort"):
            step["aborted"] = row["abort"]
        steps.append(step)
    return {"status": trace["status"], "steps": steps}


def skip_vllm_v1(document: dict[str, Any]) -> str | None:
    """Why a recorded trace is not to be imitated, if so."""
    if any(row.get("ghost") for row in document["trace"]["steps"]):
        return "ghost hits: the recorded scheduler reuses KV that was never computed"
    return None


# --- all engines ---------------------------------------------------------------------------------


class Engine(NamedTuple):
    """How the cases of one folder are replayed and what is compared."""

    replay: Callable[[Case], dict[str, Any]]
    recorded: Callable[[dict[str, Any]], dict[str, Any]]
    skip: Callable[[dict[str, Any]], str | None]


ENGINES = {"vllm_v1": Engine(replay_vllm_v1, recorded_vllm_v1, skip_vllm_v1)}


def replay(case: Case) -> dict[str, Any]:
    """The steps that our policy makes of a case, in the form that `sim replay` prints."""
    try:
        return {"engine": case.engine, "case": case.name} | ENGINES[case.engine].replay(case)
    except KeyError as error:
        raise ValueError(f"case {case.name}: key {error} is missing") from error


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

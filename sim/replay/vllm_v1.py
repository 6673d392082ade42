"""Recorded cases of vLLM V1: their schema, and when a replay ends."""

from typing import Any

from sim.core import scheduler_ops as ops
from sim.core.requests import OUTPUT_BASE, OUTPUT_STRIDE, empty_requests
from sim.core.state import State, columns
from sim.engines.knobs.vllm_v1 import VllmV1, check_start
from sim.replay.case import Case, Schema, arrivals_and_aborts, play_step, state_of
from sim.workload.prompt_tokens import run_table


def vllm_v1_knobs(config: dict[str, Any]) -> VllmV1:
    """The knobs of a recorded configuration. Raises ValueError if vLLM's configuration check
    refuses it.

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
    """A new server with the requests of the case, and the id of each row of its table."""
    rows = sorted(case.requests, key=lambda request: request["id"])
    table = empty_requests(len(rows))
    contents = []
    for k, request in enumerate(rows):
        row = table[k]
        content = request["prompt"] if "prompt" in request else request["prompt_token_ids"]
        content = [run if isinstance(run, list) else [run, 1] for run in content]
        contents.append(content)
        row.num_prompt_tokens = sum(n for _, n in content)
        row.max_tokens = row.output_len = request["output_len"]
        row.priority = request.get("priority", 0)
        row.arrival_s = request["arrival_time"]
        row.output_base = OUTPUT_BASE + OUTPUT_STRIDE * request["id"]
    runs, table.first_run, table.num_runs = run_table(contents)
    return state_of(table, runs, knobs.row()), [request["id"] for request in rows]


def replay_vllm_v1(case: Case) -> dict[str, Any]:
    """A replay until all requests have ended, no step can change anything, or max_steps:
    RULES-vllm_v1, Schema."""
    try:
        knobs = vllm_v1_knobs(case.config)
    except ValueError:
        return {"status": "config_error", "steps": []}
    state, ids = vllm_v1_state(case, knobs)
    arrivals, aborts, last = arrivals_and_aborts(case, ids)
    open_requests, steps = len(ids), []
    for s in range(case.config["max_steps"]):
        columns(state.log)["num_events"] = 0
        for r in arrivals.get(s, []):
            ops.add(state, 0, r)
        aborted = [r for r in aborts.get(s, []) if ops.abort(state, r, float(s))]
        step = play_step(state, ids, s)
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
    """Why a recorded trace is not compared, if so."""
    if any(row.get("ghost") for row in document["trace"]["steps"]):
        return "ghost hits: the recorded scheduler reuses KV that was never computed"
    return None


VLLM_V1 = Schema(replay_vllm_v1, recorded_vllm_v1, skip_vllm_v1)

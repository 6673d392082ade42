"""Recorded cases of textbook static batching: rows hold what the device computes, padded."""

from typing import Any

from sim.core.recording import STEP
from sim.core.state import State, records
from sim.engines.knobs.static import Static
from sim.latency.step_cost import measure_load
from sim.replay.case import Case, Schema, state_of, table_of, walk


def padded_tokens(state: State) -> dict[str, Any]:
    """Tokens that the device computes in the planned step."""
    step = records(1, STEP)[0]
    measure_load(state, 0, step)
    return {"padded_tokens": int(step.num_prefill_tokens + step.num_decodes)}


def replay_static(case: Case) -> dict[str, Any]:
    """A replay until all requests have ended, or the head of the queue fits in no batch and no
    request will arrive."""
    table, ids = table_of(case)
    length = int(table.num_prompt_tokens.max(initial=1) + table.max_tokens.max(initial=1))
    members = case.config["max_batch_size"]
    kv_tokens = case.config["kv_tokens"] or min(members, max(len(ids), 1)) * length
    row = Static(engine="static", max_batch_size=members, kv_tokens=kv_tokens).row()
    row.max_model_len = length
    state = state_of(table, None, row)
    steps: list[dict[str, Any]] = []
    for step, more_to_come in walk(case, state, ids, padded_tokens):
        steps.append(step)
        if not (step["sched"] or more_to_come):
            return {"status": "stuck", "steps": steps}
    return {"status": "done", "steps": steps}


def recorded(document: dict[str, Any]) -> dict[str, Any]:
    """The recorded trace of a case, in the form of a replay."""
    steps = [
        {
            "s": row["s"],
            "sched": row["sched"],
            "preempted": [],
            "finished": row.get("finished", []),
            "padded_tokens": row["padded_tokens"],
        }
        for row in document["steps"]
    ]
    return {"status": document["outcome"], "steps": steps}


STATIC_PADDED = Schema(replay_static, recorded, lambda document: None)

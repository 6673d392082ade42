"""Recorded cases of TensorRT-LLM's scheduler: their schema, and when a replay ends."""

from typing import Any

import numpy as np

from sim.core import reasons, waiting_queue
from sim.core.state import POLICY, records
from sim.engines import dispatch
from sim.engines.tensorrt_llm import CAPACITY_POLICIES, CHUNKING_POLICIES
from sim.replay.case import Case, Schema, events_of, state_of, table_of, walk
from sim.replay.sarathi_serve import recorded

NO_LIMIT = 1 << 30


def policy_row(config: dict[str, Any]) -> Any:
    """The row of state.POLICY of a recorded configuration; its chunk_unit is a knob of its own."""
    row = records(1, POLICY)[0]
    row.engine = dispatch.number_of("tensorrt_llm")
    row.capacity_policy = CAPACITY_POLICIES.index(config["policy"])
    row.chunking_policy = CHUNKING_POLICIES.index(config["chunking"] or "none")
    row.chunk_unit = config["chunk_unit"]
    row.snapshot_every = config.get("snapshot_every") or NO_LIMIT
    row.two_step_lookahead = config["two_step_lookahead"]
    row.max_num_batched_tokens = config["max_num_tokens"]
    row.max_num_seqs = config["max_batch_size"]
    row.max_model_len = NO_LIMIT
    row.block_size = config["tokens_per_block"]
    row.num_gpu_blocks = config["num_blocks"] + 1
    row.requeue = waiting_queue.TO_ARRIVAL_PLACE
    return row


def replay_tensorrt_llm(case: Case) -> dict[str, Any]:
    """A replay until all requests have ended, a step schedules no request, or a prompt that may not
    be split exceeds the budget, where upstream fails an assertion."""
    table, ids = table_of(case)
    state = state_of(table, None, policy_row(case.config))
    steps: list[dict[str, Any]] = []
    for row, _ in walk(case, state, ids):
        if outgrown(events_of(state), case.config["max_num_tokens"]):
            return {"status": "error", "steps": steps}
        steps.append(row)
        if not row["sched"]:
            return {"status": "stuck", "steps": steps}
    return {"status": "done", "steps": steps}


def outgrown(events: np.ndarray, max_num_tokens: int) -> bool:
    """Whether a whole prompt was refused that is longer than any step's budget."""
    refused = events["value"][events["kind"] == reasons.REFUSED_WHOLE_PROMPT]
    return bool(np.any(refused > max_num_tokens))


def skip(document: dict[str, Any]) -> str | None:
    """Why a recorded trace is not compared, if so."""
    for row in document["steps"]:
        again = set(row.get("paused", ())) & {item[0] for item in row["sched"]}
        if again:
            return f"step {row['s']}: request {min(again)} is evicted and keeps a stale chunk"
    return None


TENSORRT_LLM = Schema(replay_tensorrt_llm, recorded, skip)

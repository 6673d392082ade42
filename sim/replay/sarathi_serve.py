"""Recorded cases of Sarathi-Serve's schedulers: its own, and its copies of vLLM V0's and Orca's."""

from collections.abc import Callable
from typing import Any

from sim.engines.knobs.orca import Orca
from sim.engines.knobs.sarathi import Sarathi
from sim.engines.knobs.vllm_v0 import VllmV0
from sim.replay.case import Case, Schema, state_of, table_of, walk

PATIENCE = 3  # consecutive steps without a token before a run counts as stuck


def sarathi_row(config: dict[str, Any]) -> Any:
    return Sarathi(
        engine="sarathi",
        chunk_size=config["chunk_size"],
        dynamic=config.get("dynamic"),
        max_num_seqs=config["max_num_seqs"],
        max_model_len=config["max_model_len"],
        block_size=config["block_size"],
        num_gpu_blocks=config["num_blocks"],
    ).row()


def vllm_row(config: dict[str, Any]) -> Any:
    """Sarathi-Serve's copy never puts more than max_model_len prompt tokens in a step."""
    return VllmV0(
        engine="vllm_v0",
        max_num_batched_tokens=min(config["max_batched_tokens"], config["max_model_len"]),
        max_num_seqs=config["max_num_seqs"],
        max_model_len=config["max_model_len"],
        block_size=config["block_size"],
        num_gpu_blocks=config["num_blocks"],
    ).row()


def orca_row(config: dict[str, Any]) -> Any:
    row = Orca(
        engine="orca",
        max_num_seqs=config["max_num_seqs"],
        max_model_len=config["max_model_len"],
        num_gpu_blocks=config["num_blocks"],
    ).row()
    row.block_size = config["block_size"]
    return row


def replay_with(policy_row: Callable[[dict[str, Any]], Any]) -> Callable[[Case], dict[str, Any]]:
    """A replay until all requests have ended, or no progress is possible and no request will
    arrive."""

    def replay(case: Case) -> dict[str, Any]:
        table, ids = table_of(case)
        state = state_of(table, None, policy_row(case.config))
        steps: list[dict[str, Any]] = []
        idle = 0
        for row, more_to_come in walk(case, state, ids):
            steps.append(row)
            idle = 0 if row["sched"] else idle + 1
            if idle > PATIENCE and not more_to_come:
                return {"status": "stuck", "steps": steps}
        return {"status": "done", "steps": steps}

    return replay


def recorded(document: dict[str, Any]) -> dict[str, Any]:
    """The recorded trace of a case, in the form of a replay."""
    steps = []
    for row in document["steps"]:
        step = {
            "s": row["s"],
            "sched": row["sched"],
            "preempted": row.get("paused", []),
            "finished": row.get("finished", []),
            "kv": row["kv"],
        }
        if row.get("ignored"):
            step["ignored"] = row["ignored"]
        steps.append(step)
    return {"status": document["outcome"], "steps": steps}


def skip(document: dict[str, Any]) -> str | None:
    """Why a recorded trace is not compared, if so."""
    if not document["config"].get("fix_restart_output_count", True):
        return "asis: a preempted request generates max_tokens once more"
    if "not imitate" in (document.get("note") or ""):
        return f"the note says not to imitate: {document['note']}"
    for row in document["steps"]:
        paused = set(row.get("paused", ()))
        if paused & {item[0] for item in row["sched"]}:
            return f"step {row['s']}: evicted in mid-prefill, readmitted with a stale chunk"
        if paused and not row["sched"]:
            return f"step {row['s']}: self-preemption in an empty step, progress is never reset"
    return None


SARATHI_SARATHI = Schema(replay_with(sarathi_row), recorded, skip)
SARATHI_VLLM = Schema(replay_with(vllm_row), recorded, skip)
SARATHI_ORCA = Schema(replay_with(orca_row), recorded, skip)

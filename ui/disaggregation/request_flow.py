"""The flow of one request, step by step, with the numbers of the run."""

import math
from dataclasses import dataclass

import numpy as np

from sim.cluster.cluster_state import (
    FINISHED_AT_PREFILL,
    KV_UNUSED,
    LOAD_FAILED,
    LOAD_RECOMPUTED,
    OUTCOMES,
    TOO_SHORT,
)
from sim.core import reasons
from sim.results.run import Result
from sim.results.words import plural
from ui.disaggregation.kv_size import gigabytes
from ui.text.explain import REJECTIONS
from ui.text.units import count, seconds


@dataclass(frozen=True)
class Step:
    """When (s after the arrival, None where it never came), where, and what happens."""

    at_s: float | None
    place: str
    what: str


def steps(result: Result, r: int) -> list[Step]:
    """What happens to request `r`, from the proxy to its last token, in the order of time; what
    never comes last."""
    return sorted(
        unordered_steps(result, r), key=lambda step: math.inf if step.at_s is None else step.at_s
    )


def unordered_steps(result: Result, r: int) -> list[Step]:
    """The same, place by place: with streaming the KV leaves before its prompt is computed."""
    recording = result.recording
    request, prefill = recording.requests[r], recording.prefill_requests[r]
    way = recording.kv_transfers[r]
    arrival = float(request.arrival_s)
    if request.status == reasons.REJECTED:
        why = REJECTIONS[reasons.REJECTIONS[request.rejection]]
        return [Step(0.0, "Proxy", f"Rejects the request: {why}.")]

    def after(time: float) -> float | None:
        return None if np.isnan(time) else float(time) - arrival

    at_prefill = bool(request.first_token_s == way.prefill_end_s)
    source, target = name_of(result, int(way.source)), name_of(result, int(way.target))
    found = [
        Step(
            0.0, "Proxy",
            f"Sends the {count(request.num_prompt_tokens)}-token prompt to {source.lower()} with "
            'max_tokens = 1 and kv_transfer_params {"do_remote_decode": true}.',
        ),
        Step(
            after(prefill.first_scheduled_s), source,
            f"Begins to compute it, after {seconds(float(prefill.first_scheduled_s) - arrival)} "
            "in the queue.",
        ),
        Step(
            after(way.prefill_end_s), source,
            f"Has computed it in {seconds(float(way.prefill_end_s - prefill.first_scheduled_s))} "
            + ("and sends the first token on" if at_prefill
               else "and returns one token, not used")
            + ", with remote_block_ids, remote_engine_id, remote_host and remote_port.",
        ),
    ]  # fmt: skip
    found += transfer(way, after, target)
    if way.outcome in (LOAD_FAILED, FINISHED_AT_PREFILL):
        return found
    found.append(
        Step(
            after(request.first_scheduled_s), target,
            "Runs it for the first time: "
            + entering(way, int(request.num_prompt_tokens), at_prefill),
        )
    )  # fmt: skip
    if not at_prefill:
        found.append(Step(after(request.first_token_s), target, "The client gets the first token."))
    found.append(
        Step(
            after(request.end_s), target,
            f"The last of {plural(request.num_output_tokens, 'token')}; the longest gap was "
            f"{seconds(float(request.max_gap_s))}.",
        )
    )  # fmt: skip
    return found


def name_of(result: Result, server: int) -> str:
    """A server by its pool and its place in it."""
    roles = [replica.replica.role for replica in result.resolved.replicas]
    if server < 0:
        return "A decode server"
    return f"{roles[server].capitalize()} server {roles[: server + 1].count(roles[server])}"


def transfer(way: np.record, after, target: str) -> list[Step]:  # type: ignore[no-untyped-def]
    """The way of the KV."""
    if way.outcome == FINISHED_AT_PREFILL:
        return [Step(after(way.prefill_end_s), "Proxy", "The first token was the last one.")]
    if way.outcome == KV_UNUSED:
        return [
            Step(
                after(way.prefill_end_s), "Proxy",
                f"Sends the request to {target.lower()} without the parameters: the KV lies ready "
                "and no server asks for it.",
            )
        ]  # fmt: skip
    if way.outcome == TOO_SHORT:
        return [Step(after(way.prefill_end_s), "Proxy", "Shorter than a block: nothing is moved.")]
    if np.isnan(way.start_s):
        return []
    sent = [
        Step(
            after(way.start_s), target,
            "Has reserved blocks under the same id and reads "
            f"{gigabytes(float(way.total_bytes))} of KV ({plural(way.num_tokens, 'token')}, "
            f"{plural(way.num_descriptors, 'descriptor')}).",
        )
    ]  # fmt: skip
    if not np.isnan(way.end_s):
        lost = way.outcome in (LOAD_FAILED, LOAD_RECOMPUTED)
        words = (
            f"{'The load fails' if lost else 'The KV has arrived'}, {seconds(took(way))} after the "
            f"reading began{'' if lost else '; the prefill server frees its blocks'}."
        )
        sent.append(Step(after(way.end_s), target, words))
    return sent


def took(way: np.record) -> float:
    return float(way.end_s - way.start_s)


def entering(way: np.record, num_prompt_tokens: int, at_prefill: bool) -> str:
    """What the decode server still computes. `at_prefill`: the first token came from there."""
    if OUTCOMES[way.outcome] == "moved":
        if at_prefill:
            return (
                f"all {count(num_prompt_tokens)} prompt tokens count as computed, the step "
                "takes the first token in and gives the second."
            )
        computed = count(num_prompt_tokens - 1)
        return f"{computed} tokens count as computed, the last one is computed here."
    more = " and the first token" if at_prefill else ""
    verb = "is" if num_prompt_tokens == 1 and not at_prefill else "are"
    return f"{plural(num_prompt_tokens, 'prompt token')}{more} {verb} computed here."

"""Failure modes of a disaggregated run, by the names that practitioners use, with their numbers.

Each finding is computed from the run and reported only where it holds; the thresholds are below.
The time of a request is split at its first prefill step, the end of its prefill, the hand-over,
the start and the end of the transfer, and its first step on the decode server. A request that did
not get that far counts up to the end of the run, so that a stuck run shows the stage it is stuck
in."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.cluster.cluster_state import KV_UNUSED, LOAD_FAILED, LOAD_RECOMPUTED, MOVED
from sim.cluster.topology import Topology
from sim.core import reasons
from sim.core.recording import Recording
from sim.core.requests import Table
from sim.results.words import plural
from sim.scenario.load import Resolved

__all__ = ["Finding", "of"]

Floats = NDArray[np.float64]

# Thresholds from which a failure mode is reported.
QUEUE_SHARE = 0.5  # of the time until requests decode, queued for prefill servers
BUSY_SHARE = 0.8  # of the time with requests queued there, in which prefill servers computed
BLOCKS_SHARE = 0.2  # of the time until requests decode, spent waiting for KV blocks of decode
LINK_SHARE = 0.5  # of the time until requests decode, spent on the link after the prefill
RECOMPUTED_SHARE = 0.01  # tokens computed again on decode servers / prompt tokens


@dataclass(frozen=True)
class Finding:
    """One failure mode: its name, a sentence, and the numbers in it (SI units, shares of 1)."""

    name: str
    text: str
    numbers: dict[str, float]

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


@dataclass(frozen=True)
class Stages:
    """Mean seconds that requests spent, by stage, until they decoded."""

    prefill_queue_s: float
    prefill_s: float
    blocks_s: float  # ready to be moved, no KV blocks on the decode server
    transfer_s: float  # after the prefill: what a stream hides is not in it
    total_s: float


def of(recording: Recording, resolved: Resolved) -> tuple[Finding, ...]:
    """The failure modes of a run; none without disaggregation."""
    if not resolved.topology.disaggregated or len(recording.steps) == 0:
        return ()
    stages = stages_of(recording, resolved.topology)
    found = (
        prefill_too_small(recording, resolved, stages),
        decode_full(recording, resolved, stages),
        over_admission(recording),
        link_too_slow(recording, resolved, stages),
        not_used(recording),
        loads_fail(recording),
    )
    return tuple(finding for finding in found if finding is not None)


# --- where the time goes --------------------------------------------------------------------------


def stages_of(recording: Recording, topology: Topology) -> Stages:
    """Mean seconds by stage over all requests that arrived and were not rejected."""
    came = ~np.isin(recording.requests.status, (reasons.EXPECTED, reasons.REJECTED))
    requests, legs = recording.requests[came], recording.prefill_requests[came]
    ways = recording.kv_transfers[: len(recording.requests)][came]
    if len(requests) == 0:
        return Stages(0.0, 0.0, 0.0, 0.0, 0.0)
    until = np.where(np.isfinite(requests.end_s), requests.end_s, run_end_s(recording))

    def reached(times_s: Floats, since_s: Floats) -> Floats:
        known = np.where(np.isfinite(times_s), times_s, until)
        return np.minimum(np.maximum(known, since_s), until)

    begun_s = reached(legs.first_scheduled_s, requests.arrival_s)
    prefilled_s = reached(ways.prefill_end_s, begun_s)
    handover_s = 0.0 if topology.streaming else topology.handover_s
    ready_s = np.minimum(prefilled_s + handover_s, until)
    moves = np.isin(ways.outcome, (MOVED, LOAD_FAILED, LOAD_RECOMPUTED))
    started_s = np.where(moves, reached(ways.start_s, ready_s), ready_s)
    moved_s = np.where(moves, reached(ways.end_s, started_s), ready_s)
    decodes_s = reached(requests.first_scheduled_s, moved_s)
    return Stages(
        prefill_queue_s=float((begun_s - requests.arrival_s).mean()),
        prefill_s=float((prefilled_s - begun_s).mean()),
        blocks_s=float((started_s - ready_s).mean()),
        transfer_s=float((moved_s - started_s).mean()),
        total_s=float((decodes_s - requests.arrival_s).mean()),
    )


def run_end_s(recording: Recording) -> float:
    return float((recording.steps.start_s + recording.steps.duration_s).max())


def steps_of_role(recording: Recording, resolved: Resolved, role: str) -> Table:
    """The steps of all servers with a role."""
    servers = [k for k, each in enumerate(resolved.replicas) if each.replica.role == role]
    steps: Table = recording.steps[np.isin(recording.steps.replica, servers)]
    return steps


def share_of(seconds: float, stages: Stages) -> float:
    return seconds / stages.total_s if stages.total_s > 0 else 0.0


# --- the modes ------------------------------------------------------------------------------------


def prefill_too_small(recording: Recording, resolved: Resolved, stages: Stages) -> Finding | None:
    """TTFT is dominated by queueing for prefill servers that are always busy."""
    share = share_of(stages.prefill_queue_s, stages)
    servers = sum(each.replica.role == "prefill" for each in resolved.replicas)
    arrivals = recording.requests.arrival_s[np.isfinite(recording.requests.arrival_s)]
    begun = recording.prefill_requests.first_scheduled_s[
        np.isfinite(recording.prefill_requests.first_scheduled_s)
    ]
    waiting = recording.prefill_requests.status == reasons.WAITING
    last_s = run_end_s(recording) if waiting.any() else float(begun.max(initial=0.0))
    span_s = last_s - float(arrivals.min(initial=np.inf))
    if share <= QUEUE_SHARE or span_s <= 0:
        return None
    steps = steps_of_role(recording, resolved, "prefill")
    inside = steps[steps.start_s < last_s]
    ends_s = np.minimum(inside.start_s + inside.duration_s, last_s)
    busy = float((ends_s - inside.start_s).sum()) / (span_s * servers)
    if busy <= BUSY_SHARE:
        return None
    words = (
        f"{share:.0%} of the time until requests decode is queueing at {servers} prefill "
        f"server{'s' if servers > 1 else ''}, {stages.prefill_queue_s:.3g} s on average, "
        f"while these computed {busy:.0%} of the time"
    )
    numbers = {
        "share": share,
        "mean_queue_s": stages.prefill_queue_s,
        "prefill_servers": float(servers),
        "busy_fraction": busy,
    }
    arrival_span_s = float(arrivals.max() - arrivals.min())
    if arrival_span_s > 0:
        wanted = math.ceil(float(steps.duration_s.sum()) / arrival_span_s)
        if wanted > servers:
            numbers["prefill_servers_wanted"] = float(wanted)
            words += f"; this arrival rate needs {wanted}"
    return Finding("prefill pool too small", words, numbers)


def decode_full(recording: Recording, resolved: Resolved, stages: Stages) -> Finding | None:
    """KV that is ready cannot be transferred: the decode servers lack blocks."""
    servers = [k for k, each in enumerate(resolved.replicas) if each.replica.role == "decode"]
    share = share_of(stages.blocks_s, stages)
    peak = float((recording.replica_peaks[servers] / recording.replica_blocks[servers]).max())
    left = (recording.replica_blocks[servers] - recording.replica_peaks[servers]).min()
    full = left * recording.block_size < float(np.median(recording.requests.num_prompt_tokens))
    hangs = recording.status == "stalled" and int(recording.steps.replica[-1]) in servers
    if not full or (share <= BLOCKS_SHARE and not hangs):
        return None
    silent_s = silent_seconds(recording, resolved)
    words = (
        f"KV of decode servers {peak:.0%} in use at the peak; transfers wait for blocks "
        f"{stages.blocks_s:.3g} s on average, {share:.0%} of the time until requests decode; "
        f"{silent_s:.3g} s without a token while requests waited there"
    )
    if hangs:
        words += "; the run stalls there"
    numbers = {
        "share": share,
        "mean_wait_s": stages.blocks_s,
        "kv_peak_fraction": peak,
        "seconds_without_a_token": silent_s,
    }
    return Finding("decode pool full", words, numbers)


def silent_seconds(recording: Recording, resolved: Resolved) -> float:
    """Seconds with requests at the decode pool and no decode server in a step."""
    steps = steps_of_role(recording, resolved, "decode")
    requests, ways = recording.requests, recording.kv_transfers[: len(recording.requests)]
    there = np.isfinite(ways.prefill_end_s) & (requests.status != reasons.REJECTED)
    ends_s = np.where(np.isfinite(requests.end_s), requests.end_s, run_end_s(recording))[there]
    times = np.concatenate(
        [ways.prefill_end_s[there], ends_s, steps.start_s, steps.start_s + steps.duration_s]
    )
    count, taken = int(there.sum()), len(steps)
    waits = np.repeat([1, -1, 0, 0], [count, count, taken, taken])
    runs = np.repeat([0, 0, 1, -1], [count, count, taken, taken])
    order = np.argsort(times, kind="stable")
    waiting, running = np.cumsum(waits[order])[:-1], np.cumsum(runs[order])[:-1]
    silent = (waiting > 0) & (running == 0)
    return float(np.diff(times[order])[silent].sum())


def over_admission(recording: Recording) -> Finding | None:
    """Decode servers admit more requests than fit: preempted requests are prefilled again."""
    preemptions = int(recording.requests.num_preemptions.sum())
    again = int(recording.requests.recomputed_tokens.sum(dtype=np.int64))
    prompts = int(recording.requests.num_prompt_tokens.sum(dtype=np.int64))
    if preemptions == 0 or again < RECOMPUTED_SHARE * prompts:
        return None
    hit = int((recording.requests.num_preemptions > 0).sum())
    words = (
        f"decode servers preempted {plural(hit, 'request')} {plural(preemptions, 'time')} and "
        f"computed {plural(again, 'token')} again, {again / prompts:.0%} of all prompt tokens; a "
        "lower max_num_seqs "
        "there, or fewer requests at once, avoids it"
    )
    numbers: dict[str, Any] = {
        "preemptions": preemptions,
        "recomputed_tokens": again,
        "share_of_prompt_tokens": again / prompts,
    }
    return Finding("over-admission", words, numbers)


def link_too_slow(recording: Recording, resolved: Resolved, stages: Stages) -> Finding | None:
    """Before decoding, requests spend more time on the link than on everything else together."""
    share = share_of(stages.transfer_s, stages)
    ways = recording.kv_transfers[: len(recording.requests)]
    moved = ways[np.isfinite(ways.start_s)]
    if share <= LINK_SHARE or len(moved) == 0:
        return None
    arrived = moved[np.isfinite(moved.end_s)]
    rate = (
        float(arrived.total_bytes.sum() / (arrived.end_s - arrived.start_s).sum())
        if len(arrived)
        else 0.0
    )
    words = (
        f"transfers take {stages.transfer_s:.3g} s on average after the prefill, {share:.0%} of "
        f"the time until requests decode; each got {rate / 1e9:.3g} GB/s of the link's "
        f"{resolved.topology.bandwidth / 1e9:.3g}"
    )
    numbers = {
        "share": share,
        "mean_transfer_s": stages.transfer_s,
        "bytes_per_s": rate,
        "link_bytes_per_s": float(resolved.topology.bandwidth),
    }
    return Finding("link too slow", words, numbers)


def not_used(recording: Recording) -> Finding | None:
    """KV was ready at the prefill server, and the decode server computed it again."""
    ways = recording.kv_transfers[: len(recording.requests)]
    unused = (ways.outcome == KV_UNUSED) & np.isfinite(recording.requests.first_scheduled_s)
    if not unused.any():
        return None
    tokens = int(recording.requests.num_prompt_tokens[unused].sum(dtype=np.int64))
    number, share = int(unused.sum()), float(unused.mean())
    words = (
        f"{plural(number, 'request')} ({share:.0%}) {'was' if number == 1 else 'were'} prefilled "
        f"twice, {plural(tokens, 'prompt token')}: the decode server never asked for the KV (are "
        "kv_transfer_params handed on?)"
    )
    numbers = {"requests": float(number), "share": share, "tokens": float(tokens)}
    return Finding("KV not used", words, numbers)


def loads_fail(recording: Recording) -> Finding | None:
    """KV was lost in transfer."""
    outcome = recording.kv_transfers.outcome[: len(recording.requests)]
    failed, again = int((outcome == LOAD_FAILED).sum()), int((outcome == LOAD_RECOMPUTED).sum())
    if failed + again == 0:
        return None
    words = (
        f"{plural(failed + again, 'load')} failed: {plural(failed, 'request')} ended, "
        f"{again:,} recomputed"
    )
    return Finding("KV loads fail", words, {"failed": float(failed), "recomputed": float(again)})

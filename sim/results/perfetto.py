"""A run as a Chrome trace, the JSON that https://ui.perfetto.dev and chrome://tracing open.

One process for the steps of each replica (with counters for budget, queue and KV), one for the
requests with one track each (waiting, prefill chunks, decodes, preemptions), and one for KV
transfers between replicas, with arrows from the step that computed the KV to the one that decodes.
Times are microseconds on the clock of the run. The viewer ignores colours, so names carry the
meaning.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, TextIO

import numpy as np

from sim.core import reasons
from sim.core.recording import Recording
from sim.scenario.load import Resolved

__all__ = ["MOST_TRACKS", "trace_events", "write_perfetto"]

MOST_TRACKS = 2_000  # most requests with a track; more make the viewer slow
REQUESTS, TRANSFERS, STEPS = 1, 2, 100  # process ids; replica k has STEPS + k
Event = dict[str, Any]


def write_perfetto(
    stream: TextIO, recording: Recording, resolved: Resolved, label: Callable[[int], str]
) -> None:
    """Write the trace, one event per line."""
    stream.write('{"displayTimeUnit": "ms", "traceEvents": [\n')
    for k, event in enumerate(trace_events(recording, resolved, label)):
        stream.write((",\n" if k else "") + json.dumps(event, separators=(",", ":")))
    stream.write("\n]}\n")


def trace_events(
    recording: Recording, resolved: Resolved, label: Callable[[int], str]
) -> Iterator[Event]:
    """Every event, names of processes and tracks first."""
    shown = min(len(recording.requests), MOST_TRACKS)
    yield _name("process_name", REQUESTS, 0, "Requests" + _rest(len(recording.requests), shown))
    for r in range(shown):
        yield _name("thread_name", REQUESTS, r + 1, label(r))
        yield _sorted(REQUESTS, r + 1)
    for k, replica in enumerate(resolved.replicas):
        yield _name("process_name", STEPS + k, 0, f"Steps of {replica.knobs.engine}, replica {k}")
        yield _name("thread_name", STEPS + k, 1, "step")
    yield from _steps(recording, resolved)
    yield from _waits(recording, shown)
    yield from _work(recording, shown)
    if len(recording.prefill_requests):
        yield from _transfers(recording, label, shown)


def _rest(total: int, shown: int) -> str:
    return f", the first {shown:,} of {total:,}" if shown < total else ""


def _name(what: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _sorted(pid: int, tid: int) -> Event:
    return {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid,
            "args": {"sort_index": tid}}  # fmt: skip


def _slice(name: str, pid: int, tid: int, start_s: float, stop_s: float, **args: Any) -> Event:
    begin, end = round(start_s * 1e6, 3), round(stop_s * 1e6, 3)
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": begin,
            "dur": round(max(end - begin, 0.0), 3), "args": args}  # fmt: skip


def _steps(recording: Recording, resolved: Resolved) -> Iterator[Event]:
    budgets = resolved.policy.max_num_batched_tokens.tolist()
    for s, step in enumerate(recording.steps):
        k, pid = int(step.replica), STEPS + int(step.replica)
        prefill, decodes = int(step.num_prefill_tokens), int(step.num_decodes)
        start, stop = float(step.start_s), float(step.start_s + step.duration_s)
        parts = [
            f"{prefill:,} prefill" if prefill else "",
            f"{decodes:,} decode" if decodes else "",
        ]
        name = f"step {s}: " + (" + ".join(filter(None, parts)) or "no tokens")
        yield _slice(
            name, pid, 1, start, stop,
            stopped_by=reasons.STOP_REASONS[step.stop_reason],
            unused_budget_tokens=budgets[k] - prefill - decodes,
            running=int(step.num_running), waiting=int(step.num_waiting),
            kv_blocks=int(step.kv_blocks),
        )  # fmt: skip
        for counter, values in (
            ("tokens of the step", {"prefill": prefill, "decode": decodes}),
            ("requests", {"running": int(step.num_running), "waiting": int(step.num_waiting)}),
            ("KV blocks", {"in use": int(step.kv_blocks)}),
        ):
            yield {"ph": "C", "name": counter, "pid": pid, "ts": round(start * 1e6, 3),
                   "args": values}  # fmt: skip


def _waits(recording: Recording, shown: int) -> Iterator[Event]:
    """From arrival to the first step, and from each preemption to the resumption."""
    first = recording.prefill_requests if len(recording.prefill_requests) else recording.requests
    for r, request in enumerate(recording.requests[:shown]):
        if request.status == reasons.REJECTED:
            at = float(request.arrival_s)
            yield _slice(f"rejected: {reasons.REJECTIONS[request.rejection]}",
                         REQUESTS, r + 1, at, at)  # fmt: skip
        elif np.isfinite(first.first_scheduled_s[r]):
            start, stop = float(request.arrival_s), float(first.first_scheduled_s[r])
            if stop > start:
                yield _slice("waiting", REQUESTS, r + 1, start, stop)
    since: dict[int, float] = {}
    for event in recording.events:
        r, t = int(event.request), float(recording.steps.start_s[event.step])
        if event.kind == reasons.PREEMPTION:
            since[r] = t
        elif event.kind in (reasons.RESUMED, reasons.ABORTED) and r in since:
            start = since.pop(r)
            if r < shown and t > start:
                yield _slice("preempted", REQUESTS, r + 1, start, t)


def _work(recording: Recording, shown: int) -> Iterator[Event]:
    """A slice for each request in each step: a chunk of its prompt, or a decode. Chunks on a
    prefill server are on the track of the request; its first token goes to the decode server."""
    step_of = np.repeat(np.arange(len(recording.steps)), recording.steps.num_items)
    num_prompt_tokens, users = recording.requests.num_prompt_tokens, len(recording.requests)
    for step, item in zip(step_of.tolist(), recording.items, strict=True):
        row, tokens = int(item.request), int(item.num_tokens)
        r = row % users
        if r >= shown:
            continue
        record = recording.steps[step]
        is_decode = item.num_needed == 1 and item.num_computed_tokens >= num_prompt_tokens[r]
        name = "decode" if is_decode else f"prefill {tokens:,}"
        yield _slice(
            name, REQUESTS, r + 1, float(record.start_s), float(record.start_s + record.duration_s),
            step=step, tokens=tokens, computed_before=int(item.num_computed_tokens),
            emits_a_token=bool(item.num_tokens == item.num_needed and row < users),
        )  # fmt: skip


def _transfers(recording: Recording, label: Callable[[int], str], shown: int) -> Iterator[Event]:
    """A KV transfer: a slice on the track of the request for the part after its prefill, a slice on
    the first free track of the sender, and arrows from the last step there to the first step at the
    receiver."""
    yield _name("process_name", TRANSFERS, 0, "KV transfers")
    ways = recording.kv_transfers[: len(recording.requests)]
    free_at: dict[int, list[float]] = {}
    tracks: dict[tuple[int, int], int] = {}
    moved = np.flatnonzero(np.isfinite(ways.end_s))
    for r in moved[np.argsort(ways.start_s[moved], kind="stable")].tolist():
        way = ways[r]
        source, target = int(way.source), int(way.target)
        start, stop = float(way.start_s), float(way.end_s)
        lanes = free_at.setdefault(source, [])
        lane = next((k for k, end in enumerate(lanes) if end <= start), len(lanes))
        lanes[lane:] = [stop, *lanes[lane + 1 :]]
        if (source, lane) not in tracks:
            tracks[source, lane] = len(tracks) + 1
            name = f"from replica {source}" + (f", {lane + 1}" if lane else "")
            yield _name("thread_name", TRANSFERS, tracks[source, lane], name)
        track = tracks[source, lane]
        yield _slice(
            f"KV of {label(r)} to replica {target}", TRANSFERS, track, start, stop,
            bytes=round(float(way.total_bytes)), tokens=int(way.num_tokens),
            descriptors=int(way.num_descriptors),
        )  # fmt: skip
        if r < shown and stop > max(start, float(way.prefill_end_s)):
            yield _slice("KV transfer", REQUESTS, r + 1, max(start, float(way.prefill_end_s)), stop)
        first_s = float(recording.requests.first_scheduled_s[r])
        ends_s = float(way.prefill_end_s)
        if np.isfinite(ends_s) and np.isfinite(first_s):
            arrow = (
                (STEPS + source, 1, ends_s),
                (TRANSFERS, track, stop),
                (STEPS + target, 1, first_s),
            )
            for (pid, tid, at), phase in zip(arrow, "stf", strict=True):
                yield {"ph": phase, "name": "KV", "cat": "KV", "id": r, "pid": pid, "tid": tid,
                       "ts": round(at * 1e6, 3), "bp": "e"}  # fmt: skip

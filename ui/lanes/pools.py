"""A cluster's recording as one lane can draw it: each server's steps contiguous, prefill requests
counted with their user's request, and the KV transfers between servers.

Pure functions: a Recording in, a Recording or arrays out."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim.cluster.cluster_state import LOAD_FAILED, LOAD_RECOMPUTED, PREFILLING
from sim.core.recording import Recording
from sim.core.requests import Table

TRANSFER_OUTCOMES = ("arrived", "lost")
ARRIVED, LOST = range(len(TRANSFER_OUTCOMES))


def by_server(recording: Recording, servers: Sequence[int] | None = None) -> Recording:
    """The same run with the steps of each server contiguous, in the order of `servers`. None: all
    of them; servers that are not listed are left out.

    Items and events of a prefill request become those of the user's request. Its last chunk emits a
    token only if the client receives that token: the first token came at the end of the prefill."""
    if len(recording.replica_blocks) == 1:
        return recording
    chosen = np.arange(len(recording.replica_blocks)) if servers is None else np.asarray(servers)
    rank = np.full(len(recording.replica_blocks), len(chosen))
    rank[chosen] = np.arange(len(chosen))
    order = np.argsort(rank[recording.steps.replica], kind="stable")
    order = order[rank[recording.steps.replica[order]] < len(chosen)]
    steps = recording.steps[order].copy()
    counts = steps.num_items.astype(np.int64)
    first = np.cumsum(counts) - counts
    gathered = np.repeat(steps.first_item - first, counts) + np.arange(int(counts.sum()))
    items = recording.items[gathered].copy()
    steps.first_item = first
    place = np.full(len(recording.steps), -1)
    place[order] = np.arange(len(order))
    requests = recording.requests.copy()
    if len(recording.prefill_requests):
        merge_prefill_requests(recording, items)
        requests.first_scheduled_s = recording.prefill_requests.first_scheduled_s
    return replace(
        recording,
        steps=steps,
        items=items,
        events=events_of(recording, steps, place),
        requests=requests,
    )


def merge_prefill_requests(recording: Recording, items: Table) -> None:
    """Assign items of prefill requests to their user's request, in place. A discarded token is not
    an output."""
    n = len(recording.requests)
    of_prefill = items.request >= n
    items.request[of_prefill] -= n
    kept = recording.requests.first_token_s == recording.kv_transfers.prefill_end_s[:n]
    items.num_needed[of_prefill & ~kept[items.request]] += 1


def events_of(recording: Recording, steps: Table, place: np.ndarray) -> Table:
    """The events of the chosen steps, in their new order; `steps` learns where its own begin."""
    n = len(recording.requests)
    known = recording.events[recording.events.step < len(place)]
    events = known[place[known.step] >= 0].copy()
    events.step = place[events.step]
    if len(recording.prefill_requests):
        events.request[events.request >= n] -= n
    events = events[np.argsort(events.step, kind="stable")]
    steps.first_event = np.searchsorted(events.step, np.arange(len(steps)))
    return events


def ranges(recording: Recording) -> list[list[int]]:
    """[first, last] step of each server whose steps lie together."""
    replica = recording.steps.replica
    if not len(replica):
        return []
    starts = np.flatnonzero(np.r_[True, replica[1:] != replica[:-1]])
    ends = np.r_[starts[1:], len(replica)] - 1
    return [[int(start), int(end)] for start, end in zip(starts, ends, strict=True)]


# --- the two pools --------------------------------------------------------------------------------


def prefill_pool(recording: Recording, servers: Sequence[int]) -> Recording:
    """What the prefill servers did: the rows are the of_prefill, a request each."""
    return replace(by_server(recording, servers), requests=recording.prefill_requests.copy())


def decode_pool(recording: Recording, servers: Sequence[int]) -> Recording:
    """What the decode servers did: a request arrives there when it was handed over."""
    pool = by_server(recording, servers)
    ways = recording.kv_transfers[: len(recording.requests)]
    requests = recording.requests.copy()
    here = np.fmin(ways.prefill_end_s, ways.start_s)
    never = (ways.target < 0) & (ways.stage <= PREFILLING)
    requests.arrival_s = np.where(never, np.nan, here)
    return replace(pool, requests=requests)


def kv_transfers(recording: Recording, shown: np.ndarray, t0: float) -> dict[str, np.ndarray]:
    """The transfers of the rows: row, from, until (seconds from t0), and how each ended."""
    empty = {name: np.zeros(0, np.uint8) for name in ("transfer_row", "transfer_outcome")}
    empty |= {name: np.zeros(0, np.float32) for name in ("transfer_start", "transfer_stop")}
    if not len(recording.prefill_requests):
        return empty
    ways = recording.kv_transfers[shown]
    began = np.flatnonzero(~np.isnan(ways.start_s))
    steps = recording.steps
    end = float((steps.start_s + steps.duration_s).max()) if len(steps) else 0.0
    stop = np.where(np.isnan(ways.end_s), np.fmax(end, ways.start_s), ways.end_s)
    lost = np.isin(ways.outcome, (LOAD_FAILED, LOAD_RECOMPUTED))
    return {
        "transfer_row": began.astype(np.uint8),
        "transfer_outcome": np.where(lost, LOST, ARRIVED)[began].astype(np.uint8),
        "transfer_start": (ways.start_s[began] - t0).astype(np.float32),
        "transfer_stop": (stop[began] - t0).astype(np.float32),
    }

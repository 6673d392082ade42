"""The metrics of a run: the summary of a Recording. Definitions: docs/metrics.md.

Everything is computed from columns of the recording; item records are not needed. Times are
seconds. An aborted request that emitted a token has a TTFT; TPOT and E2E are those of finished
requests.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.cluster.cluster_state import (
    FINISHED_AT_PREFILL,
    KV_ARRIVED,
    KV_UNUSED,
    LOAD_FAILED,
    LOAD_RECOMPUTED,
    MOVED,
    TOO_SHORT,
)
from sim.core import reasons
from sim.core.recording import Recording
from sim.core.requests import Table
from sim.latency import flops
from sim.scenario.load import Resolved, Slo
from sim.scenario.resolve import ResolvedReplica

__all__ = ["goodput", "itl_values", "percentile_block", "summary", "weighted_block"]

Floats = NDArray[np.float64]
PERCENTILES = (50, 90, 95, 99)


# --- percentiles ----------------------------------------------------------------------------------


def percentile_block(values: Floats) -> dict[str, float] | None:
    """Mean, percentiles (linear interpolation) and maximum; None for no values."""
    return weighted_block(values, np.ones(len(values), np.int64))


def weighted_block(values: Floats, counts: NDArray[np.int64]) -> dict[str, float] | None:
    """The same for `values[i]` repeated `counts[i]` times, without expanding them.

    Equal to numpy.percentile of np.repeat(values, counts): the k-th smallest of N is where the
    cumulative count exceeds k, and percentile q interpolates at k = q / 100 (N - 1)."""
    values, counts = values[counts > 0], counts[counts > 0]
    total = int(counts.sum())
    if total == 0:
        return None
    order = np.argsort(values, kind="stable")
    values, counts = values[order], counts[order]
    passed = np.cumsum(counts)
    block = {"mean": float((values * counts).sum() / total)}
    for q in PERCENTILES:
        place = q / 100 * (total - 1)
        below = int(place)
        low = values[np.searchsorted(passed, below, side="right")]
        high = values[np.searchsorted(passed, min(below + 1, total - 1), side="right")]
        block[f"p{q}"] = float(low + (high - low) * (place - below))
    block["max"] = float(values[-1])
    return block


# --- from the tables ------------------------------------------------------------------------------


def itl_values(recording: Recording) -> tuple[Floats, NDArray[np.int64]]:
    """Every inter-token gap of the run as (seconds, how often).

    A regular gap lasts from the end of its replica's previous step to the end of its own; the
    others are rows of recording.gaps.
    """
    steps = recording.steps
    by_replica = np.argsort(steps.replica, kind="stable")
    ends = (steps.start_s + steps.duration_s)[by_replica]
    since_previous = np.diff(ends, prepend=ends[:1])
    counts = steps.num_regular_gaps[by_replica].astype(np.int64)
    values = np.concatenate([since_previous, recording.gaps.seconds])
    return values, np.concatenate([counts, recording.gaps["count"]])


def ttft_s(requests: Table) -> Floats:
    """Arrival to first output token, nan without one."""
    return np.asarray(requests.first_token_s - requests.arrival_s)


def e2e_s(requests: Table) -> Floats:
    """Arrival to last output token; meaningful for finished requests."""
    return np.asarray(requests.last_token_s - requests.arrival_s)


def tpot_s(requests: Table) -> Floats:
    """(E2E - TTFT) / (output tokens - 1), nan for a single token."""
    gaps = np.maximum(requests.num_output_tokens - 1, 1)
    mean_gap = (requests.last_token_s - requests.first_token_s) / gaps
    return np.where(requests.num_output_tokens > 1, mean_gap, np.nan)


def goodput(requests: Table, slo: Slo) -> NDArray[np.bool_]:
    """Which requests finished and met every limit. A single output token has no gap and no TPOT."""
    values = {
        "ttft_s": ttft_s(requests),
        "e2e_s": e2e_s(requests),
        "tpot_s": np.nan_to_num(tpot_s(requests), nan=0.0),
        "itl_s": np.where(requests.num_output_tokens > 1, requests.max_gap_s, 0.0),
    }
    good = np.asarray(requests.status == reasons.FINISHED)
    for name, limit in slo.limits.items():
        good &= values[name] <= limit
    return good


def present(values: Floats) -> dict[str, float] | None:
    """A percentile block of the values that are not nan."""
    return percentile_block(values[~np.isnan(values)])


def counted(names: tuple[str, ...], codes: NDArray[np.int32]) -> dict[str, int]:
    """Count of each name that occurs, most frequent first."""
    counts = np.bincount(codes, minlength=len(names))
    return {names[k]: int(counts[k]) for k in np.argsort(-counts, kind="stable") if counts[k]}


# --- the summary ----------------------------------------------------------------------------------


def summary(recording: Recording, resolved: Resolved) -> dict[str, Any]:
    """All metrics of the run, in the shape and the order of `run --summary json`."""
    requests, steps = recording.requests, recording.steps
    duration = duration_s(recording)
    finished = requests[requests.status == reasons.FINISHED]
    rejected = requests[requests.status == reasons.REJECTED]
    output_tokens = int(requests.num_output_tokens.sum(dtype=np.int64))
    slo = resolved.scenario.slo
    good = int(goodput(requests, slo).sum()) if slo is not None and slo.limits else None
    utilisation = utilisations(recording, resolved, duration)
    return {
        "status": recording.status,
        "reason": recording.reason,
        "requests": len(requests),
        "finished": len(finished),
        "rejected": len(rejected),
        "rejected_reasons": counted(reasons.REJECTIONS, rejected.rejection),
        "aborted": int((requests.status == reasons.ABORTED_REQUEST).sum()),
        "failed": int((requests.status == reasons.FAILED).sum()),
        "duration_s": duration,
        "steps": len(steps),
        "output_tokens": output_tokens,
        "output_tokens_per_s": per_second(output_tokens, duration),
        "requests_per_s": per_second(len(finished), duration),
        "goodput_rps": None if good is None else per_second(good, duration),
        "ttft_s": present(ttft_s(requests)),
        "itl_s": weighted_block(*itl_values(recording)),
        "tpot_s": present(tpot_s(finished)),
        "e2e_s": present(e2e_s(finished)),
        "queue_s": present(queue_s(recording)),
        "preemptions": with_prefill_requests(recording, "num_preemptions"),
        "recomputed_tokens": with_prefill_requests(recording, "recomputed_tokens"),
        "swapped_bytes": sum(
            swapped_bytes(row, steps_of(recording, k, len(resolved.replicas)))
            for k, row in enumerate(resolved.latency)
        ),
        "prefix_hit_tokens": prefix_hit_tokens(recording),
        "padding_tokens": int(steps.num_padding_tokens.sum(dtype=np.int64)),
        "kv_peak_fraction": float((recording.replica_peaks / recording.replica_blocks).max()),
        "running_peak": int(steps.num_running.max(initial=0)),
        "compute_utilisation": utilisation[0],
        "bandwidth_utilisation": utilisation[1],
        "stop_reasons": counted(reasons.STOP_REASONS, steps.stop_reason),
        "expected_error": expected_error(resolved),
        "replicas": [
            replica_summary(recording, k, replica, duration)
            for k, replica in enumerate(resolved.replicas)
        ],
        **transfers(recording),
    }


def expected_error(resolved: Resolved) -> float | None:
    """The largest expected error of the kinds of servers, None without any."""
    errors = [replica.expected_error for replica in resolved.replicas]
    return max((error for error in errors if error is not None), default=None)


def with_prefill_requests(recording: Recording, column: str) -> int:
    """A sum over all requests, prefill requests included."""
    return int(
        recording.requests[column].sum(dtype=np.int64)
        + recording.prefill_requests[column].sum(dtype=np.int64)
    )


def queue_s(recording: Recording) -> Floats:
    """Arrival to its first step, nan without one: under disaggregation the first prefill step."""
    first = recording.prefill_requests if len(recording.prefill_requests) else recording.requests
    return np.asarray(first.first_scheduled_s - recording.requests.arrival_s)


def prefix_hit_tokens(recording: Recording) -> int:
    """Prompt tokens that were not computed because their KV was cached: in the prefix cache of the
    server that computed the rest, or in the KV store."""
    if len(recording.prefill_requests) == 0:
        return int(recording.requests.hit_tokens.sum(dtype=np.int64))
    stored = recording.kv_transfers[len(recording.requests) :]
    fetched = int(stored.num_tokens[stored.outcome == MOVED].sum())
    return int(recording.prefill_requests.hit_tokens.sum(dtype=np.int64)) + fetched


def transfers(recording: Recording) -> dict[str, Any]:
    """Metrics of disaggregated serving: KV transfers from prefill to decode servers.

    kv_transfer_s: from the start of a transfer, its blocks reserved, to its end."""
    ways = recording.kv_transfers[: len(recording.requests)]
    moved = ways[(ways.outcome == MOVED) & ~np.isnan(ways.end_s)]
    lost = np.isin(ways.outcome, (LOAD_FAILED, LOAD_RECOMPUTED))
    arrived = np.concatenate([moved, ways[lost]]).view(np.recarray)
    over = ways[ways.stage >= KV_ARRIVED]
    return {
        "kv_transfers": len(arrived),
        "kv_transfer_bytes": round(float(arrived.total_bytes.sum())),
        "kv_transfer_s": percentile_block(np.asarray(arrived.end_s - arrived.start_s)),
        "recomputed_prefills": int(np.isin(ways.outcome, (KV_UNUSED, LOAD_RECOMPUTED)).sum()),
        "finished_at_prefill": int((over.outcome == FINISHED_AT_PREFILL).sum()),
        "too_short_to_transfer": int((ways.outcome == TOO_SHORT).sum()),
    }


def swapped_bytes(row: Any, steps: Table) -> int:
    """KV swapped to host memory and back, over all GPUs of a replica."""
    blocks = steps.swapped_out_blocks.sum(dtype=np.int64)
    blocks += steps.swapped_in_blocks.sum(dtype=np.int64)
    return int(blocks * row.swap_block_bytes * row.num_gpus)


def duration_s(recording: Recording) -> float:
    """First arrival to the end of the last step; 0 without a step."""
    if len(recording.steps) == 0:
        return 0.0
    last = float((recording.steps.start_s + recording.steps.duration_s).max())
    return last - float(recording.requests.arrival_s.min())


def per_second(count: int, duration: float) -> float:
    return count / duration if duration > 0 else 0.0


def utilisations(
    recording: Recording, resolved: Resolved, duration: float
) -> tuple[float | None, float | None]:
    """Share of the GPUs' peak FLOP/s and bytes/s used by the useful work of the run.

    None where no model or no GPU is named.
    """
    if any(replica.model is None or replica.gpu is None for replica in resolved.replicas):
        return None, None
    if duration <= 0:
        return 0.0, 0.0
    done, moved, peak_flops, peak_bytes = 0.0, 0.0, 0.0, 0.0
    for k, row in enumerate(resolved.latency):
        steps = steps_of(recording, k, len(resolved.replicas))
        done += float(flops.model_flop(row, steps).sum())
        moved += float(flops.model_bytes(row, steps).sum())
        peak_flops += float(row.num_gpus * row.peak_flops)
        peak_bytes += float(row.num_gpus * row.bandwidth)
    return done / (peak_flops * duration), moved / (peak_bytes * duration)


def steps_of(recording: Recording, k: int, num_replicas: int) -> Table:
    """The steps of one replica; no copy where there is only one."""
    return recording.steps if num_replicas == 1 else recording.steps[recording.steps.replica == k]


def replica_summary(
    recording: Recording, k: int, replica: ResolvedReplica, duration: float
) -> dict[str, Any]:
    """The metrics of one server."""
    steps = steps_of(recording, k, len(recording.replica_blocks))
    busy = float(steps.duration_s.sum())
    return {
        "role": replica.replica.role,
        "gpu": replica.gpu.name if replica.gpu else None,
        "engine": replica.knobs.engine,
        "steps": len(steps),
        "busy_fraction": busy / duration if duration > 0 else 0.0,
        "kv_peak_fraction": float(recording.replica_peaks[k] / recording.replica_blocks[k]),
    }

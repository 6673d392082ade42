"""Files of a run: steps.csv, requests.csv, the scenario file. Commands of the servers:
serve_flags.py.

Units are in the header names: _s seconds, everything else counts or tokens.
"""

import csv
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from sim.cluster.cluster_state import NOTHING_MOVED, OUTCOMES
from sim.core import reasons
from sim.core.recording import Recording
from sim.latency.model import ROOFLINE, TERMS, terms
from sim.results import metrics
from sim.results.serve_flags import sglang_server_flags, trtllm_serve_files, vllm_serve_flags
from sim.scenario.load import Resolved, Scenario

__all__ = [
    "request_rows",
    "sglang_server_flags",
    "step_rows",
    "trtllm_serve_files",
    "vllm_serve_flags",
    "write_csv",
    "write_trace",
]

STEP_COLUMNS = (
    "step",
    "replica",
    "start_s",
    "duration_s",
    "prefill_tokens",
    "decode_tokens",
    "prefill_chunks",
    "tokens_emitted",
    "budget_tokens",
    "unused_budget_tokens",
    "stop_reason",
    "padding_tokens",
    "running_requests",
    "waiting_requests",
    "preempted_requests",
    "swapped_out_blocks",
    "swapped_in_blocks",
    "kv_blocks",
    "kv_fraction",
)
REQUEST_COLUMNS = (
    "request",
    "name",
    "class",
    "arrival_s",
    "prompt_tokens",
    "max_tokens",
    "output_tokens",
    "priority",
    "status",
    "finish_reason",
    "rejection",
    "queue_s",
    "ttft_s",
    "tpot_s",
    "largest_itl_s",
    "e2e_s",
    "first_scheduled_s",
    "first_token_s",
    "last_token_s",
    "end_s",
    "preemptions",
    "recomputed_tokens",
    "prefix_hit_tokens",
    "meets_slo",
    "prefill_server",
    "decode_server",
    "kv_transfer_s",
    "kv_transfer_bytes",
    "kv_outcome",
)

Row = Sequence[Any]


def step_rows(recording: Recording, resolved: Resolved) -> Iterator[Row]:
    """One row per step, in the order of STEP_COLUMNS, followed by the seconds by cause under a
    roofline."""
    roofline = has_breakdown(resolved)
    budgets = resolved.policy.max_num_batched_tokens.tolist()
    blocks = (resolved.policy.num_gpu_blocks - 1).tolist()
    for s, step in enumerate(recording.steps):
        k = int(step.replica)
        tokens = int(step.num_prefill_tokens) + int(step.num_decodes)
        row = (
            s,
            k,
            float(step.start_s),
            float(step.duration_s),
            int(step.num_prefill_tokens),
            int(step.num_decodes),
            int(step.num_chunks),
            int(step.num_sampled) - int(step.num_padding_rows),
            budgets[k] or None,
            budgets[k] - tokens if budgets[k] else None,
            reasons.STOP_REASONS[step.stop_reason],
            int(step.num_padding_tokens),
            int(step.num_running),
            int(step.num_waiting),
            int(step.num_preempted),
            int(step.swapped_out_blocks),
            int(step.swapped_in_blocks),
            int(step.kv_blocks),
            int(step.kv_blocks) / blocks[k],
        )
        yield (*row, *map(float, terms(resolved.latency[k], step))) if roofline else row


def has_breakdown(resolved: Resolved) -> bool:
    return all(row.kind == ROOFLINE for row in resolved.latency)


def step_columns(resolved: Resolved) -> tuple[str, ...]:
    """STEP_COLUMNS, and the causes of a step's time under a roofline."""
    causes = tuple(f"{term}_s" for term in TERMS) if has_breakdown(resolved) else ()
    return STEP_COLUMNS + causes


def request_rows(
    recording: Recording,
    resolved: Resolved,
    label: Callable[[int], str],
    class_names: Sequence[str],
) -> Iterator[Row]:
    """One row per request, in the order of REQUEST_COLUMNS. Empty: it did not happen."""
    requests, slo = recording.requests, resolved.scenario.slo
    good = metrics.goodput(requests, slo).tolist() if slo is not None else [None] * len(requests)
    finished = requests.status == reasons.FINISHED
    several = requests.num_output_tokens > 1
    columns: list[Iterable[Any]] = [
        range(len(requests)),
        map(label, range(len(requests))),
        (class_names[k] for k in requests.class_id.tolist()),
        optional(requests.arrival_s),
        requests.num_prompt_tokens.tolist(),
        requests.max_tokens.tolist(),
        requests.num_output_tokens.tolist(),
        requests.priority.tolist(),
        (reasons.STATUSES[k] for k in requests.status.tolist()),
        (reasons.FINISH_REASONS[k] if k else None for k in requests.finish_reason.tolist()),
        (reasons.REJECTIONS[k] if k else None for k in requests.rejection.tolist()),
        optional(metrics.queue_s(recording)),
        optional(metrics.ttft_s(requests)),
        optional(np.where(finished, metrics.tpot_s(requests), np.nan)),
        optional(np.where(several, requests.max_gap_s, np.nan)),
        optional(np.where(finished, metrics.e2e_s(requests), np.nan)),
        optional(requests.first_scheduled_s),
        optional(requests.first_token_s),
        optional(requests.last_token_s),
        optional(requests.end_s),
        requests.num_preemptions.tolist(),
        requests.recomputed_tokens.tolist(),
        requests.hit_tokens.tolist(),
        good,
        *transfer_columns(recording),
    ]
    return zip(*columns, strict=True)


def transfer_columns(recording: Recording) -> list[list[Any]]:
    """The KV transfer of each request; all columns empty without one."""
    count = len(recording.requests)
    if len(recording.prefill_requests) == 0:
        return [[None] * count] * 5
    ways = recording.kv_transfers[:count]
    ended = np.isfinite(ways.end_s)
    return [
        [k if k >= 0 else None for k in ways.source.tolist()],
        [k if k >= 0 else None for k in ways.target.tolist()],
        optional(ways.end_s - ways.start_s),
        optional(np.where(ended, ways.total_bytes, np.nan)),
        [OUTCOMES[k] if k != NOTHING_MOVED else None for k in ways.outcome.tolist()],
    ]


def optional(values: Any) -> list[float | None]:
    """nan and inf as None: an empty cell."""
    array = np.asarray(values, np.float64)
    return [
        value if finite else None
        for value, finite in zip(array.tolist(), np.isfinite(array), strict=True)
    ]


def write_csv(stream: TextIO, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """A table with a header line. Text that a spreadsheet would run as a formula is quoted."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([cell(value) for value in row] for row in rows)


def cell(value: Any) -> Any:
    """A value as written to a file: at most nine decimals; booleans as true and false."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.9f}".rstrip("0").rstrip(".")
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value


def write_trace(
    folder: Path,
    recording: Recording,
    resolved: Resolved,
    label: Callable[[int], str],
    class_names: Sequence[str],
    base_folder: Path | None = None,
) -> tuple[Path, Path, Path]:
    """Write steps.csv, requests.csv and scenario.json to `folder`, which is created. Returns their
    paths. `base_folder`: the folder of the scenario file; paths in the copy are relative to the
    copy."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "steps.csv", folder / "requests.csv", folder / "scenario.json"
    with paths[0].open("w", encoding="utf-8", newline="") as stream:
        write_csv(stream, step_columns(resolved), step_rows(recording, resolved))
    with paths[1].open("w", encoding="utf-8", newline="") as stream:
        rows = request_rows(recording, resolved, label, class_names)
        write_csv(stream, REQUEST_COLUMNS, rows)
    scenario = moved(resolved.scenario, base_folder, folder) if base_folder else resolved.scenario
    paths[2].write_text(scenario.to_json(), encoding="utf-8")
    return paths


def moved(scenario: Scenario, old: Path, new: Path) -> Scenario:
    """A scenario of folder `old` for folder `new`: the path of its trace file is adapted."""
    if scenario.workload.file is None:
        return scenario
    file = os.path.relpath((old / scenario.workload.file).resolve(), new.resolve())
    workload = scenario.workload.model_copy(update={"file": Path(file).as_posix()})
    return scenario.model_copy(update={"workload": workload})

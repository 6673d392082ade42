"""What a reader takes home: steps.csv, requests.csv, the scenario file, the flags for `vllm serve`.

Units stand in the header names: _s seconds, everything else counts or tokens.
"""

import csv
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from sim import metrics, reasons
from sim.knobs import Sglang, TensorRtLlm, VllmV0, VllmV1
from sim.latency import ROOFLINE, TERMS, terms
from sim.scenario import Resolved, free_fraction
from sim.trace import Trace

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
)

Row = Sequence[Any]


def step_rows(trace: Trace, resolved: Resolved) -> Iterator[Row]:
    """One row a step, in the order of STEP_COLUMNS; the seconds by cause follow under a
    roofline."""
    roofline = has_breakdown(resolved)
    budgets = resolved.policy.max_num_batched_tokens.tolist()
    blocks = (resolved.policy.num_gpu_blocks - 1).tolist()
    for s, step in enumerate(trace.steps):
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
    trace: Trace, resolved: Resolved, label: Callable[[int], str], class_names: Sequence[str]
) -> Iterator[Row]:
    """One row a request, in the order of REQUEST_COLUMNS. Empty: it never came to that."""
    requests, slo = trace.requests, resolved.scenario.slo
    good = metrics.goodput(requests, slo).tolist() if slo is not None else [None] * len(requests)
    finished = requests.status == reasons.FINISHED
    several = requests.num_outputs > 1
    columns: list[Iterable[Any]] = [
        range(len(requests)),
        map(label, range(len(requests))),
        (class_names[k] for k in requests.class_id.tolist()),
        optional(requests.arrival_s),
        requests.prompt_len.tolist(),
        requests.max_tokens.tolist(),
        requests.num_outputs.tolist(),
        requests.priority.tolist(),
        (reasons.STATUSES[k] for k in requests.status.tolist()),
        (reasons.FINISH_REASONS[k] if k else None for k in requests.finish_reason.tolist()),
        (reasons.REJECTIONS[k] if k else None for k in requests.rejection.tolist()),
        optional(requests.first_scheduled_s - requests.arrival_s),
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
    ]
    return zip(*columns, strict=True)


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
    """A value as it stands in a file: at most nine decimals; true and false in words."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.9f}".rstrip("0").rstrip(".")
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return value


def write_trace(
    folder: Path,
    trace: Trace,
    resolved: Resolved,
    label: Callable[[int], str],
    class_names: Sequence[str],
) -> tuple[Path, Path, Path]:
    """steps.csv, requests.csv and scenario.json in `folder`, which is made. Returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "steps.csv", folder / "requests.csv", folder / "scenario.json"
    with paths[0].open("w", encoding="utf-8", newline="") as stream:
        write_csv(stream, step_columns(resolved), step_rows(trace, resolved))
    with paths[1].open("w", encoding="utf-8", newline="") as stream:
        rows = request_rows(trace, resolved, label, class_names)
        write_csv(stream, REQUEST_COLUMNS, rows)
    paths[2].write_text(resolved.scenario.to_json(), encoding="utf-8")
    return paths


def vllm_serve_flags(resolved: Resolved) -> str:
    """The command that starts this server, derived values written out but for the KV pool, which
    the server measures itself. ValueError where the scenario names no model, or not vLLM."""
    replica = resolved.replicas[0]
    if replica.model is None:
        raise ValueError("the scenario names no model, so there is nothing to serve")
    if not isinstance(replica.knobs, VllmV0 | VllmV1):
        raise ValueError(f"vllm serve does not start a server of {replica.knobs.engine}")
    asked = replica.replica
    blocks = None if "num_gpu_blocks" in replica.derived else replica.num_gpu_blocks
    flags = [
        f"--tensor-parallel-size {asked.tp}",
        f"--gpu-memory-utilization {asked.gpu_memory_utilization:g}",
        *replica.knobs.model_copy(update={"num_gpu_blocks": blocks}).serve_flags(),
    ]
    if asked.kv_cache_dtype != "auto":
        flags.append(f"--kv-cache-dtype {asked.kv_cache_dtype}")
    if replica.precision == "fp8":
        flags.append("--quantization fp8")
    name = shlex.quote(asked.model or replica.model.name)
    return " \\\n    ".join([f"{replica.knobs.server} {name}", *flags])


def trtllm_serve_files(resolved: Resolved) -> tuple[str, str]:
    """(the command that starts this server, the content of its extra_llm_api_options.yaml); the
    server measures the KV pool itself where it was left open. ValueError where the scenario names
    no model, or not TensorRT-LLM."""
    replica = resolved.replicas[0]
    if replica.model is None:
        raise ValueError("the scenario names no model, so there is nothing to serve")
    if not isinstance(replica.knobs, TensorRtLlm):
        raise ValueError(f"trtllm-serve does not start a server of {replica.knobs.engine}")
    asked = replica.replica
    knobs = replica.knobs
    if "num_blocks" in replica.derived:
        knobs = knobs.model_copy(update={"num_blocks": None})
    flags = [
        f"--tp_size {asked.tp}",
        *knobs.serve_flags(),
        "--extra_llm_api_options extra_llm_api_options.yaml",
    ]
    options = knobs.serve_yaml(free_gpu_memory_fraction=free_fraction(asked) or 1.0)
    if asked.kv_cache_dtype != "auto":
        options += f"  dtype: {asked.kv_cache_dtype}\n"
    name = shlex.quote(asked.model or replica.model.name)
    return " \\\n    ".join([f"{knobs.server} {name}", *flags]), options


def sglang_server_flags(resolved: Resolved) -> str:
    """The command that starts this server, with the overlap schedule off as in the rule simulated.
    ValueError where the scenario names no model, or not SGLang."""
    replica = resolved.replicas[0]
    if replica.model is None:
        raise ValueError("the scenario names no model, so there is nothing to serve")
    if not isinstance(replica.knobs, Sglang):
        raise ValueError(f"sglang does not start a server of {replica.knobs.engine}")
    asked = replica.replica
    knobs = replica.knobs
    if "max_total_tokens" in replica.derived:
        knobs = knobs.model_copy(update={"max_total_tokens": None})
    flags = [
        f"--tp-size {asked.tp}",
        f"--mem-fraction-static {asked.gpu_memory_utilization:g}",
        *knobs.serve_flags(),
        "--disable-overlap-schedule",
    ]
    if asked.kv_cache_dtype != "auto":
        flags.append("--kv-cache-dtype fp8_e4m3")
    if replica.precision == "fp8":
        flags.append("--quantization fp8")
    name = shlex.quote(asked.model or replica.model.name)
    return " \\\n    ".join([f"{knobs.server} {name}", *flags])

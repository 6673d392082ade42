"""Predicted step times beside those of a table: `python -m sim latency`.

Columns: gpu, model, precision, tp, phase, tokens, batch, context, and latency_ms where known.
Phases:

    prefill                     `batch` prompts of `tokens` tokens each, whole, in one step
    prefill_chunk512_on_prefix  `tokens` tokens of one prompt, after `context` tokens in KV
    decode                      `batch` sequences with `context` tokens in KV, one token each
    mixed_chunk                 `batch` decodes with 1,024 tokens in KV, and tokens - batch prompt
                                tokens with the attention of whole prompts of 1,024 tokens

Such tables hold GPU time, so the prediction leaves out the host's share of a step.
"""

import csv
import math
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

import numpy as np

from sim.hardware import catalog
from sim.latency import inputs as latency_inputs
from sim.latency.model import load, step_seconds

__all__ = ["errors_by_group", "predict_ms", "predict_table"]

NEEDED = ("gpu", "model", "precision", "tp", "phase", "tokens", "batch", "context")
MIXED_PROMPT = 1024
Row = Mapping[str, str]


def predict_ms(row: Row) -> float:
    """Predicted milliseconds of one row. ValueError names what is unknown."""
    precision = catalog.precision(row["precision"])
    model, gpu = catalog.model(row["model"]), catalog.gpu(row["gpu"])
    tp = whole(row, "tp")
    if tp < 1:
        raise ValueError(f"tp is {tp}; must be at least 1")
    if model.num_heads % tp:
        raise ValueError(
            f"tp is {tp}; the {model.num_heads} attention heads of {model.name} cannot be divided "
            "by it"
        )
    latency = latency_inputs.roofline(model, gpu, precision, tp, precision)
    latency.host_s = 0.0
    return 1e3 * float(step_seconds(latency, step_of(row)))


def whole(row: Row, column: str) -> int:
    """A cell as a whole number; `1.0` is one."""
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value == int(value) and 0 <= value < 2**31):
        raise ValueError(f"{column} is {row[column]!r}; must be a whole number")
    return int(value)


def step_of(row: Row) -> Any:
    """The load of the step that a row describes, as a row of recording.STEP."""
    phase = row["phase"]
    if phase not in ("prefill", "prefill_chunk512_on_prefix", "decode", "mixed_chunk"):
        raise ValueError(f"unknown phase {phase!r}")
    tokens, batch, context = whole(row, "tokens"), whole(row, "batch"), whole(row, "context")
    if phase == "decode":
        return load(num_decodes=batch, num_sampled=batch, decode_context=batch * context)
    if phase == "mixed_chunk":
        return mixed(tokens - batch, batch)
    prompts, start = (batch, 0) if phase == "prefill" else (1, context)
    return load(
        num_prefill_tokens=prompts * tokens,
        num_chunks=prompts,
        num_sampled=prompts,
        prefill_context=prompts * (start + tokens),
        prefill_pairs=prompts * tokens * (start + tokens / 2),
    )


def mixed(prompt_tokens: int, decodes: int) -> Any:
    """Decodes beside prompt tokens, whose attention counts as that of whole prompts of 1,024."""
    if prompt_tokens < 1:
        raise ValueError("a mixed step needs more tokens than decodes")
    if prompt_tokens > MIXED_PROMPT:
        prompts: float = -(-prompt_tokens // MIXED_PROMPT)
    else:
        prompts = 1 / -(-MIXED_PROMPT // prompt_tokens)
    return load(
        num_prefill_tokens=prompt_tokens,
        num_decodes=decodes,
        num_chunks=1,
        num_sampled=decodes + 1,
        decode_context=decodes * MIXED_PROMPT,
        prefill_context=int(prompts * MIXED_PROMPT),
        prefill_pairs=prompts * MIXED_PROMPT * MIXED_PROMPT / 2,
    )


def predict_table(source: TextIO, target: TextIO) -> tuple[list[str], list[dict[str, Any]]]:
    """Copy a CSV and add predicted_ms, empty where something is unknown.

    Returns the notes on empty cells, one per reason, and the rows that have both numbers. Raises
    ValueError if columns are missing."""
    reader = csv.DictReader(source, restval="")
    columns = list(reader.fieldnames or ())
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise ValueError(f"columns missing: {', '.join(missing)}; found: {', '.join(columns)}")
    writer = csv.DictWriter(
        target,
        [*(name for name in columns if name != "predicted_ms"), "predicted_ms"],
        extrasaction="ignore",
        lineterminator="\n",
    )
    writer.writeheader()
    reasons: dict[str, list[int]] = {}
    odd: list[int] = []  # lines of decode rows that do not have one token per sequence
    compared = []
    for row in reader:
        try:
            predicted = predict_ms(row)
        except ValueError as error:
            reasons.setdefault(str(error), []).append(reader.line_num)
            writer.writerow({**row, "predicted_ms": ""})
            continue
        writer.writerow({**row, "predicted_ms": f"{predicted:.6g}"})
        if row["phase"] == "decode" and whole(row, "tokens") != whole(row, "batch"):
            odd.append(reader.line_num)
        given = measured_ms(row)
        if given is not None:
            compared.append({**row, "error": predicted / given - 1})
    notes = [f"{len(lines)} rows empty, from line {lines[0]}: {r}" for r, lines in reasons.items()]
    if odd:
        notes.append(
            f"{len(odd)} decode rows, from line {odd[0]}, whose tokens are not their batch: a "
            "decode has one token per sequence, so batch was used"
        )
    return notes, compared


def measured_ms(row: Row) -> float | None:
    """latency_ms where it is given."""
    try:
        value = float(row.get("latency_ms") or "nan")
    except ValueError:
        return None
    return value if value > 0 and math.isfinite(value) else None


def errors_by_group(compared: Iterable[Mapping[str, Any]]) -> list[str]:
    """One line per source, GPU and precision: rows, mean absolute error, 90th percentile, bias."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for row in compared:
        where = catalog.gpu(row["gpu"]).name, catalog.precision(row["precision"])
        groups.setdefault((*where, row.get("source", "")), []).append(row["error"])
    lines = []
    for (gpu, precision, source), values in sorted(groups.items()):
        errors = np.array(values)
        origin = f" ({source})" if source else ""
        lines.append(
            f"{gpu} {precision}: {len(errors)} rows, mean absolute error "
            f"{np.abs(errors).mean():.1%}, p90 {np.quantile(np.abs(errors), 0.9):.1%}, "
            f"bias {errors.mean():+.1%}{origin}"
        )
    return lines

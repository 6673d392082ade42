"""The sentences and tables of the page; every figure is computed."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from sim.hardware import catalog
from sim.latency import inputs as latency_inputs
from sim.latency.efficiency import efficiency
from sim.latency.roofline import (
    Point,
    decode_step,
    knee_tokens,
    mixed_step,
    operating_point,
    prefill_step,
)
from ui.text import units
from ui.two_phases.form import precisions

# --- sentences ------------------------------------------------------------------------------------


def headline(prefill: Point, decode: Point, row: Any) -> str:
    peak = row.num_gpus * row.peak_flops
    return (
        f"{units.count(prefill.tokens)} prompt tokens take "
        f":blue[**{units.seconds(prefill.seconds)}**] and use {prefill.flop_per_s / peak:.0%} of "
        f"the peak compute; {units.count(decode.tokens)} decode tokens take "
        f":green[**{units.seconds(decode.seconds)}**] and use {decode.flop_per_s / peak:.1%} of "
        f"it. A decode token costs "
        f"**{decode.seconds_per_token / prefill.seconds_per_token:,.0f} times** a prompt token."
    )


def piggyback(prefill: Point, decode: Point, together: Point) -> str:
    separate = prefill.seconds + decode.seconds
    return (
        f"Chunk alone {units.seconds(prefill.seconds)}, decodes alone "
        f"{units.seconds(decode.seconds)}, together :green[**{units.seconds(together.seconds)}**]: "
        f"sharing saves {units.seconds(separate - together.seconds)} "
        f"({1 - together.seconds / separate:.0%}), since the weights are read once for both. The "
        f"decodes add {units.seconds(together.seconds - prefill.seconds)} to the chunk, and wait "
        f"{units.seconds(together.seconds - decode.seconds)} longer than alone."
    )


def derivation(
    model: catalog.Model,
    precision: str,
    tp: int,
    row: Any,
    batch: int,
    context: int,
    decode: Point,
) -> str:
    weight = catalog.WEIGHT_BYTES[precision]
    kv = row.num_gpus * row.kv_bytes_per_token
    flop = row.num_gpus * row.attention_flop_per_pair
    return (
        f"A linear layer does 2 FLOP per weight and token, and reads a weight of {weight:.3g} "
        f"bytes once per step: **2 x {units.count(batch)} / {weight:.3g} = "
        f"{2 * batch / weight:,.1f} FLOP per byte**, growing with the tokens of the "
        f"step. Attention of a decode does "
        f"{flop / 1e3:,.0f} kFLOP for each token of context and reads {kv / 1e3:,.1f} kB of KV for "
        f"it: **{flop / kv:,.1f} FLOP per byte** whatever the batch (grouped-query attention "
        f"shares each KV head among {model.num_heads // model.num_kv_heads} query heads). "
        f"Together, with {units.count(batch)} decodes at {units.count(context)} tokens on {tp} GPU"
        f"{'s' if tp > 1 else ''}: **{decode.intensity:,.1f} FLOP per byte**."
    )


def claim(row: Any, context: int) -> str:
    alone, crowd = (
        operating_point("decode", row, decode_step(batch, context)) for batch in (1, 256)
    )
    verdict = "holds" if alone.intensity < 1 else "does not hold"
    return (
        f"At batch 1 a step does {alone.intensity:.2f} FLOP per byte here, so the claim {verdict} "
        f"for one request; at batch 256 it is {crowd.intensity:,.0f}. The ridge of this GPU lies "
        f"at {row.peak_flops / row.bandwidth:,.0f}: far from compute-bound either way."
    )


def freeze(row: Any, model: catalog.Model, gpu: catalog.Gpu, context: int) -> str:
    step = mixed_step(4096, 32, context)
    whole = operating_point("together", row, step)
    usual = operating_point("decode", row, decode_step(32, context))
    chunk = operating_point("together", row, mixed_step(512, 32, context, start=3584))
    return (
        f"{model.name} on {gpu.title}: computed whole, every stream waits "
        f":orange[**{units.seconds(whole.seconds)}**] for its next token instead of "
        f"{units.seconds(usual.seconds)}. In chunks of 512 the longest of its eight steps takes "
        f":green[**{units.seconds(chunk.seconds)}**]."
    )


def card(model: catalog.Model, gpu: catalog.Gpu, precision: str) -> str:
    known = efficiency(gpu.name, precision)
    lines = [
        f"**{known.kind}** for {gpu.title} in {precision}: mean absolute error of a step "
        f"{known.mean_error:.1%}, 90th percentile {known.p90_error:.1%}"
        + (f", on models left out {known.left_out_error:.1%}" if known.left_out_error else "")
        + f"; {known.num_rows:,} rows. Source: {known.source}.",
        "",
        "| constant | value |",
        "|---|---|",
        *(f"| {name} | {value:g} |" for name, value in known.constants.items()),
        "",
        f"Model: {model.source}.",
        "",
        *(f"- {name}: {source}" for name, source in gpu.sources.items()),
    ]
    return "\n".join(lines)


# --- tables, and texts in place of the figures ----------------------------------------------------


def table(points: Sequence[Point]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "step": [point.name for point in points],
            "tokens": [point.tokens for point in points],
            "ms": [round(1e3 * point.seconds, 2) for point in points],
            "ms per token": [round(1e3 * point.seconds_per_token, 4) for point in points],
            "GFLOP": [round(point.flop / 1e9, 1) for point in points],
            "GB moved": [round(point.bytes / 1e9, 2) for point in points],
            "FLOP per byte": [round(point.intensity, 2) for point in points],
            "TFLOP/s": [round(point.flop_per_s / 1e12, 2) for point in points],
            "linear layers bound by": [point.parts.bound for point in points],
        }
    )


def side_by_side(
    model: catalog.Model,
    gpus: Sequence[catalog.Gpu],
    precision: str,
    tp: int,
    tokens: int,
    batch: int,
    context: int,
) -> pd.DataFrame:
    """The same steps on several GPUs; a precision that one lacks falls back to bf16 there."""
    rows = []
    for gpu in gpus:
        used = precision if precision in precisions(gpu) else "bf16"
        row = latency_inputs.roofline(model, gpu, used, tp, "auto")
        known = efficiency(gpu.name, used)
        prefill = operating_point("prefill", row, prefill_step(tokens))
        decode = operating_point("decode", row, decode_step(batch, context))
        rows.append(
            {
                "GPU": gpu.title,
                "weights": used,
                f"prefill of {tokens:,}, ms": round(1e3 * prefill.seconds, 1),
                f"decode of {batch:,}, ms": round(1e3 * decode.seconds, 2),
                "knee, tokens": round(knee_tokens(row)),
                "peak TFLOP/s": round(row.num_gpus * row.peak_flops / 1e12),
                "TB/s": round(row.num_gpus * row.bandwidth / 1e12, 2),
                "figures": known.kind,
                "expected error of a step": f"{known.left_out_error or known.mean_error:.1%}",
            }
        )
    return pd.DataFrame(rows)


def roofline_text(points: Sequence[Point], row: Any) -> str:
    ridge = row.peak_flops / row.bandwidth
    places = "; ".join(
        f"{p.name} at {p.intensity:,.1f} FLOP per byte and {p.flop_per_s / 1e12:,.1f} TFLOP/s"
        for p in points
    )
    return f"Roofline with its ridge at {ridge:,.0f} FLOP per byte. {places}."


def parts_text(points: Sequence[Point]) -> str:
    return " ".join(
        f"{p.name}: {units.seconds(p.seconds)}, "
        + ", ".join(f"{name} {1e3 * s:.1f} ms" for name, s in p.parts.seconds.items() if s > 0)
        + "."
        for p in points
    )


def per_token_text(
    decodes: Sequence[tuple[int, Point]], prompts: Sequence[tuple[int, Point]], knee: float
) -> str:
    return (
        f"Time per token: decode batch 1 {1e3 * decodes[0][1].seconds_per_token:.2f} ms, batch "
        f"{decodes[-1][0]} {1e3 * decodes[-1][1].seconds_per_token:.3f} ms; prompt of "
        f"{prompts[-1][0]:,} tokens {1e3 * prompts[-1][1].seconds_per_token:.3f} ms. Linear layers "
        f"are bound by compute from {knee:,.0f} tokens on."
    )

"""The two phases of a request as operating points on a roofline: FLOP, bytes and duration of a
step, from the latency model that the simulator runs."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.core.requests import Table
from sim.latency.flops import model_bytes, model_flop
from sim.latency.model import (
    LINEAR,
    MEASURED_TERMS,
    ROOFLINE,
    ROOFS,
    TERMS,
    load,
    measured_terms,
    roofs,
    step_seconds,
    terms,
)

__all__ = [
    "Breakdown",
    "Point",
    "breakdown",
    "decode_step",
    "knee_tokens",
    "mixed_step",
    "operating_point",
    "prefill_step",
]


# --- the time of a step by cause ------------------------------------------------------------------


@dataclass(frozen=True)
class Breakdown:
    """The time of one step. `seconds` by cause adds up to `total_s`; `roofs` are the two sides of
    every maximum (roofline only, else empty); `bound` says which side is larger in the linear
    layers."""

    total_s: float
    seconds: dict[str, float]
    roofs: dict[str, float]
    bound: str | None


def breakdown(latency: Any, step: Any) -> Breakdown:
    """Where the time of a step goes, from the same kernels that time it."""
    total = float(step_seconds(latency, step))
    if latency.kind != ROOFLINE:
        parts = map(float, measured_terms(latency, step))
        seconds = dict(zip(MEASURED_TERMS, parts, strict=True))
        if latency.kind == LINEAR:
            seconds = {name: seconds[name] for name in MEASURED_TERMS[:3]}
        if latency.swap_block_bytes > 0:
            seconds["swap"] = total - sum(seconds.values())
        return Breakdown(total, seconds, {}, None)
    sides = dict(zip(ROOFS, map(float, roofs(latency, step)), strict=True))
    seconds = dict(zip(TERMS, map(float, terms(latency, step)), strict=True))
    bound = "compute" if sides["gemm_compute"] > sides["weight_reads"] else "memory"
    return Breakdown(total, seconds, sides, bound)


# --- operating points -----------------------------------------------------------------------------


def prefill_step(tokens: int, start: int = 0) -> Any:
    """One prompt, or a chunk of it after `start` tokens that are in KV; it emits a token."""
    return mixed_step(tokens, 0, 0, start)


def decode_step(batch: int, context: int) -> Any:
    """`batch` sequences that attend to `context` tokens each and emit one token each."""
    return mixed_step(0, batch, context)


def mixed_step(tokens: int, batch: int, context: int, start: int = 0) -> Any:
    """A chunk of `tokens` prompt tokens and `batch` decodes in one step (a STEP row)."""
    chunks = 1 if tokens else 0
    return load(
        num_prefill_tokens=tokens,
        num_chunks=chunks,
        num_decodes=batch,
        num_sampled=batch + chunks,
        decode_context=batch * context,
        prefill_context=(start + tokens) * chunks,
        prefill_pairs=tokens * (start + tokens / 2),
    )


@dataclass(frozen=True)
class Point:
    """One step on the roofline of a replica. FLOP and bytes are the model's, over all GPUs."""

    name: str
    tokens: int
    flop: float
    bytes: float
    seconds: float
    parts: Breakdown

    @property
    def intensity(self) -> float:
        """FLOP per byte that must be moved."""
        return self.flop / self.bytes

    @property
    def flop_per_s(self) -> float:
        return self.flop / self.seconds

    @property
    def seconds_per_token(self) -> float:
        return self.seconds / self.tokens


def operating_point(name: str, row: Any, step: Any) -> Point:
    """The operating point of a step: `row` is the LATENCY row of the replica, `step` its load."""
    steps: Table = np.array([step]).view(np.recarray)
    return Point(
        name=name,
        tokens=int(step.num_prefill_tokens + step.num_decodes),
        flop=float(model_flop(row, steps)[0]),
        bytes=float(model_bytes(row, steps)[0]),
        seconds=float(step_seconds(row, step)),
        parts=breakdown(row, step),
    )


def knee_tokens(row: Any) -> float:
    """Tokens per step above which the linear layers are compute-bound instead of bound by weight
    reads.

    T with (T + half) x FLOP / (peak x mfu) = weight bytes / (bandwidth x mbu)
    """
    read = row.weight_bytes / (row.bandwidth * row.mbu_weights)
    return float(read * row.peak_flops * row.mfu / row.gemm_flop_per_token - row.mfu_half_tokens)

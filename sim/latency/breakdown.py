"""Where the time of one step goes, by named cause."""

from dataclasses import dataclass
from typing import Any

from sim.latency.model import (
    LINEAR,
    MEASURED_TERMS,
    ROOFLINE,
    ROOFS,
    TERMS,
    measured_terms,
    roofs,
    step_seconds,
    terms,
)

__all__ = ["Breakdown", "breakdown"]


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

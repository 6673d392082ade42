"""Efficiency of kernels and links on each GPU: `data/efficiency.toml` and `data/allreduce.toml` of
sim/hardware, written by `make calibrate`. Units: SI."""

import math
from dataclasses import dataclass
from functools import cache

from sim.hardware.catalog import COMPUTED_IN, gpu, link, table
from sim.latency.model import ALLREDUCE_POINTS

__all__ = ["Efficiency", "all_reduce", "efficiency"]


@dataclass(frozen=True)
class Efficiency:
    """Efficiency of the kernels of one GPU at one precision; sim/latency/model.py defines each
    constant.

    `kind`: "calibrated" on step times of this GPU, or "spec sheet": the constants of other GPUs
    with the peaks of this one. Errors are shares of the measured time: on the rows of the fit, or,
    for a spec sheet, of each calibrated GPU predicted from all others."""

    gpu: str
    precision: str
    kind: str
    constants: dict[str, float]
    num_rows: int
    max_tokens: int  # largest values in the rows of the fit: tokens per step,
    max_batch: int  # decodes per step,
    max_context: int  # tokens that a request attends to
    mean_error: float
    p90_error: float
    left_out_error: float | None
    source: str


@cache
def efficiency(gpu_name: str, precision_name: str) -> Efficiency:
    """Efficiency on this GPU (canonical name) at this precision; the mean of all calibrated GPUs
    where it was not measured."""
    entries = table("efficiency")
    computed_in = COMPUTED_IN[precision_name]
    calibrated = computed_in in entries.get(gpu_name, ())
    entry = dict(entries[gpu_name if calibrated else "default"][computed_in])
    about = {
        "num_rows": entry.pop("num_rows"),
        **{name: entry.pop(name) for name in ("max_tokens", "max_batch", "max_context")},
        "mean_error": entry.pop("mean_error"),
        "p90_error": entry.pop("p90_error"),
        "left_out_error": entry.pop("left_out_error", None),
        "source": entry.pop("source"),
    }
    kind = "calibrated" if calibrated and computed_in == precision_name else "spec sheet"
    return Efficiency(gpu_name, precision_name, kind, entry, **about)


@cache
def all_reduce(gpu_name: str, tp: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Log bytes and log seconds of all-reduces between `tp` GPUs (canonical name), ascending.

    Measured calls of the largest group measured up to `tp`; without any, the latency of the GPU's
    link and 2 (tp - 1) / tp times the bytes over its bandwidth.
    """
    measured = table("allreduce").get(gpu_name, {})
    groups = [int(size) for size in measured if int(size) <= tp]
    if groups:
        entry = measured[str(max(groups))]
        sizes, seconds = entry["bytes"], entry["seconds"]
    else:
        wire = link(gpu(gpu_name).gpu_link)
        sizes = [float(4**k) for k in range(4, 4 + ALLREDUCE_POINTS)]
        seconds = [wire.latency_s + 2 * (tp - 1) / tp * size / wire.bandwidth for size in sizes]
    return tuple(map(math.log, sizes)), tuple(map(math.log, seconds))

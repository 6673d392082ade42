"""One fit of the roofline's constants to measured steps of one GPU at one precision.

Least squares on the logarithm of predicted over measured, soft L1, through the same kernel that the
simulator runs (`latency.steps_seconds`). No constant is specific to a model or a row. The error of
a fit is reported
three ways: on its own rows, their 90th percentile, and on the rows of each model when that
model was left out. `sim/latency/calibration.py` reads the rows and writes the files.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from sim.latency import inputs as latency_inputs
from sim.latency.model import steps_seconds

__all__ = [
    "FEW_FITTED",
    "FEW_ROWS",
    "FITTED",
    "Fit",
    "Group",
    "fit_with_errors",
    "log_errors",
    "reach_of",
    "relative",
    "rounded",
]

Floats = NDArray[np.float64]

# name: (start, least, most)
FITTED = {
    "mfu": (0.7, 0.2, 1.0),
    "mfu_half_tokens": (20.0, 0.1, 2000.0),
    "attention_mfu": (0.5, 0.05, 1.0),
    "mbu_weights": (0.8, 0.3, 1.0),
    "mbu_kv": (0.8, 0.2, 1.0),
    "activation_passes": (1.5, 0.01, 6.0),
    "launch_s_per_layer": (2e-5, 1e-7, 3e-4),
    "fixed_s": (1e-4, 1e-6, 5e-3),
    "smooth_exponent": (3.0, 1.0, 12.0),
    "allreduce_scale": (1.0, 0.5, 2.0),
}
# With fewer rows than this, only the first constants are fitted; the others come from `default`.
FEW_ROWS = 40
FEW_FITTED = ("mfu", "attention_mfu", "mbu_weights", "mbu_kv", "activation_passes")


@dataclass(frozen=True)
class Group:
    """The rows of one model at one tensor-parallel size: they share one LATENCY row."""

    model: str
    latency: Any
    activation_bytes: float
    num_layers: int
    steps: Any
    seconds: Floats  # measured


@dataclass(frozen=True)
class Fit:
    """Constants of one GPU at one precision and their errors, as shares of the measured time."""

    constants: dict[str, float]
    num_rows: int
    reach: dict[str, int]  # the largest step, batch and context among the rows
    mean_error: float
    p90_error: float
    left_out_error: float | None  # None with fewer than two models
    source: str


def log_errors(groups: Iterable[Group], constants: Mapping[str, float]) -> Floats:
    """log(predicted / measured) of every row."""
    parts = []
    for group in groups:
        latency_inputs.set_efficiency(
            group.latency, constants, group.activation_bytes, group.num_layers
        )
        predicted = np.empty(len(group.seconds))
        steps_seconds(group.latency, group.steps, predicted)
        parts.append(np.log(predicted / group.seconds))
    return np.concatenate(parts)


def fit(groups: list[Group], names: Iterable[str], others: Mapping[str, float]) -> dict[str, float]:
    """The constants `names` that fit the groups best; the rest stay as in `others`."""
    names = list(names)
    start, least, most = (np.log([FITTED[name][k] for name in names]) for k in range(3))

    def constants(point: Floats) -> dict[str, float]:
        return {**others, **dict(zip(names, np.exp(point).tolist(), strict=True))}

    found = least_squares(
        lambda point: log_errors(groups, constants(point)),
        start,
        bounds=(least, most),
        loss="soft_l1",
        f_scale=0.05,
        max_nfev=400,
    )
    return constants(found.x)


def reach_of(groups: Iterable[Group]) -> dict[str, int]:
    """The largest values in the rows: tokens and decodes per step, tokens that a request attends
    to."""
    tokens = batch = context = 0
    for group in groups:
        steps = group.steps
        tokens = max(tokens, int((steps.num_prefill_tokens + steps.num_decodes).max()))
        batch = max(batch, int(steps.num_decodes.max()))
        attended = steps.decode_context // np.maximum(steps.num_decodes, 1)
        context = max(context, int(attended.max()), int(steps.prefill_context.max()))
    return {"max_tokens": tokens, "max_batch": batch, "max_context": context}


def rounded(constants: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.4g}") for name, value in constants.items()}


def relative(errors: Floats) -> Floats:
    return np.abs(np.expm1(errors))


def fit_with_errors(
    groups: list[Group], names: Iterable[str], others: Mapping[str, float], source: str
) -> Fit:
    """The fit to all groups, and for each model the error of a fit without it."""
    constants = rounded(fit(groups, names, others))
    errors = relative(log_errors(groups, constants))
    models = sorted({group.model for group in groups})
    left_out = []
    for name in models if len(models) > 1 else []:
        without = fit([group for group in groups if group.model != name], names, others)
        left_out.append(log_errors([g for g in groups if g.model == name], without))
    return Fit(
        constants=constants,
        num_rows=len(errors),
        reach=reach_of(groups),
        mean_error=float(errors.mean()),
        p90_error=float(np.quantile(errors, 0.9)),
        left_out_error=float(relative(np.concatenate(left_out)).mean()) if left_out else None,
        source=source,
    )

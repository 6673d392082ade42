"""Fit a profile to measured steps: step times of this machine, and their error.

    seconds = step + p P + d D + c C + x X + e [P > 0 or D > G] [+ h max(T0, P + D)]

P prefill tokens, D decodes, C sum of the decodes' contexts, X sum of n (start + n / 2) over
chunks: the load columns of recording.STEP. Non-negative least squares, each step weighted by
1 / seconds, so that relative errors have equal weight and no coefficient
is negative. The hinge is a floor under the token term: a step reads all weights even for a few
tokens. G is the number of decodes that run as one unit
(runner.Runner.most_rows); 0 drops that term. 30% of the steps are held out by a seed; all reported
errors are on them. Calibrate on steps of a real workload: queueing amplifies a bias.

Predictions run the simulator's own kernel, sim.latency.steps_seconds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from sim.core.requests import Table
from sim.latency.model import measured, steps_seconds
from sim.latency.profiles import Coefficients, Profile

__all__ = ["CalibrationError", "Fit", "fit", "predict"]

HELD_OUT = 0.3
MIN_STEPS = 60  # of which 42 are fitted
MIN_KIND = 10  # steps with a prompt in them, and with decodes
MAX_MAPE = 0.25  # a quiet machine has a few percent; above, other processes disturb the steps
NUM_FLOORS = 24  # hinges tried

Floats = NDArray[np.float64]
NAMES = (
    "step_s",
    "prefill_token_s",
    "decode_s",
    "decode_context_s",
    "prefill_pair_s",
    "eager_step_s",
)


class CalibrationError(ValueError):
    """Steps that cannot be fitted, and why. `code`: "contaminated" (the machine was not quiet),
    "cancelled", "run_failed", or "cannot_fit"."""

    def __init__(self, message: str, code: str = "cannot_fit") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Fit:
    """A fitted step time. r2, mape (mean absolute relative error) and p90_error: of the held-out
    steps. max_tokens, max_batch, max_context: the largest step, batch and context measured."""

    coefficients: Coefficients
    r2: float
    mape: float
    p90_error: float
    num_steps: int
    max_tokens: int
    max_batch: int
    max_context: int

    def profile(self, name: str, model: str, device: str, dtype: str, **about: Any) -> Profile:
        """The profile to save; `about`: backend, threads, measured_on."""
        figures = {field: getattr(self, field) for field in self.__dataclass_fields__}
        return Profile(name=name, model=model, device=device, dtype=dtype, **figures, **about)


def fit(
    steps: Table,
    *,
    hinge: bool = False,
    graph_decodes: int = 0,
    seed: int = 0,
    max_context: int | None = None,
    contaminated: str | None = None,
) -> Fit:
    """Fit the measured `steps` (rows of recording.STEP, duration_s is measured).

    graph_decodes: decodes that run as one unit in a step without prompts, 0 where every step is
    eager.
    max_context: the longest context that was reached; None: derived from the steps.
    contaminated: why the times are not reliable, None for a quiet machine.
    CalibrationError for a contaminated run, too few steps of a kind, or times that do not follow
    the load.
    """
    if contaminated:
        raise CalibrationError(
            f"the machine was not quiet: {contaminated}; calibrate again", "contaminated"
        )
    check_steps(steps)
    order = np.random.default_rng(seed).permutation(len(steps))
    held_out = round(HELD_OUT * len(steps))
    test, train = steps[order[:held_out]], steps[order[held_out:]]
    coefficients = solved(train, floors(train) if hinge else np.zeros(0), graph_decodes)
    seconds, real = predict(coefficients, test), np.asarray(test.duration_s)
    errors = np.abs(seconds / real - 1.0)
    spread = float(((real - real.mean()) ** 2).sum())
    r2 = 1.0 - float(((real - seconds) ** 2).sum()) / spread if spread > 0 else 1.0
    mape, p90 = float(errors.mean()), float(np.percentile(errors, 90))
    if mape > MAX_MAPE:
        raise CalibrationError(
            f"held-out steps are off by {mape:.0%} in the mean (R2 {r2:.2f}; at most "
            f"{MAX_MAPE:.0%}): their times do not follow their load; calibrate on a quiet machine"
        )
    return Fit(
        coefficients=coefficients,
        r2=r2,
        mape=mape,
        p90_error=p90,
        num_steps=len(steps),
        max_tokens=int((steps.num_prefill_tokens + steps.num_decodes).max()),
        max_batch=int(steps.num_decodes.max()),
        max_context=longest_context(steps) if max_context is None else max_context,
    )


def predict(coefficients: Coefficients, steps: Table) -> Floats:
    """Seconds of each step, by the simulator's kernel."""
    seconds = np.zeros(len(steps))
    steps_seconds(measured(coefficients.model_dump()), steps, seconds)
    return seconds


def check_steps(steps: Table) -> None:
    """Refuse steps that cannot identify every coefficient."""
    if len(steps) < MIN_STEPS:
        raise CalibrationError(f"{len(steps)} steps were measured; at least {MIN_STEPS} are needed")
    seconds = np.asarray(steps.duration_s)
    if not (np.isfinite(seconds) & (seconds > 0)).all():
        raise CalibrationError("a step has no measured time")
    for what, column in (("a prompt", steps.num_prefill_tokens), ("decodes", steps.num_decodes)):
        count = int((column > 0).sum())
        if count < MIN_KIND:
            raise CalibrationError(
                f"{count} of {len(steps)} steps hold {what}; at least {MIN_KIND} are needed"
            )


def longest_context(steps: Table) -> int:
    """The largest mean context of a step's decodes, or of its chunks: as far as the load columns
    show it."""
    decodes = steps.decode_context / np.maximum(steps.num_decodes, 1)
    chunks = steps.prefill_context / np.maximum(steps.num_chunks, 1)
    return int(max(decodes.max(), chunks.max()))


# --- least squares --------------------------------------------------------------------------------


def load_of(steps: Table, graph_decodes: int = 0) -> Floats:
    """(num_steps, 6) 1, P, D, C, X of each step, and whether it was eager; all 0 where no two steps
    differ in that."""
    eager = (steps.num_prefill_tokens > 0) | (steps.num_decodes > graph_decodes)
    columns = (
        np.ones(len(steps)),
        steps.num_prefill_tokens,
        steps.num_decodes,
        steps.decode_context,
        steps.prefill_pairs,
        eager & ~eager.all(),
    )
    return np.stack([np.asarray(column, np.float64) for column in columns], axis=1)


def floors(steps: Table) -> Floats:
    """Candidates for T0: from one token to the largest step, evenly on a log scale."""
    most = float((steps.num_prefill_tokens + steps.num_decodes).max())
    return np.unique(np.round(np.geomspace(1.0, max(most, 2.0), NUM_FLOORS)))


def solved(steps: Table, candidates: Floats, graph_decodes: int = 0) -> Coefficients:
    """The best non-negative coefficients, without a hinge and with each candidate for it."""
    load, seconds = load_of(steps, graph_decodes), np.asarray(steps.duration_s)
    values, best = weighted_nnls(load, seconds)
    found = dict(zip(NAMES, values.tolist(), strict=True))
    tokens = np.asarray(steps.num_prefill_tokens + steps.num_decodes, np.float64)
    for floor in candidates.tolist():
        column = np.maximum(floor, tokens)[:, None]
        values, residual = weighted_nnls(np.hstack([load, column]), seconds)
        if residual < best:
            best = residual
            found = dict(zip((*NAMES, "hinge_token_s"), values.tolist(), strict=True))
            found["hinge_tokens"] = floor
    return Coefficients(graph_decodes=graph_decodes, **found)


def weighted_nnls(load: Floats, seconds: Floats) -> tuple[Floats, float]:
    """(coefficients, residual) of min |load x / seconds - 1|, x >= 0. Columns are scaled to equal
    length first: they span nine orders of magnitude."""
    relative = load / seconds[:, None]
    scale = np.linalg.norm(relative, axis=0)
    scale[scale == 0] = 1.0
    values, residual = nnls(relative / scale, np.ones(len(seconds)))
    return values / scale, float(residual)

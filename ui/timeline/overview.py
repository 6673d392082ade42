"""A whole run in a few hundred time bins: least, mean and most of fill and queue, and the worst
gap."""

import numpy as np

from sim.core.recording import Recording

BINS = 400
FILL_WHOLE = 255  # a step that spent the whole budget


def span(recording: Recording) -> list[float]:
    """First and last second of the bins."""
    steps = recording.steps
    if not len(steps):
        return [0.0, 1.0]
    return [float(steps.start_s[0]), float(steps.start_s[-1] + steps.duration_s[-1])]


def arrays(recording: Recording, budget: int, bins: int = BINS) -> dict[str, np.ndarray]:
    """Per bin: `fill_*` (of FILL_WHOLE), `queue_*` (requests waiting), `worst_gap` (s).

    A step belongs to the bin in which it ends. In a bin without a step everything is 0.
    """
    steps = recording.steps
    start, stop = span(recording)
    width = max(stop - start, 1e-12) / bins
    end = steps.start_s + steps.duration_s
    bin_of = np.clip(((end - start) / width).astype(np.int64), 0, bins - 1)
    spent = (steps.num_prefill_tokens + steps.num_decodes) / budget
    out: dict[str, np.ndarray] = {}
    for name, values, kind in (
        ("fill", np.rint(FILL_WHOLE * np.minimum(spent, 1)), np.uint8),
        ("queue", steps.num_waiting.astype(float), np.float32),
    ):
        low, mean, high = _three(bin_of, values, bins)
        out |= {f"{name}_min": low.astype(kind), f"{name}_mean": mean.astype(kind)}
        out[f"{name}_max"] = high.astype(kind)
    worst = np.zeros(bins)
    regular = steps.num_regular_gaps > 0
    np.maximum.at(worst, bin_of[regular], steps.duration_s[regular])
    np.maximum.at(worst, bin_of[recording.gaps.step], recording.gaps.seconds)
    out["worst_gap"] = worst.astype(np.float32)
    return out


def _three(bin_of: np.ndarray, values: np.ndarray, bins: int) -> tuple[np.ndarray, ...]:
    """Least, mean and most of the values of each bin; 0 in empty bins."""
    low, high = np.full(bins, np.inf), np.zeros(bins)
    np.minimum.at(low, bin_of, values)
    np.maximum.at(high, bin_of, values)
    count = np.bincount(bin_of, minlength=bins)
    mean = np.bincount(bin_of, weights=values, minlength=bins) / np.maximum(count, 1)
    return np.where(count > 0, low, 0), mean, high

"""The duration of a step, and whether the machine was quiet.

The whole step counts: metadata, forward pass, sampling, tokens on the host. On a GPU the clock is
read after the last copy to the host, which waits for the device; there is one such wait per step. A
step is flagged when its wall time is more than 1.2 times the CPU time of the process: another
process had the processor. With several threads that rule detects little, so a run also looks at the
whole machine: cores used by other processes, and time stolen by the host."""

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psutil

__all__ = ["STEP_TIME", "OtherProcesses", "Stopwatch", "contamination"]

# One row per step, in seconds. flagged: wall > 1.2 x CPU time.
# padded_batch: rows of its graph or loop.
STEP_TIME = np.dtype(
    [
        ("whole_s", np.float64),
        ("prepare_s", np.float64),
        ("forward_s", np.float64),
        ("sample_s", np.float64),
        ("cpu_s", np.float64),
        ("num_tokens", np.int64),  # computed, padding included
        ("padded_batch", np.int64),  # rows of a step that ran as one unit, 0 for an eager one
        ("flagged", np.bool_),
    ],
    align=True,
)

WALL_OVER_CPU = 1.2
MOST_FLAGGED = 0.05  # of the steps of a run
MOST_OTHERS = 0.15  # cores used by other processes
MOST_STOLEN = 0.02  # of the machine's time
LEAST_WALL_S = 1.0  # of a run: the counters of the machine tick every 10 ms


@dataclass
class Stopwatch:
    """Wall time of a step, lap by lap, and its CPU time."""

    started_s: float = field(default_factory=time.perf_counter)
    cpu_started_s: float = field(default_factory=time.process_time)
    laps_s: list[float] = field(default_factory=list)

    def lap(self) -> None:
        self.laps_s.append(time.perf_counter() - self.started_s - sum(self.laps_s))

    def row(self, num_tokens: int, padded_batch: int = 0, *, on_cpu: bool = True) -> Any:
        """A STEP_TIME row from the three laps. A step on a GPU waits for the device and is never
        flagged."""
        row = np.zeros((), STEP_TIME)
        prepare_s, forward_s, sample_s = self.laps_s
        whole_s = prepare_s + forward_s + sample_s
        cpu_s = time.process_time() - self.cpu_started_s
        row["whole_s"], row["cpu_s"] = whole_s, cpu_s
        row["prepare_s"], row["forward_s"], row["sample_s"] = prepare_s, forward_s, sample_s
        row["num_tokens"], row["padded_batch"] = num_tokens, padded_batch
        row["flagged"] = on_cpu and whole_s > WALL_OVER_CPU * cpu_s
        return row[()]


def machine_times() -> tuple[float, float, float]:
    """(busy, stolen, total) seconds of all cores since boot. Stolen is 0 where the operating system
    does not count it."""
    times = psutil.cpu_times()._asdict()
    stolen = times.get("steal", 0.0)
    unused = times["idle"] + times.get("iowait", 0.0)
    counted = ("user", "nice", "system", "irq", "softirq")  # guests are part of user and nice
    busy = sum(times.get(name, 0.0) for name in counted)
    return busy, stolen, busy + unused + stolen


class OtherProcesses:
    """Activity of the rest of the machine since this object was created."""

    def __init__(self) -> None:
        self.since = machine_times()
        self.cpu_since_s, self.wall_since_s = time.process_time(), time.perf_counter()

    def usage(self) -> tuple[float, float]:
        """(cores used by other processes, share of time stolen by the host)."""
        now, wall_s = machine_times(), time.perf_counter() - self.wall_since_s
        if wall_s <= 0:
            return 0.0, 0.0
        busy, stolen, total = (a - b for a, b in zip(now, self.since, strict=True))
        others = (busy - (time.process_time() - self.cpu_since_s)) / wall_s
        return max(others, 0.0), stolen / total if total > 0 else 0.0


def contamination(flagged: float, others: float, stolen: float, wall_s: float) -> str | None:
    """Why the times of a run are not reliable, None on a quiet machine.

    flagged: share of its steps that were flagged. In less than LEAST_WALL_S the counters are too
    coarse.
    """
    reasons = []
    if flagged > MOST_FLAGGED:
        reasons.append(f"{flagged:.0%} of the steps waited for a processor")
    if wall_s >= LEAST_WALL_S and others > MOST_OTHERS:
        reasons.append(f"other processes used {others:.2f} cores")
    if wall_s >= LEAST_WALL_S and stolen > MOST_STOLEN:
        reasons.append(f"the host took {stolen:.0%} of the machine's time")
    return "; ".join(reasons) or None

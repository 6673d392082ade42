"""The results of a run for the page: sentences, rows of the table, lanes, points of the scatter.

Pure functions over gpu_backend.run.Comparison; the runs hold no weights any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sim.results.run import Result
from sim.scenario.load import parse_scenario
from ui.charts.step_times import Points
from ui.lanes import packing
from ui.real_engine.run_job import RunResult
from ui.text.units import Parts, count, seconds

GAP_FACTOR = 4.0  # a gap is marked from so many median gaps on
BLOCKS = (("ttft_s", "TTFT"), ("itl_s", "ITL"), ("tpot_s", "TPOT"), ("e2e_s", "E2E"))
POINTS = ("p50", "p95")
MOST_POINTS = 1500  # of the scatter, each run


@dataclass(frozen=True)
class Row:
    """A figure: measured, simulated, and simulated / measured - 1."""

    label: str
    unit: str
    measured: float | None
    simulated: float | None
    difference: float | None


def rows(comparison: Any) -> list[Row]:
    """Times in ms, then the run as a whole."""
    sides = (comparison.measured, comparison.simulated, comparison.difference)
    found = []
    for name, label in BLOCKS:
        for point in POINTS:
            real, ours, off = (side[name] and side[name][point] for side in sides)
            found.append(Row(f"{label} {point}", "ms", scaled(real), scaled(ours), off))
    for name, label, unit in (
        ("duration_s", "Duration", "s"),
        ("output_tokens_per_s", "Output", "tokens/s"),
    ):
        found.append(Row(label, unit, *(side[name] for side in sides)))
    return found


def scaled(value: float | None) -> float | None:
    return None if value is None else 1e3 * value


def points(title: str, comparison: Any) -> Points:
    """The steps; of a long run a part, evenly taken."""
    steps = comparison.run.recording.steps
    picked = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), MOST_POINTS)).astype(int))
    return Points(
        title,
        1e3 * np.asarray(comparison.step_s)[picked],
        1e3 * np.asarray(steps.duration_s)[picked],
        np.asarray(steps.num_prefill_tokens)[picked] > 0,
    )


# --- sentences ------------------------------------------------------------------------------------


def machine(run: Any) -> str:
    """Where it ran, and with what."""
    device = run.device
    threads = "" if device.is_cuda else f", {device.threads} CPU threads"
    return (
        f"{run.loaded.title}, measured on {device.title}, {device.dtype_name}{threads}; "
        f"{run.backend}"
    )


def step_error(comparisons: Sequence[Any]) -> float | None:
    """Mean absolute relative error of the simulated step times, of all runs together."""
    ours = np.concatenate([np.asarray(c.step_s) for c in comparisons])
    real = np.concatenate([np.asarray(c.run.recording.steps.duration_s) for c in comparisons])
    return float(np.abs(ours / real - 1.0).mean()) if len(real) else None


def worst_gap_s(run: Any) -> float:
    """The longest gap between two tokens of all requests but the longest prompt, s."""
    requests = run.recording.requests
    others = np.arange(len(requests)) != int(np.argmax(requests.num_prompt_tokens))
    return float(np.nan_to_num(requests.max_gap_s[others]).max(initial=0.0))


def long_ttft_s(run: Any) -> float:
    """From the arrival of the longest prompt to its first token, s."""
    request = run.recording.requests[int(np.argmax(run.recording.requests.num_prompt_tokens))]
    return float(request.first_token_s - request.arrival_s)


def headline(ran: Sequence[RunResult]) -> str:
    """What the schedule did to the waiting requests, measured."""
    first = ran[0].run
    gap = f":orange[**{seconds(worst_gap_s(first))}**]"
    ttft = f":blue[**{seconds(long_ttft_s(first))}**]"
    told = (
        f"Measured under {ran[0].title}: other requests wait up to {gap} for a token, and the "
        f"longest prompt has its first token after {ttft}."
    )
    if len(ran) == 1:
        return told
    other = ran[1].run
    return (
        f"{told} Under {ran[1].title}: :orange[**{seconds(worst_gap_s(other))}**] and "
        f":blue[**{seconds(long_ttft_s(other))}**]."
    )


def spans(run: Any) -> str:
    """Where the measured time of the steps went."""
    times = run.output.times
    whole = float(times["whole_s"].sum())
    if whole <= 0:
        return ""
    parts = ", ".join(
        f"{words} {float(times[name].sum()) / whole:.0%}"
        for name, words in (
            ("prepare_s", "preparing"),
            ("forward_s", "forward pass"),
            ("sample_s", "sampling"),
        )
    )
    return f"Of the steps' time: {parts}."


def launch_bound(run: Any) -> str:
    """How far a decode step is from the time that reading all weights takes."""
    steps = run.recording.steps
    decodes = steps.duration_s[np.asarray(steps.num_prefill_tokens) == 0]
    if not len(decodes):
        return ""
    usual, least = float(np.median(decodes)), float(run.guess.step_s)
    return (
        f"Here a decode step took {seconds(usual)} in the median; reading all weights once at this "
        f"machine's measured bandwidth takes {seconds(least)}, {least / usual:.0%} of that."
    )


# --- lanes ----------------------------------------------------------------------------------------


def gap_limit_s(ran: Sequence[RunResult]) -> float:
    """From here on a gap is marked: a few times the median measured one."""
    gaps = np.concatenate([np.asarray(one.run.recording.steps.duration_s) for one in ran])
    return GAP_FACTOR * float(np.median(gaps)) if len(gaps) else GAP_FACTOR


def long_enough(ran: Sequence[RunResult]) -> bool:
    """Whether every run took long enough to count what other programs used of the machine."""
    from gpu_backend.engine.step_timer import LEAST_WALL_S

    return all(float(one.run.output.times["whole_s"].sum()) >= LEAST_WALL_S for one in ran)


def lanes(ran: Sequence[RunResult], comparisons: Sequence[Any]) -> bytes:
    """Measured above simulated, for each run, as the packet of ui.six_ways."""
    limit_s = gap_limit_s(ran)
    packed = []
    for one, comparison in zip(ran, comparisons, strict=True):
        for kind, recording in (
            ("measured", one.run.recording), ("simulated", comparison.simulated_trace)
        ):  # fmt: skip
            told = packing.LaneText(kind, kind.capitalize(), one.title, figures_of(recording))
            packed.append((told, as_result(one.run, recording, limit_s)))
    return packing.pack(packed)


def figures_of(recording: Any) -> tuple[Parts, ...]:
    """A lane's figures."""
    steps = recording.steps
    end = float(steps.start_s[-1] + steps.duration_s[-1]) if len(steps) else 0.0
    gap = float(np.nan_to_num(recording.requests.max_gap_s).max(initial=0.0))
    return (
        [("longest gap ", ""), (seconds(gap), "stall")],
        [(f"{count(len(steps))} steps, ", ""), (seconds(end), True)],
    )


def as_result(run: Any, recording: Any, limit_s: float) -> Result:
    """A trace as the lanes want it, with the limit above which they mark a gap."""
    resolved = run.job.resolved
    data = resolved.scenario.model_dump(mode="json")
    data["slo"] = (data["slo"] or {}) | {"itl_s": limit_s}
    resolved = replace(resolved, scenario=parse_scenario(data))
    return Result(resolved=resolved, workload=run.job.workload, recording=recording, notes=())

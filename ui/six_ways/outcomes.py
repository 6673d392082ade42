"""What comes out of each way: figures, wastes, sentences. Pure functions of Results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.results import metrics
from sim.results.provenance import ADDS_UP, QUEUE_SHARE, queue_share, step_notes
from sim.results.run import Result
from ui.scenarios.settings import itl_limit_s
from ui.scenarios.ways import Way
from ui.text.units import EQUAL, Parts, close, count, seconds


@dataclass(frozen=True)
class Outcome:
    """One way and its run."""

    way: Way
    result: Result

    @property
    def ttft(self) -> Mapping[str, float]:
        return self.result.summary["ttft_s"] or {}

    @property
    def itl(self) -> Mapping[str, float]:
        return self.result.summary["itl_s"] or {}

    @property
    def limit_s(self) -> float:
        return itl_limit_s(self.result.scenario)


@dataclass(frozen=True)
class Wastes:
    """Where the GPU's time or the readers' time goes. Shares from 0 to 1; None: has no such
    thing."""

    padding: float  # share of all computed tokens that are padding
    stalls: int  # gaps above the limit
    stalled_s: float  # all of them together
    unused: float | None  # share of the budget left by steps with prompts, None without a budget
    idle: float  # share of the time in which no step ran


def wastes(outcome: Outcome) -> Wastes:
    summary, recording = outcome.result.summary, outcome.result.recording
    steps, roles = recording.steps, [row["role"] for row in summary["replicas"]]
    tokens = float(steps.num_prefill_tokens.sum() + steps.num_decodes.sum())
    values, counts = metrics.itl_values(recording)
    above = values > outcome.limit_s
    budget = budget_of(outcome)
    prompts = steps.num_prefill_tokens > 0
    if "prefill" in roles:  # a decode server computes the last prompt token, and has no more to do
        prompts &= np.array(roles)[steps.replica] == "prefill"
    used = (steps.num_prefill_tokens + steps.num_decodes)[prompts].astype(float)
    unused = None
    if budget and len(used):
        unused = float(1 - np.minimum(used / budget, 1).mean())
    return Wastes(
        padding=summary["padding_tokens"] / tokens if tokens else 0.0,
        stalls=int(counts[above].sum()),
        stalled_s=float((values[above] * counts[above]).sum()),
        unused=unused,
        idle=max(0.0, 1 - mean_busy(summary)) if len(steps) else 0.0,
    )


def mean_busy(summary: Mapping[str, Any]) -> float:
    """The share of the time in steps, the mean of all servers."""
    return float(np.mean([row["busy_fraction"] for row in summary["replicas"]]))


def budget_of(outcome: Outcome) -> int | None:
    """The most tokens that a step may compute; None where the engine knows no such limit."""
    if outcome.way.spec.budget_knob is None:
        return None
    return int(outcome.result.resolved.policy[0].max_num_batched_tokens) or None


def main_waste(outcome: Outcome) -> str:
    """The waste that one sees, in a few words."""
    lost = wastes(outcome)
    if rejected := outcome.result.summary["rejected"]:
        return f"{rejected} rejected"
    preemptions = outcome.result.summary["preemptions"]
    if preemptions:
        return f"{preemptions} preemption{'s' if preemptions > 1 else ''}"
    if lost.padding > 0.05:
        return f"{lost.padding:.0%} padding"
    if lost.stalls:
        return f"{count(lost.stalls)} gaps too long"
    if lost.idle > 0.05:
        return f"{lost.idle:.0%} idle"
    return "no gap too long"


def lane_figures(outcome: Outcome) -> tuple[Parts, ...]:
    """The lines beside a lane: first tokens, gaps, the end."""
    ttft, itl = outcome.ttft, outcome.itl
    if not ttft:
        return ([("no request got a token", "stall")],)
    lines: list[Parts] = [
        [("TTFT p50 ", ""), (seconds(ttft["p50"]), "prefill"), (" · worst ", ""),
         (seconds(ttft["max"]), True)],
    ]  # fmt: skip
    if itl:
        tone = "stall" if itl["max"] > outcome.limit_s else "decode"
        lines.append(
            [("ITL p99 ", ""), (seconds(itl["p99"]), True), (" · worst ", ""),
             (seconds(itl["max"]), tone)]
        )  # fmt: skip
    done = outcome.result.summary["duration_s"]
    lines.append([("done at ", ""), (seconds(done), True), (f" · {main_waste(outcome)}", "")])
    return tuple(lines)


# --- sentences ------------------------------------------------------------------------------------


def headline(outcomes: Sequence[Outcome]) -> str:
    """The one sentence above the lanes, with its colours."""
    told = [outcome for outcome in outcomes if outcome.ttft and outcome.itl]
    if len(told) < 2:
        return "Choose at least two ways that run to compare them."
    slow = max(told, key=lambda o: o.ttft["max"])
    rough = max(told, key=lambda o: o.itl["max"])
    others = [outcome for outcome in told if outcome is not slow]
    smooth = min(others, key=lambda o: o.itl["max"])
    quick = min(told, key=lambda o: o.ttft["p50"])
    late = (
        f"{slow.way.title} makes {last_one(slow)} wait :orange[**{seconds(slow.ttft['max'])}**] "
        "to start."
    )
    preempting = max(told, key=lambda o: o.result.summary["preemptions"])
    again = preempting.result.summary["preemptions"]
    if again:
        frozen = (
            f"{preempting.way.title} runs out of memory :orange[**{again} times**] and computes "
            f"{count(preempting.result.summary['recomputed_tokens'])} tokens again; its worst gap "
            f"is :orange[**{seconds(preempting.itl['max'])}**]."
        )
    elif close(rough.itl["max"], smooth.itl["max"]):
        return f"{late} No way has a gap above :green[**{seconds(rough.itl['max'])}**] here."
    else:
        frozen = (
            f"{rough.way.title} freezes a stream for up to "
            f":orange[**{seconds(rough.itl['max'])}**]."
        )
    price = smooth.ttft["p50"] - quick.ttft["p50"]
    paid = (
        f"; its median TTFT is :blue[**{seconds(price)} higher**] than under {quick.way.title}"
        if price > EQUAL * quick.ttft["p50"]
        else "; no median TTFT is lower"
    )
    held = (
        f"{smooth.way.title} keeps every gap within :green[**{seconds(smooth.itl['max'])}**]{paid}."
    )
    return f"{late} {frozen} {held}"


def last_one(outcome: Outcome) -> str:
    """The request that waited longest for its first token, by name."""
    waited = metrics.ttft_s(outcome.result.recording.requests)
    name = outcome.result.workload.label(int(np.nanargmax(waited)))
    return name if name[-1].isdigit() else f"the {name}"


def confidence(outcomes: Sequence[Outcome]) -> list[str]:
    """How sure the milliseconds are; what does not hold for all ways names them."""
    notes: dict[str, list[str]] = {}
    for outcome in outcomes:
        for note in step_notes(outcome.result.recording, outcome.result.resolved):
            notes.setdefault(note, []).append(outcome.way.title)
    told = [
        note if len(names) == len(outcomes) else f"{', '.join(names)}: {note}"
        for note, names in notes.items()
    ]
    shares = {outcome.way.title: queue_share(outcome.result.recording) for outcome in outcomes}
    waiting = [name for name, share in shares.items() if share > QUEUE_SHARE]
    if told and waiting:
        most = max(shares.values())
        told.append(
            f"{', '.join(waiting)}: up to {most:.0%} of the mean TTFT is queueing, {ADDS_UP}"
        )
    return told


def verdict(outcome: Outcome) -> str:
    """One sentence on a way, from its numbers."""
    summary, lost = outcome.result.summary, wastes(outcome)
    ttft, itl = outcome.ttft, outcome.itl
    if not ttft:
        return f"No request gets a token: {'; '.join(outcome.result.rejections)}."
    parts = [outcome.way.rule]
    if summary["rejected"]:
        parts.append(f"rejects {summary['rejected']} of {summary['requests']} requests")
    if lost.padding > 0.01:
        parts.append(f"computes {lost.padding:.0%} of its tokens as padding")
    if summary["preemptions"]:
        parts.append(
            f"preempts {summary['preemptions']} times and computes "
            f"{count(summary['recomputed_tokens'])} tokens again"
        )
    if lost.stalls:
        parts.append(
            f"{count(lost.stalls)} gaps above {seconds(outcome.limit_s)}, the longest "
            f"{seconds(itl['max'])}"
        )
    elif itl:
        parts.append(f"every gap is at most {seconds(itl['max'])}")
    parts.append(f"median TTFT {seconds(ttft['p50'])}")
    return "; ".join(parts) + "."


# --- the matrix -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column of the matrix: its words, whether less is better, how to write a value."""

    name: str
    unit: str
    less: bool
    digits: int = 0


COLUMNS = (
    Column("TTFT p50", "ms", True), Column("TTFT p99", "ms", True),
    Column("ITL p50", "ms", True, 1),
    Column("ITL p99", "ms", True, 1), Column("ITL worst", "ms", True, 1),
    Column("Throughput", "tokens/s", False), Column("Compute used", "%", False, 1),
    Column("Bandwidth used", "%", False, 1), Column("Padding", "%", True, 1),
    Column("Preemptions", "", True),
)  # fmt: skip


def row(outcome: Outcome) -> list[float | None]:
    """The values of a way, in the order of COLUMNS and in their units."""
    summary = outcome.result.summary

    def part(block: Mapping[str, float], name: str, scale: float) -> float | None:
        return block[name] * scale if block else None

    def share(value: float | None) -> float | None:
        return None if value is None else 100 * value

    return [
        part(outcome.ttft, "p50", 1e3), part(outcome.ttft, "p99", 1e3),
        part(outcome.itl, "p50", 1e3), part(outcome.itl, "p99", 1e3), part(outcome.itl, "max", 1e3),
        summary["output_tokens_per_s"], share(summary["compute_utilisation"]),
        share(summary["bandwidth_utilisation"]), share(wastes(outcome).padding),
        float(summary["preemptions"]),
    ]  # fmt: skip


def marks(values: Sequence[float | None], less: bool) -> list[str]:
    """ "best" and "worst" of a column; nothing where all are about equal."""
    known = [value for value in values if value is not None]
    if len(known) < 2 or close(min(known), max(known)):
        return [""] * len(values)
    low, high = min(known), max(known)
    best, worst = (low, high) if less else (high, low)
    return [
        ""
        if value is None
        else "best"
        if close(value, best)
        else "worst"
        if close(value, worst)
        else ""
        for value in values
    ]

"""What the page says of its two runs: beside the lanes, above them, and on the claim. Pure
functions of Results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sim.cluster.cluster_state import DECODE, PREFILL, ROLES
from sim.engines.registry import DEFAULT_ENGINE
from sim.hardware import catalog
from sim.results.run import Result
from sim.results.words import plural
from ui.disaggregation.setup import Setup
from ui.lanes.packing import LaneText
from ui.scenarios.ways import DISAGGREGATED
from ui.text.units import Parts, close, count, seconds

WAITS = 0.5  # of the mean TTFT: from here on the queue is the story
FULL = 0.85  # of the KV blocks


def block(result: Result, name: str) -> Mapping[str, float]:
    """A percentile block of the summary, empty where no request got that far."""
    found: Mapping[str, float] = result.summary[name] or {}
    return found


def busy(result: Result, role: int | None = None) -> float:
    """Mean share of the time in steps of the servers of a role, of all when None."""
    rows = result.summary["replicas"]
    shares = [r["busy_fraction"] for r in rows if role is None or r["role"] == ROLES[role]]
    return float(np.mean(shares)) if shares else 0.0


def kv_peak(result: Result, role: int) -> float:
    """The fullest that the KV memory of a server of this role gets."""
    rows = result.summary["replicas"]
    return max((r["kv_peak_fraction"] for r in rows if r["role"] == ROLES[role]), default=0.0)


# --- beside the lanes -----------------------------------------------------------------------------


def lane(result: Result, role: int, setup: Setup) -> LaneText:
    """The words of a pool's lane."""
    number = setup.prefill if role == PREFILL else setup.decode
    gpu = catalog.gpu(setup.prefill_gpu if role == PREFILL else setup.decode_gpu).title
    tp = setup.prefill_tp if role == PREFILL else setup.decode_tp
    note = f"{plural(number, 'server')}, {f'{tp} x ' if tp > 1 else ''}{short(gpu)} each"
    lines: list[Parts] = []
    if role == PREFILL:
        queue = block(result, "queue_s")
        if queue:
            tone = "stall" if queue["p50"] > WAITS * block(result, "ttft_s").get("p50", 1) else True
            lines.append([("queue p50 ", ""), (seconds(queue["p50"]), tone)])
        title = "Prefill pool"
    else:
        lines += gaps(result)
        if sent := block(result, "kv_transfer_s"):
            lines.append([("KV transfer p50 ", ""), (seconds(sent["p50"]), True)])
        title = "Decode pool"
    peak = kv_peak(result, role)
    lines.append(
        [("busy ", ""), (f"{busy(result, role):.0%}", True), (" · KV up to ", ""),
         (f"{peak:.0%}", "stall" if peak > FULL else True)]
    )  # fmt: skip
    return LaneText(DISAGGREGATED.engine, title, note, tuple(lines))


def co_located(result: Result, setup: Setup) -> LaneText:
    """The words of the co-located lane."""
    note = f"{plural(setup.servers, 'server')}, chunks, budget {setup.budget:,}"
    lines = firsts(result) + gaps(result)
    lines.append([("busy ", ""), (f"{busy(result):.0%}", True)])
    return LaneText(DEFAULT_ENGINE, "Co-located", note, tuple(lines))


def firsts(result: Result) -> list[Parts]:
    ttft = block(result, "ttft_s")
    if not ttft:
        return [[("no request got a token", "stall")]]
    return [
        [("TTFT p50 ", ""), (seconds(ttft["p50"]), "prefill"), (" · worst ", ""),
         (seconds(ttft["max"]), True)]
    ]  # fmt: skip


def gaps(result: Result) -> list[Parts]:
    itl = block(result, "itl_s")
    if not itl:
        return []
    limit = result.scenario.slo.itl_s if result.scenario.slo else None
    tone = "stall" if limit is not None and itl["max"] > limit else "decode"
    return [[("ITL p99 ", ""), (seconds(itl["p99"]), True), (" · worst ", ""),
             (seconds(itl["max"]), tone)]]  # fmt: skip


def short(title: str) -> str:
    return title.removeprefix("NVIDIA ").removeprefix("GeForce ")


# --- the sentences --------------------------------------------------------------------------------


def refused(split: str, mixed: Result | str) -> str:
    """What is refused and why, once where it is the same for both."""
    what = "Disaggregated serving is" if mixed != split else "Both sides are"
    return f"{what} refused. {split}."


def headline(split: Result, mixed: Result | str, setup: Setup) -> str:
    """The one sentence above the lanes, with its colours."""
    ttft, itl = block(split, "ttft_s"), block(split, "itl_s")
    if not ttft:
        return f"No request gets a token: {why_none(split)}"
    tone = "green" if itl and 1e3 * itl["max"] <= setup.itl_ms else "orange"
    parts = [
        f"Disaggregated: median TTFT :blue[**{seconds(ttft['p50'])}**]"
        + (f", longest gap :{tone}[**{seconds(itl['max'])}**]." if itl else ".")
    ]
    if isinstance(mixed, Result) and block(mixed, "ttft_s"):
        first, worst = block(mixed, "ttft_s")["p50"], block(mixed, "itl_s").get("max")
        color = "green" if worst and 1e3 * worst <= setup.itl_ms else "orange"
        gap = f", :{color}[**{seconds(worst)}**]" if worst else ""
        parts.append(
            f"Co-located on the same {plural(setup.gpus, 'GPU')}: :blue[**{seconds(first)}**]{gap}."
        )
    return " ".join([*parts, *troubles(split)])


def why_none(result: Result) -> str:
    summary = result.summary
    if result.rejections:
        return f"{'; '.join(result.rejections)}."
    if summary["failed"]:
        fail = "fails with its transfer" if summary["failed"] == 1 else "fail with their transfers"
        return f"{summary['failed']} of {summary['requests']} {fail}."
    return f"the run {result.recording.status} ({result.recording.reason})."


def troubles(result: Result) -> list[str]:
    """What is wrong with this run, by its name and with its numbers; nothing where nothing is."""
    found = [f":orange[**{f.name[0].upper()}{f.name[1:]}**]: {f.text}." for f in result.findings]
    for sentence in result.rejections:
        how_many, _, why = sentence.partition(": ")
        found.append(f":orange[**{how_many}**]: {why}.")
    return found


def decodes_a_step(result: Result) -> float:
    """Mean number of requests in a step of a decode server."""
    decode = [k for k, r in enumerate(result.resolved.replicas) if r.replica.role == ROLES[DECODE]]
    steps = result.recording.steps[np.isin(result.recording.steps.replica, decode)]
    return float(steps.num_running.mean()) if len(steps) else 0.0


# --- side by side ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """A row of the comparison: two values in the unit; whether less is better, None for neither."""

    name: str
    unit: str
    disaggregated: float | None
    co_located: float | None
    less: bool | None
    digits: int = 1

    @property
    def better(self) -> str:
        if self.less is None or self.disaggregated is None or self.co_located is None:
            return ""
        if close(self.disaggregated, self.co_located):
            return "equal"
        return (
            "disaggregated" if (self.disaggregated < self.co_located) == self.less else "co-located"
        )


def figures(split: Result, mixed: Result) -> list[Figure]:
    """TTFT, gaps, TPOT, goodput, utilisation, of both."""

    def part(name: str, at: str) -> tuple[float | None, float | None]:
        values = [block(result, name).get(at) for result in (split, mixed)]
        a, b = (None if value is None else 1e3 * value for value in values)
        return a, b

    def plain(name: str, scale: float = 1.0) -> tuple[float | None, float | None]:
        a, b = (
            None if result.summary[name] is None else scale * result.summary[name]
            for result in (split, mixed)
        )
        return a, b

    prefill, decode = busy(split, PREFILL), busy(split, DECODE)
    return [
        Figure("TTFT p50", "ms", *part("ttft_s", "p50"), True),
        Figure("TTFT p99", "ms", *part("ttft_s", "p99"), True),
        Figure("ITL p50", "ms", *part("itl_s", "p50"), True),
        Figure("ITL p99", "ms", *part("itl_s", "p99"), True),
        Figure("ITL worst", "ms", *part("itl_s", "max"), True),
        Figure("TPOT p50", "ms", *part("tpot_s", "p50"), True),
        Figure("Goodput", "requests/s", *plain("goodput_rps"), False, 2),
        Figure("Throughput", "tokens/s", *plain("output_tokens_per_s"), False, 0),
        Figure("Compute used", "%", *plain("compute_utilisation", 100), None),
        Figure("Bandwidth used", "%", *plain("bandwidth_utilisation", 100), None),
        Figure("Busy, prefill pool", "%", 100 * prefill, None, None, 0),
        Figure("Busy, decode pool", "%", 100 * decode, None, None, 0),
        Figure("Busy, all servers", "%", 100 * busy(split), 100 * busy(mixed), None, 0),
        Figure("KV moved", "GB", split.summary["kv_transfer_bytes"] / 1e9, 0.0, None),
    ]


def claim(found: Sequence[Figure], setup: Setup, best: tuple[int, float]) -> str:
    """Is disaggregation always better? With the numbers of these two runs; `best`: the budget with
    which the co-located servers serve most within the limits, and how many requests/s."""
    judged = [figure for figure in found if figure.better]
    lost = [figure for figure in judged if figure.better == "co-located"]
    won = [figure for figure in judged if figure.better == "disaggregated"]
    good = next(figure for figure in found if figure.name == "Goodput")
    rate = f"at {setup.rate:g} requests/s of {count(setup.prompt)} + {count(setup.output)} tokens"
    numbers = (
        f"goodput is **{good.disaggregated or 0:.2f}** requests/s disaggregated and "
        f"**{good.co_located or 0:.2f}** co-located (budget {setup.budget:,}); with their best "
        f"budget, {best[0]:,}, **{best[1]:.2f}**"
    )
    if not lost:
        return f"**It holds here.** {rate.capitalize()}, co-located is ahead in nothing: {numbers}."
    worst = ", ".join(figure.name for figure in lost)
    if not won:
        return (
            f"**It does not hold here.** {rate.capitalize()}, disaggregated is ahead in nothing: "
            f"{numbers}."
        )
    ahead = ", ".join(figure.name for figure in won)
    return (
        f"**Not here.** {rate.capitalize()}, co-located is ahead in {worst}; disaggregated in "
        f"{ahead}; "
        f"{numbers}."
    )

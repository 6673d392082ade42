"""Two runs beside each other: what differs, in one sentence and in the tiles. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sim.results.run import Result
from ui.scenarios import gpu_choice
from ui.scenarios.run import Run
from ui.scenarios.settings import itl_limit_s
from ui.text import run_summary
from ui.text.run_summary import Delta, Longest, Tile
from ui.text.units import Parts, close, count, seconds

HOW_PROMPTS_RUN = ("chunking", "budget")  # settings that the chunks of a prompt already tell
COUNTS = {
    "max_num_seqs": "max_num_seqs", "max_model_len": "max_model_len",
    "num_gpu_blocks": "KV blocks", "rate_per_s": "arrivals/s", "time_scale": "time scale",
}  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """A setting or dial in which two runs differ, and in a few words how."""

    setting: str
    words: str


def differences(run: Run, other: Run) -> list[Difference]:
    """What is different in `other`; empty for the same run."""
    a, b = run.settings, other.settings
    found = []
    if a.model != b.model:
        found.append(Difference("model", str(b.model or "linear toy")))
    if a.gpu != b.gpu:
        found.append(Difference("gpu", gpu_name(b.gpu) if b.gpu else "no GPU"))
    if a.chunking != b.chunking:
        found.append(Difference("chunking", "chunking on" if b.chunking else "chunking off"))
    if run.dials.budget != other.dials.budget:
        found.append(Difference("budget", f"budget {count(other.dials.budget)}"))
    if run.dials.cap != other.dials.cap:
        cap = f"cap {count(other.dials.cap)}" if other.dials.cap else "cap off"
        found.append(Difference("cap", cap))
    if a.seed != b.seed:
        found.append(Difference("seed", f"seed {b.seed}"))
    for setting, name in COUNTS.items():
        value = getattr(b, setting)
        if getattr(a, setting) != value:
            text = f"{name} {'auto' if value is None else f'{value:,g}'}"
            found.append(Difference(setting, text))
    if a.prefix_caching != b.prefix_caching:
        switch = "on" if b.prefix_caching else "off"
        found.append(Difference("prefix_caching", f"prefix caching {switch}"))
    return found


def words(differ: Sequence[Difference]) -> str:
    return ", ".join(one.words for one in differ)


def gpu_name(gpu: str) -> str:
    """A GPU, or a measured profile, for the middle of a sentence."""
    return gpu_choice.phrase(None, gpu)[1]


def sentence(now: Result, pinned: Result, differ: Sequence[Difference]) -> Parts:
    """What changed and what it cost. `differ`: the differences of the pinned run."""
    mine, other = run_summary.outstanding_prompt(now), run_summary.outstanding_prompt(pinned)
    if mine is None or other is None or mine.request != other.request:
        return _all_requests(now, pinned, differ)
    what = run_summary.prompt_with_size(now, mine)
    parts: Parts = [(f"{what} arrives while {run_summary.others_under_way(now, mine)}. ", "")]
    parts += _capital([(f"{_how(mine)}, ", ""), *_effect(now, mine)])
    how = _how(other)
    label = how if _how(mine) != how else words(differ) or "the same again"
    if label == how and len(differ) == 1 and differ[0].setting not in HOW_PROMPTS_RUN:
        label = f"{differ[0].words}, {how}"
    parts += [("; ", ""), (f"{label}, ", ""), *_effect(pinned, other), (". ", "")]
    return [*parts, *_price(now, mine, other)]


def _how(longest: Longest) -> str:
    if longest.num_chunks == 1:
        return "whole"
    return f"in {count(longest.num_chunks)} chunks of at most {count(longest.largest_chunk)} tokens"


def _effect(result: Result, longest: Longest) -> Parts:
    gap = run_summary.worst_gap_s(result)
    if gap <= itl_limit_s(result.scenario):
        return [(f"no stream waits more than {seconds(gap)}", "decode"), (" for a token", "")]
    if run_summary.all_freeze(result, longest, gap):
        return [(f"all streams freeze for {seconds(gap)}", "stall")]
    return [(f"streams wait up to {seconds(gap)}", "stall"), (" for a token", "")]


def _capital(parts: Parts) -> Parts:
    (text, tone), *rest = parts
    return [(text[:1].upper() + text[1:], tone), *rest]


def _price(now: Result, mine: Longest, other: Longest) -> Parts:
    what = run_summary.the_prompt(now, mine)
    if close(mine.ttft_s, other.ttft_s):
        return [(f"{what} pays nothing: first token ", ""),
                (f"after {seconds(mine.ttft_s)}", "prefill"), (" either way.", "")]  # fmt: skip
    verb = "pays" if mine.ttft_s > other.ttft_s else "gains"
    figures = f"after {seconds(mine.ttft_s)} instead of {seconds(other.ttft_s)}"
    return [(f"{what} {verb}: first token ", ""), (figures, "prefill"), (".", "")]


def _all_requests(now: Result, pinned: Result, differ: Sequence[Difference]) -> Parts:
    """No prompt stands out: the longest gap, the median TTFT, the end."""
    a, b = now.summary, pinned.summary
    label = f"compared with {words(differ) or 'the same run'}"
    parts: Parts = [(f"{count(a['requests'])} requests, {label}: ", "")]
    gap, was = run_summary.worst_gap_s(now), run_summary.worst_gap_s(pinned)
    tone = "decode" if gap <= itl_limit_s(now.scenario) else "stall"
    parts += [("the longest gap between tokens is ", ""), (_instead(gap, was), tone)]
    if a["ttft_s"] and b["ttft_s"]:
        parts += [(", the median time to first token ", "")]
        parts += [(_instead(a["ttft_s"]["p50"], b["ttft_s"]["p50"]), "prefill")]
    return [*parts, (f". The run ends after {_instead(a['duration_s'], b['duration_s'])}.", "")]


def _instead(value: float, other: float) -> str:
    if close(value, other):
        return f"{seconds(value)} both times"
    return f"{seconds(value)} instead of {seconds(other)}"


# --- tiles ----------------------------------------------------------------------------------------


def tiles(now: Result, pinned: Result) -> list[Tile]:
    """The figures of the run with their distance to the pinned one's."""
    return [
        replace(tile, delta=delta(tile, other))
        for tile, other in zip(run_summary.tiles(now), run_summary.tiles(pinned), strict=True)
    ]


def delta(tile: Tile, other: Tile) -> Delta | None:
    """How a figure differs; None where either does not exist or they are of different things."""
    if tile.number is None or other.number is None or tile.label != other.label:
        return None
    by = tile.number - other.number
    if close(tile.number, other.number):
        return Delta("the same", 0, None)
    words = f"{tile.say(abs(by))} {'more' if by > 0 else 'less'}"
    better = None if tile.good == 0 else (by > 0) == (tile.good > 0)
    return Delta(words, 1 if by > 0 else -1, better)

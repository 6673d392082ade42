"""Two runs beside each other: what differs, in one sentence and in the tiles. Pure functions."""

from dataclasses import replace

from sim.results.run import Result
from ui.scenarios import gpu_choice
from ui.scenarios.run import Run
from ui.scenarios.settings import itl_limit_s
from ui.text import run_summary
from ui.text.run_summary import Delta, Longest, Tile
from ui.text.units import Parts, close, count, seconds


def differences(run: Run, other: Run, workload_differs: bool = False) -> list[str]:
    """What `other` does differently, in a few words each; empty for the same run."""
    a, b = run.settings, other.settings
    found = []
    if a.model != b.model:
        found.append(str(b.model or "linear toy"))
    if a.gpu != b.gpu:
        found.append(gpu_name(b.gpu) if b.gpu else "no GPU")
    if a.chunking != b.chunking:
        found.append("chunking on" if b.chunking else "chunking off")
    if run.dials.budget != other.dials.budget:
        found.append(f"budget {count(other.dials.budget)}")
    if run.dials.cap != other.dials.cap:
        found.append(f"cap {count(other.dials.cap)}" if other.dials.cap else "cap off")
    if a.seed != b.seed:
        found.append(f"seed {b.seed}")
    for field, words in (
        ("max_num_seqs", "max_num_seqs"),
        ("max_model_len", "max_model_len"),
        ("num_gpu_blocks", "KV blocks"),
        ("rate_per_s", "arrivals/s"),
        ("time_scale", "time scale"),
    ):
        value = getattr(b, field)
        if getattr(a, field) != value:
            found.append(f"{words} {'auto' if value is None else f'{value:,g}'}")
    if a.prefix_caching != b.prefix_caching:
        found.append(f"prefix caching {'on' if b.prefix_caching else 'off'}")
    if workload_differs and not found:
        found.append("other requests")
    return found


def gpu_name(gpu: str) -> str:
    """A GPU, or a measured profile, as one says it."""
    return gpu_choice.phrase(None, gpu)[1]


def sentence(now: Result, pinned: Result, words: list[str]) -> Parts:
    """What changed and what it cost; `words`: the differences of the pinned run."""
    mine, other = run_summary.hero(now), run_summary.hero(pinned)
    if mine is None or other is None or mine.request != other.request:
        return _crowd(now, pinned, words)
    parts: Parts = [
        (f"{run_summary.who(now, mine)} arrives while {run_summary.company(now, mine)}. ", "")
    ]
    parts += _capital(_effect(now, mine))
    how = _how(other)
    label = how if _how(mine) != how else ", ".join(words) or "the same again"
    if label == how and len(words) == 1 and "chunk" not in words[0] and "budget" not in words[0]:
        label = f"{words[0]}, {how}"
    parts += [("; ", ""), (f"{label}, ", ""), *_effect_only(pinned, other), (". ", "")]
    return [*parts, *_price(now, mine, other)]


def _how(longest: Longest) -> str:
    if longest.num_chunks == 1:
        return "whole"
    return f"in {count(longest.num_chunks)} chunks of at most {count(longest.largest_chunk)} tokens"


def _effect(result: Result, longest: Longest) -> Parts:
    return [(f"{_how(longest)}, ", ""), *_effect_only(result, longest)]


def _effect_only(result: Result, longest: Longest) -> Parts:
    gap = run_summary.worst_gap_s(result)
    if gap <= itl_limit_s(result.scenario):
        return [(f"nobody waits more than {seconds(gap)}", "decode"), (" for a token", "")]
    if run_summary.all_freeze(result, longest, gap):
        return [(f"everyone freezes for {seconds(gap)}", "stall")]
    return [(f"others wait up to {seconds(gap)}", "stall"), (" for a token", "")]


def _capital(parts: Parts) -> Parts:
    (text, tone), *rest = parts
    return [(text[:1].upper() + text[1:], tone), *rest]


def _price(now: Result, mine: Longest, other: Longest) -> Parts:
    what = now.workload.label(mine.request)
    what = f"The {what}" if what in ("document", "prompt", "long") else what
    what = "The long prompt" if what == "The long" else what
    if close(mine.ttft_s, other.ttft_s):
        return [(f"{what} pays nothing: its first token comes ", ""),
                (f"after {seconds(mine.ttft_s)}", "prefill"), (" either way.", "")]  # fmt: skip
    verb = "pays" if mine.ttft_s > other.ttft_s else "gains"
    figures = f"after {seconds(mine.ttft_s)} instead of {seconds(other.ttft_s)}"
    return [(f"{what} {verb}: its first token comes ", ""), (figures, "prefill"), (".", "")]


def _crowd(now: Result, pinned: Result, words: list[str]) -> Parts:
    """No hero: the longest wait, the median first token, the throughput."""
    a, b = now.summary, pinned.summary
    label = f"compared with {', '.join(words)}" if words else "compared with the same run"
    parts: Parts = [(f"{count(a['requests'])} requests, {label}: ", "")]
    gap, was = run_summary.worst_gap_s(now), run_summary.worst_gap_s(pinned)
    tone = "decode" if gap <= itl_limit_s(now.scenario) else "stall"
    parts += [("the longest wait for a token is ", ""), (_instead(gap, was, "both times"), tone)]
    if a["ttft_s"] and b["ttft_s"]:
        ours, theirs = a["ttft_s"]["p50"], b["ttft_s"]["p50"]
        parts += [(". Half of the readers see their first token within ", "")]
        parts += [(_instead(ours, theirs, "both times"), "prefill")]
    done, before = a["duration_s"], b["duration_s"]
    return [*parts, (f". All is done after {_instead(done, before, 'both times')}.", "")]


def _instead(value: float, other: float, same: str) -> str:
    if close(value, other):
        return f"{seconds(value)} {same}"
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

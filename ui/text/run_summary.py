"""A run in one sentence and five figures. Pure functions of a Result; every number is computed."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim.core import reasons
from sim.results.run import Result
from ui.scenarios.settings import itl_limit_s, vllm_v1
from ui.text import glossary
from ui.text.explain import step_items
from ui.text.units import Parts, count, seconds

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
STANDS_OUT = 4  # so many times longer than the next one: the sentence is about that prompt
# classes of the presets whose name says what the prompt is
KINDS_OF_PROMPT = {"document": "document", "prompt": "prompt", "long": "prompt"}


@dataclass(frozen=True)
class Delta:
    """The distance of a figure to the pinned run's: words, whether it rose (1), fell (-1) or
    neither (0), and whether that is better; None: neither better nor worse."""

    words: str
    direction: int
    better: bool | None


@dataclass(frozen=True)
class Tile:
    """One figure: its name, its value with unit, and a one-line definition.

    `number` is the value in SI, None where there is none; `say` puts such a number into words;
    `good` is 1 where more is better, -1 where less is, 0 where neither is.
    """

    label: str
    value: str
    definition: str
    number: float | None = None
    say: Callable[[float], str] = seconds
    good: int = -1
    delta: Delta | None = None


@dataclass(frozen=True)
class Longest:
    """The longest prompt that got a first token, and how it was computed."""

    request: int
    num_prompt_tokens: int
    num_chunks: int
    largest_chunk: int
    step_s: float  # duration of the longest of its steps
    ttft_s: float
    others: np.ndarray  # ids of the requests that were under way when it arrived


def sentence(result: Result) -> Parts:
    """What happened, for the line above the timeline."""
    longest = longest_prompt(result)
    if result.all_rejected:
        return [("No request gets a token. ", ""), (f"{'; '.join(result.rejections)}.", "stall")]
    if longest is None:
        return [("No request got a token in this run.", "")]
    if stands_out(result, longest):
        return _one_prompt(result, longest)
    return _all_requests(result)


def stands_out(result: Result, longest: Longest) -> bool:
    """Is one prompt so much longer than the others that the sentence is about it?"""
    others = np.delete(result.recording.requests.num_prompt_tokens, longest.request)
    return bool(
        longest.num_chunks
        and len(others)
        and longest.num_prompt_tokens >= STANDS_OUT * others.max()
    )


def outstanding_prompt(result: Result) -> Longest | None:
    """The prompt that stands out, None where none does."""
    longest = longest_prompt(result)
    return longest if longest is not None and stands_out(result, longest) else None


def longest_prompt(result: Result) -> Longest | None:
    """See Longest; None where no request got a token."""
    recording = result.recording
    requests = recording.requests
    told = np.isfinite(requests.first_token_s)
    if not told.any():
        return None
    r = int(np.argmax(np.where(told, requests.num_prompt_tokens, -1)))
    request = requests[r]
    first = int(np.searchsorted(recording.steps.start_s, request.first_scheduled_s))
    last = int(np.searchsorted(recording.steps.start_s, request.first_token_s))
    cut = step_items(recording, first, last, 0)
    mine = cut.items.request == r
    tokens = cut.items.num_tokens[mine]
    arrival = request.arrival_s
    under_way = (requests.arrival_s < arrival) & ~(requests.end_s <= arrival)
    under_way &= requests.status != reasons.REJECTED
    return Longest(
        request=r,
        num_prompt_tokens=int(request.num_prompt_tokens),
        num_chunks=len(tokens),
        largest_chunk=int(tokens.max(initial=0)),
        step_s=float(recording.steps.duration_s[cut.step[mine]].max(initial=0.0)),
        ttft_s=float(request.first_token_s - arrival),
        others=np.flatnonzero(under_way),
    )


def _one_prompt(result: Result, longest: Longest) -> Parts:
    what, others = prompt_with_size(result, longest), others_under_way(result, longest)
    parts: Parts = [(f"{what} arrives while {others}. ", "")]
    gap, limit = worst_gap_s(result), itl_limit_s(result.scenario)
    if longest.num_chunks == 1:
        parts.append((f"Computed whole, in one step of {seconds(longest.step_s)}, ", ""))
        held = f"it makes other streams wait up to {seconds(gap)}"
    else:
        chunks, most = count(longest.num_chunks), count(longest.largest_chunk)
        parts.append((f"In {chunks} chunks of at most {most} tokens, ", ""))
        held = f"it still makes other streams wait up to {seconds(gap)}"
    if gap <= limit:
        parts.append((f"no stream waits more than {seconds(gap)}", "decode"))
        parts.append((" for a token. ", ""))
    elif all_freeze(result, longest, gap):
        parts += [(f"all streams freeze for {seconds(gap)}", "stall"), (". ", "")]
    else:
        parts += [(held, "stall"), (" for a token. ", "")]
    parts += [("Its own first token comes ", ""), (f"after {seconds(longest.ttft_s)}", "prefill")]
    return [*parts, (".", "")]


def prompt_with_size(result: Result, longest: Longest) -> str:
    """An 8,000-token document; or, of a request with another name: chat 3, a 900-token prompt,"""
    label = result.workload.label(longest.request)
    size = f"{count(longest.num_prompt_tokens)}-token"
    article = "An" if size[0] == "8" or longest.num_prompt_tokens in (11, 18) else "A"
    if label in KINDS_OF_PROMPT:
        return f"{article} {size} {KINDS_OF_PROMPT[label]}"
    return f"{label}, {article.lower()} {size} prompt,"


def the_prompt(result: Result, longest: Longest) -> str:
    """The document; the long prompt; or the request's own name."""
    label = result.workload.label(longest.request)
    if label == "long":
        return "The long prompt"
    return f"The {KINDS_OF_PROMPT[label]}" if label in KINDS_OF_PROMPT else label


def others_under_way(result: Result, longest: Longest) -> str:
    """What goes on when the long prompt arrives."""
    n = len(longest.others)
    names = result.workload.class_names
    if n and {names[c] for c in result.recording.requests.class_id[longest.others]} == {"chat"}:
        return "one person chats" if n == 1 else f"{number(n)} people chat"
    if n == 0:
        return "no other request is served"
    return "one other request is served" if n == 1 else f"{number(n)} other requests are served"


def all_freeze(result: Result, longest: Longest, gap: float) -> bool:
    """Did all requests that were under way wait about as long as the one that waited longest?"""
    gaps = result.recording.requests.max_gap_s[longest.others]
    return longest.num_chunks == 1 and len(gaps) > 1 and bool((gaps > 0.9 * gap).all())


def _all_requests(result: Result) -> Parts:
    summary = result.summary
    gap, limit = worst_gap_s(result), itl_limit_s(result.scenario)
    ttft = summary["ttft_s"]
    return [
        (f"{count(summary['requests'])} requests: median time to first token ", ""),
        (seconds(ttft["p50"]), "prefill"),
        (", longest ", ""),
        (seconds(ttft["max"]), "prefill"),
        (". The longest gap between two tokens is ", ""),
        (seconds(gap), "stall" if gap > limit else "decode"),
        (".", ""),
    ]


def number(n: int) -> str:
    """Small numbers as words."""
    return NUMBERS[n] if n < len(NUMBERS) else count(n)


def worst_gap_s(result: Result) -> float:
    """The largest inter-token latency of the run; 0 where no request has two tokens."""
    block = result.summary["itl_s"]
    return float(block["max"]) if block else 0.0


def budget_used(result: Result) -> float | None:
    """Share of the token budget that was spent in steps with prefill work; None without such a
    step."""
    steps = result.recording.steps
    busy = steps[steps.num_prefill_tokens > 0]
    if not len(busy):
        return None
    spent = busy.num_prefill_tokens.sum(dtype=np.int64) + busy.num_decodes.sum(dtype=np.int64)
    budget = vllm_v1(result.resolved.replicas[0].knobs).max_num_batched_tokens or 1
    return float(spent / (budget * len(busy)))


def tiles(result: Result) -> list[Tile]:
    """The five figures under the timeline."""
    summary, longest, used = result.summary, longest_prompt(result), budget_used(result)
    itl = summary["itl_s"] or {}
    if longest is not None and len(result.recording.requests) <= 12:
        ttft = _time(f"TTFT, {result.workload.label(longest.request)}", longest.ttft_s, TTFT)
    else:
        ttft = _time("TTFT p50", (summary["ttft_s"] or {}).get("p50"), TTFT)
    speed = summary["output_tokens_per_s"]
    return [
        _time("Worst gap (ITL max)", itl.get("max"), ITL_MAX),
        _time("ITL p99", itl.get("p99"), ITL),
        ttft,
        Tile("Throughput", _rate(speed), THROUGHPUT, speed, _rate, 1),
        Tile(
            "Budget used", "none" if used is None else _share(used), BUDGET_USED, used, _points, 0
        ),
    ]


def _time(label: str, value: float | None, definition: str) -> Tile:
    return Tile(label, "none" if value is None else seconds(value), definition, value)


def _rate(value: float) -> str:
    return f"{count(value)} tok/s" if value >= 10 else f"{value:.1f} tok/s"


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.0995 or value == 0 else f"{value:.1%}"


def _points(value: float) -> str:
    return f"{100 * value:.0f} points"


TTFT = glossary.TERMS["TTFT"]
ITL = f"{glossary.TERMS['ITL']} 99 of 100 gaps are shorter than this."
ITL_MAX = "The longest gap between two tokens of one request: the worst freeze of any stream."
THROUGHPUT = "Output tokens per second, from the first arrival to the end of the last step."
BUDGET_USED = "Tokens scheduled, as a share of the budget, in steps that run prefill."

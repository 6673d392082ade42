"""Why a step looks as it does: facts taken from a Recording, and the sentences that say them.

A fact is a few numbers (`FACT`): which sentence, which request, and the values a, b, c that go into
it. Facts travel to the timeline as packed numbers and the sentences as templates, so the page steps
through a run at 60 frames per second without asking the server; `sentences` fills the same
templates in Python. Nothing here is guessed: every number is read from an item, an event or a step
record (sim/core/recording.py), every reason from the code that the policy wrote down.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from sim.core import reasons
from sim.core.recording import Recording
from ui.text.step_explanations import SENTENCES

FACT = np.dtype(
    [
        ("step", np.int64),
        ("kind", np.int64),  # index into SENTENCES
        ("request", np.int64),  # -1: none
        ("a", np.int64),
        ("b", np.int64),
        ("c", np.int64),
    ]
)

KINDS = {name: index for index, name in enumerate(SENTENCES)}
CHUNK_KINDS = tuple(KINDS[name] for name in ("chunk", "chunk_completes", "chunk_clamped"))
NO_REQUEST = "no request"
REASONS = tuple(name.replace("_", " ") for name in reasons.STOP_REASONS)
_REJECTIONS = {
    reasons.NOT_REJECTED: "",
    reasons.REJECT_MODEL_LEN: "prompt reaches max_model_len",
    reasons.REJECT_KV_POOL: "prompt exceeds the KV pool",
    reasons.REJECT_TOKEN_BUDGET: "prompt exceeds the token budget of a step",
    reasons.REJECT_REQUEST_KV: "prompt + max_tokens exceed the KV pool",
    reasons.REJECT_SLO: "it would miss its latency limits",
}
REJECTIONS = {reasons.REJECTIONS[code]: words for code, words in _REJECTIONS.items()}

_EVENT_KINDS = {
    reasons.RESUMED: "resumed",
    reasons.PREEMPTION: "preempted",
    reasons.UNSCHEDULED: "unscheduled",
    reasons.ABORTED: "aborted",
    reasons.STUCK_AT_MAX_MODEL_LEN: "stuck",
}
# stop reason -> (sentence, events that carry its numbers)
_STOPS = {
    reasons.KV_BLOCKS: ("stop_kv_blocks", (reasons.REFUSED_KV_BLOCKS,)),
    reasons.MAX_NUM_SEQS: ("stop_max_num_seqs", (reasons.REFUSED_MAX_NUM_SEQS,)),
    reasons.MAX_BATCH_SIZE: ("stop_max_batch_size", (reasons.REFUSED_MAX_NUM_SEQS,)),
    reasons.WHOLE_PROMPT: ("stop_whole_prompt", (reasons.REFUSED_WHOLE_PROMPT,)),
    reasons.PREEMPTED: ("stop_preempted", (reasons.REFUSED_PREEMPTED,)),
}


@dataclass(frozen=True)
class Limits:
    """The limits that the sentences of a run name: tokens per step, and tokens per request and step
    (0: off)."""

    budget: int
    cap: int = 0

    def words(self) -> dict[str, str]:
        return {"budget": f"{self.budget:,}", "cap": f"{self.cap:,}" if self.cap else "off"}


@dataclass(frozen=True)
class Sentence:
    """One line of the inspector: a chip, its colour's name, and a text with **bold** parts."""

    chip: str
    tone: str
    text: str


@dataclass(frozen=True)
class StepItems:
    """The items of steps [first, last), each with its step and what it found in the budget."""

    items: np.recarray
    step: np.ndarray  # (num_items,)
    left: np.ndarray  # (num_items,) tokens of the budget before it was served
    is_decode: np.ndarray  # (num_items,) one token that follows the prompt


def step_items(recording: Recording, first: int, last: int, budget: int) -> StepItems:
    """Cut the items of steps [first, last) and say for each what was left of the budget."""
    steps = recording.steps[first:last]
    if len(steps) == 0 or len(recording.items) == 0:
        empty = np.zeros(0, np.int64)
        return StepItems(recording.items[:0], empty, empty, empty.astype(bool))
    low = int(steps.first_item[0])
    items = recording.items[low : int(steps.first_item[-1]) + int(steps.num_items[-1])]
    step = np.repeat(np.arange(first, last), steps.num_items)
    tokens = items.num_tokens.astype(np.int64)
    before = np.cumsum(tokens) - tokens
    start = np.repeat(before[np.minimum(steps.first_item - low, len(items) - 1)], steps.num_items)
    num_prompt_tokens = recording.requests.num_prompt_tokens[items.request]
    is_decode = (items.num_needed == 1) & (items.num_computed_tokens >= num_prompt_tokens)
    return StepItems(items, step, budget - (before - start), is_decode)


def facts(
    recording: Recording, limits: Limits, first: int, last: int, cut: StepItems | None = None
) -> np.recarray:
    """All facts of steps [first, last), sorted by step and, within a step, in telling order."""
    cut = cut or step_items(recording, first, last, limits.budget)
    events = _events(recording, first, last)
    parts = [
        _chunks(cut, limits),
        _event_facts(events),
        _stops(recording, limits, cut, events, first, last),
    ]
    table = np.concatenate(parts)
    group = np.where(np.isin(table["kind"], CHUNK_KINDS), 0, table["kind"])
    return table[np.lexsort((np.arange(len(table)), group, table["step"]))].view(np.recarray)


def templates(limits: Limits) -> list[tuple[str, str, str]]:
    """The sentences with the limits of this run filled in; {request} {a} {b} {c} stay open."""
    words = limits.words()
    return [
        (chip, tone, text.replace("{budget}", words["budget"]).replace("{cap}", words["cap"]))
        for chip, tone, text in SENTENCES.values()
    ]


def sentences(
    recording: Recording, limits: Limits, step: int, label: Callable[[int], str]
) -> list[Sentence]:
    """What the inspector says about one step, without its duration. `label(r)` names request r."""
    first = decode_sentence(int(recording.steps.num_decodes[step]))
    lines = [first] if first else []
    filled = templates(limits)
    for fact in facts(recording, limits, step, step + 1):
        chip, tone, text = filled[fact.kind]
        words = {
            "request": label(int(fact.request)) if fact.request >= 0 else NO_REQUEST,
            "a": f"{fact.a:,}",
            "b": f"{fact.b:,}",
            "c": f"{fact.c:,}",
            "reason": REASONS[int(fact.a)] if fact.kind == KINDS["stop_plain"] else "",
        }
        lines.append(Sentence(_fill(chip, words), tone, _fill(text, words)))
    return lines


def decode_sentence(num_decodes: int) -> Sentence | None:
    """The line for the decodes of a step; None when it has none."""
    if num_decodes == 0:
        return None
    if num_decodes == 1:
        return Sentence("1 decode", "decode", "1 token")
    return Sentence(
        f"{num_decodes:,} decodes", "decode", f"{num_decodes:,} tokens, one each, in list order"
    )


def _fill(text: str, words: dict[str, str]) -> str:
    for name, value in words.items():
        text = text.replace("{" + name + "}", value)
    return text


def _table(n: int) -> np.ndarray:
    table = np.zeros(n, FACT)
    table["request"] = -1
    return table


def _chunks(cut: StepItems, limits: Limits) -> np.ndarray:
    chosen = ~cut.is_decode
    items = cut.items[chosen]
    table = _table(len(items))
    table["step"] = cut.step[chosen]
    table["request"] = items.request
    table["a"] = items.num_tokens
    table["b"] = items.num_needed
    table["c"] = cut.left[chosen]
    rule = np.minimum(table["b"], table["c"])
    if limits.cap:
        rule = np.minimum(rule, limits.cap)
    kind = np.where(table["a"] == table["b"], KINDS["chunk_completes"], KINDS["chunk"])
    table["kind"] = np.where(table["a"] == rule, kind, KINDS["chunk_clamped"])
    return table


def _events(recording: Recording, first: int, last: int) -> np.recarray:
    low, high = np.searchsorted(recording.events.step, [first, last])
    events: np.recarray = recording.events[low:high]
    return events


def _of_kind(events: np.recarray, *kinds: int) -> np.recarray:
    """The events of some kinds."""
    found: Any = events[np.isin(events.kind, kinds)]
    return cast(np.recarray, found)


def _event_facts(events: np.recarray) -> np.ndarray:
    kinds = np.full(len(reasons.EVENTS), -1)
    for event, name in _EVENT_KINDS.items():
        kinds[event] = KINDS[name]
    kind = kinds[events.kind]
    kind[(events.kind == reasons.ADMITTED) & (events.value > 0)] = KINDS["hit"]
    told = events[kind >= 0]
    table = _table(len(told))
    table["step"], table["request"], table["kind"] = told.step, told.request, kind[kind >= 0]
    table["a"], table["b"] = told.value, told.limit
    return table


def _stops(
    recording: Recording, limits: Limits, cut: StepItems, events: np.recarray, first: int, last: int
) -> np.ndarray:
    """One fact per step: what stopped it, with the numbers of the event that the policy wrote."""
    steps = recording.steps[first:last]
    table = _table(len(steps))
    table["step"] = np.arange(first, last)
    used = np.bincount(cut.step - first, weights=cut.items.num_tokens, minlength=len(steps)).astype(
        np.int64
    )
    table["a"] = limits.budget - used
    table["kind"] = KINDS["stop_plain"]
    why = steps.stop_reason
    table["kind"][why == reasons.QUEUE_EMPTY] = KINDS["stop_queue_empty"]
    table["kind"][why == reasons.PREEMPTED] = KINDS["stop_preempted_plain"]
    _say_budget(table, why, cut, events, first)
    _say_cap(table, why, cut, limits, events, first)
    for reason, (name, kinds) in _STOPS.items():
        _say_refusal(table, why == reason, KINDS[name], _of_kind(events, *kinds), first)
    gate = _of_kind(events, reasons.REFUSED_FULL_PROMPT)
    _say_refusal(table, why == reasons.KV_BLOCKS, KINDS["stop_full_prompt"], gate, first)
    plain = table["kind"] == KINDS["stop_plain"]
    table["a"][plain] = why[plain]
    return table


def _say_budget(
    table: np.ndarray, why: np.ndarray, cut: StepItems, events: np.recarray, first: int
) -> None:
    spent = why == reasons.BUDGET
    table["kind"][spent] = KINDS["stop_budget_plain"]
    short = ~cut.is_decode & (cut.items.num_tokens < cut.items.num_needed)
    step = cut.step[short] - first
    step, at = np.unique(step[::-1], return_index=True)  # the last chunk cut in each step
    at = np.flatnonzero(short)[::-1][at]
    mine = spent[step]
    step, at = step[mine], at[mine]
    table["request"][step] = cut.items.request[at]
    new = _admitted(events, step + first, table["request"][step])
    table["kind"][step] = np.where(new, KINDS["stop_budget_cut_new"], KINDS["stop_budget_cut"])
    table["b"][step] = cut.items.num_needed[at] - cut.items.num_tokens[at]
    refused = _of_kind(events, reasons.REFUSED_BUDGET)
    step, at = np.unique(refused.step - first, return_index=True)
    mine = spent[step]
    table["kind"][step[mine]] = KINDS["stop_budget"]
    table["request"][step[mine]] = refused.request[at[mine]]


def _say_cap(
    table: np.ndarray,
    why: np.ndarray,
    cut: StepItems,
    limits: Limits,
    events: np.recarray,
    first: int,
) -> None:
    capped = ~cut.is_decode & (cut.items.num_tokens < cut.items.num_needed)
    capped &= cut.items.num_tokens == limits.cap
    step, at = np.unique(cut.step[capped] - first, return_index=True)
    mine = why[step] == reasons.CHUNK_CAP
    step, at = step[mine], at[mine]
    table["request"][step] = cut.items.request[np.flatnonzero(capped)[at]]
    new = _admitted(events, step + first, table["request"][step])
    table["kind"][step] = np.where(new, KINDS["stop_chunk_cap_new"], KINDS["stop_chunk_cap"])


def _admitted(events: np.recarray, step: np.ndarray, request: np.ndarray) -> np.ndarray:
    """Was the request admitted, or resumed, in the very step?"""
    admitted = _of_kind(events, reasons.ADMITTED, reasons.RESUMED)
    pairs = admitted.step.astype(np.int64) << 32 | admitted.request
    return np.isin(np.asarray(step, np.int64) << 32 | request, pairs)


def _say_refusal(
    table: np.ndarray, chosen: np.ndarray, kind: int, events: np.recarray, first: int
) -> None:
    """Give the chosen steps the numbers of their first event; steps without one stay as they
    are."""
    step, at = np.unique(events.step - first, return_index=True)
    mine = chosen[step]
    step, event = step[mine], events[at[mine]]
    table["kind"][step] = kind
    table["request"][step] = event.request
    table["a"][step], table["b"][step] = event.value, event.limit

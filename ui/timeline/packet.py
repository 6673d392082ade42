"""A Recording as packed bytes for the timeline: NumPy in, bytes out, no streamlit.

    packet = u32 length of the header | header, JSON in UTF-8 padded to 8 bytes | arrays
    header = {"version", "lanes": [...], "arrays": [[name, dtype, offset, length], ...],
              "names": {array of codes: [name of code 0, ...]}, ...}

Little-endian typed arrays, each at a multiple of 8 bytes from the end of the header; integers take
the smallest width that holds them. Array names start with the number of their lane ("0.start").
Times are f4 seconds from the lane's `t0_s`, which keeps a microsecond over a window of ten
seconds. 200 steps of 30 requests are about 15 KB. Runs above 40 rows or 4,000 steps carry an
overview of the whole run and a window of 40 rows whose packet stays under 64 KB.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sim.core.recording import Recording
from ui.text import explain
from ui.text.step_explanations import SENTENCES
from ui.timeline import overview, rows

VERSION = 1
MAX_ROWS = 40
MAX_STEPS = 4000
WINDOW_STEPS = 1000  # steps a window starts with; halved until it fits MAX_WINDOW_BYTES
MAX_WINDOW_BYTES = 64 * 1024
MAX_LABEL = 40
TERMS_WHOLE = 32768  # the share of a term that is the whole duration

Header = dict[str, Any]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Lane:
    """One run on the clock: what happened and what to call it.

    `breakdown_s` is (num_steps, len(terms)) seconds, or None where there is nothing to break down;
    `terms_text` says them, {0} standing for the milliseconds of the first term.
    `itl_limit_s` is the reader's limit for a gap between two tokens.
    """

    title: str
    notes: tuple[str, ...]
    recording: Recording
    label: Callable[[int], str]
    limits: explain.Limits
    itl_limit_s: float
    terms: tuple[str, ...] = ()
    breakdown_s: np.ndarray | None = None
    terms_text: str = ""


@dataclass(frozen=True)
class Window:
    """What part of a large run to show: 40 rows from `first_row` on, steps from a time on."""

    order: str = "arrival"  # one of rows.ORDERS
    first_row: int = 0
    start_s: float = 0.0
    end_s: float = math.inf

    def __post_init__(self) -> None:
        if self.order not in rows.ORDERS:
            raise ValueError(f"order must be one of {', '.join(rows.ORDERS)}, not {self.order!r}")


def build(lanes: list[Lane], window: Window | None = None) -> bytes:
    """Pack one run, or two for comparison. Without a window a large run is shown where its story
    is."""
    if not any(needs_overview(lane.recording) for lane in lanes):
        return _pack(lanes, window or Window(), MAX_STEPS)
    if window is None:
        (start_s, _), _ = rows.focus(lanes[0].recording, lanes[0].itl_limit_s)
        window = Window(start_s=start_s)
    num_steps = WINDOW_STEPS
    packed = _pack(lanes, window, num_steps)
    while len(packed) > MAX_WINDOW_BYTES and num_steps > 16:
        num_steps //= 2
        packed = _pack(lanes, window, num_steps)
    return packed


def needs_overview(recording: Recording) -> bool:
    """Too much to draw one row per request and one column per step."""
    return len(recording.requests) > MAX_ROWS or len(recording.steps) > MAX_STEPS


def _pack(lanes: list[Lane], window: Window, num_steps: int) -> bytes:
    headers: list[Header] = []
    arrays: Arrays = {}
    chosen: rows.Shown | None = None
    for number, lane in enumerate(lanes):
        if number and needs_overview(lanes[0].recording):  # the same seconds, the same requests
            window = replace(window, start_s=headers[0]["t0_s"], end_s=headers[0]["window_end_s"])
        same = len(lane.recording.requests) == len(lanes[0].recording.requests)
        header, mine, shown = _lane(lane, window, num_steps, chosen if same else None)
        chosen = shown if number == 0 else chosen
        headers.append(header)
        arrays.update({f"{number}.{name}": values for name, values in mine.items()})
    texts = [[name, *parts] for name, parts in SENTENCES.items()]
    return write(tables(texts) | {"version": VERSION, "lanes": headers}, arrays)


def tables(texts: list[list[str]], **names: Sequence[str]) -> Header:
    """What a packet says beside its lanes: the sentences of its facts, and the name of each code.
    `names`: those of arrays that the timeline does not have."""
    return {
        "texts": texts,
        "reasons": explain.REASONS,
        "names": {**rows.NAMES, **names},
        "rejections": explain.REJECTIONS,
    }


def write(header: Header, arrays: Arrays) -> bytes:
    """Lay a header and named one-dimensional arrays out as a packet."""
    table, blobs, offset = [], [], 0
    for name, values in arrays.items():
        blob = values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
        table.append([name, values.dtype.str[1:], offset, len(values)])
        blobs.append(blob + bytes(-len(blob) % 8))
        offset += len(blobs[-1])
    text = json.dumps({**header, "arrays": table}, separators=(",", ":"), ensure_ascii=False)
    encoded = text.encode()
    encoded += b" " * (-(len(encoded) + 4) % 8)
    return len(encoded).to_bytes(4, "little") + encoded + b"".join(blobs)


def read(packet: bytes) -> tuple[Header, Arrays]:
    """The inverse of `write`: what the browser does, for tests."""
    length = int.from_bytes(packet[:4], "little")
    header = json.loads(packet[4 : 4 + length])
    arrays = {
        name: np.frombuffer(packet, "<" + dtype, count, 4 + length + offset)
        for name, dtype, offset, count in header["arrays"]
    }
    return header, arrays


def smallest(values: np.ndarray) -> np.ndarray:
    """Non-negative integers in the narrowest unsigned type that holds them all."""
    top = int(values.max()) if len(values) else 0
    width = np.uint8 if top < 2**8 else np.uint16 if top < 2**16 else np.uint32
    clipped: np.ndarray = np.clip(values, 0, None).astype(width)
    return clipped


def _lane(
    lane: Lane, window: Window, num_steps: int, wanted: rows.Shown | None
) -> tuple[Header, Arrays, rows.Shown]:
    """`wanted`: the rows of the lane above, taken where there is one."""
    recording = lane.recording
    first, last = _steps_of(recording, window, num_steps)
    steps = recording.steps
    t0 = float(steps.start_s[first]) if first < last else 0.0
    t1 = float(steps.start_s[last - 1] + steps.duration_s[last - 1]) if first < last else 0.0
    chosen = wanted or rows.choose(recording, window.order, window.first_row, MAX_ROWS, (t0, t1))
    shown = chosen.ids
    cut = explain.step_items(recording, first, last, lane.limits.budget)
    told = explain.facts(recording, lane.limits, first, last, cut)
    others = np.setdiff1d(told.request[told.request >= 0], shown)
    named = np.concatenate([shown, others])
    index = np.full(len(recording.requests) + 1, -1)
    index[named] = np.arange(len(named))

    arrays = _step_arrays(lane, first, last, t0)
    arrays |= rows.row_arrays(recording, shown, t0)
    arrays |= rows.wait_arrays(recording, shown, first, last, t0)
    arrays |= {
        name: smallest(a) for name, a in rows.run_arrays(cut, index, len(shown), first).items()
    }
    arrays |= _fact_arrays(told, index, first)
    header = _lane_header(lane, window, first, t0)
    header |= {"first_row": chosen.first, "total_rows": chosen.total, "window_end_s": t1}
    header["labels"] = [lane.label(int(r))[:MAX_LABEL] for r in named]
    header["num_rows"] = len(shown)
    if needs_overview(recording):
        header |= {"overview": overview.span(recording), "fill_whole": overview.FILL_WHOLE}
        arrays |= overview.arrays(recording, lane.limits.budget)
    return header, arrays, chosen


def _steps_of(recording: Recording, window: Window, num_steps: int) -> tuple[int, int]:
    """The steps [first, last) that touch the window, at most `num_steps` of them."""
    steps = recording.steps
    if not needs_overview(recording):
        return 0, len(steps)
    first = int(np.searchsorted(steps.start_s + steps.duration_s, window.start_s, side="right"))
    first = max(0, min(first, len(steps) - 1))
    last = int(np.searchsorted(steps.start_s, window.end_s))
    return first, max(first, min(last, first + num_steps))


def _lane_header(lane: Lane, window: Window, first: int, t0: float) -> Header:
    recording = lane.recording
    steps = recording.steps
    end = float(steps.start_s[-1] + steps.duration_s[-1]) if len(steps) else 0.0
    start = float(steps.start_s[0]) if len(steps) else 0.0
    arrivals = recording.requests.arrival_s
    known = arrivals[np.isfinite(arrivals)]
    focus_s, cue_s = rows.focus(recording, lane.itl_limit_s)
    if len(known):
        start = min(start, float(known.min()))
        end = end if len(steps) else float(known.max())
    return {
        "title": lane.title,
        "notes": list(lane.notes),
        "budget": lane.limits.budget,
        "cap": lane.limits.cap,
        "itl_limit_s": lane.itl_limit_s,
        "t0_s": t0,
        "span_s": [start, end],
        "first_step": first,
        "total_steps": len(steps),
        "order": window.order,
        "orders": list(rows.ORDERS.items()),
        "kv_blocks": recording.num_blocks,
        "terms": list(lane.terms),
        "terms_text": lane.terms_text,
        "terms_whole": TERMS_WHOLE,
        "status": recording.status,
        "reason": recording.reason,
        "focus_s": focus_s,
        "cue_s": cue_s,
    }


def _step_arrays(lane: Lane, first: int, last: int, t0: float) -> Arrays:
    steps = lane.recording.steps[first:last]
    arrays = {
        "start": (steps.start_s - t0).astype(np.float32),
        "duration": steps.duration_s.astype(np.float32),
        "prefill": smallest(steps.num_prefill_tokens),
        "decodes": smallest(steps.num_decodes),
        "running": smallest(steps.num_running),
        "waiting": smallest(steps.num_waiting),
        "kv": smallest(steps.kv_blocks),
    }
    if lane.breakdown_s is not None and len(lane.terms):
        parts = lane.breakdown_s[first:last] / np.maximum(steps.duration_s, 1e-12)[:, None]
        quantised = np.clip(np.rint(parts * TERMS_WHOLE), 0, 65535)
        arrays["terms_share"] = quantised.astype(np.uint16).ravel()  # (steps, terms)
    return arrays


def _fact_arrays(told: np.recarray, index: np.ndarray, first: int) -> Arrays:
    request = index[told.request]  # request -1 reads the last entry: -1
    return {
        "fact_step": smallest(told.step - first),
        "fact_kind": smallest(told.kind),
        "fact_request": smallest(request + 1),  # 0: none
        "fact_a": smallest(told.a),
        "fact_b": smallest(told.b),
        "fact_c": smallest(told.c),
    }

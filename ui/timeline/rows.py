"""The rows of the timeline: which requests are shown, and what each one's row is made of."""

from dataclasses import dataclass

import numpy as np

from sim.core import reasons
from sim.core.recording import Recording
from ui.text.explain import StepItems

ORDERS = {"arrival": "arrival", "ttft": "TTFT, longest first", "worst gap": "worst gap first"}
WAIT_KINDS = ("waiting", "preempted")
WAITING, PREEMPTED = range(len(WAIT_KINDS))
# array of codes: the name of each code. Names travel with the packet, so the browser has no copy.
NAMES = {
    "row_status": reasons.STATUSES,
    "row_rejection": reasons.REJECTIONS,
    "wait_kind": WAIT_KINDS,
}
FEW_STEPS = 60  # a run this short is shown whole


@dataclass(frozen=True)
class Shown:
    """The requests that have a row: ids in row order, of how many, and the first one's place."""

    ids: np.ndarray
    first: int
    total: int


def choose(
    recording: Recording, order: str, first_row: int, max_rows: int, span_s: tuple[float, float]
) -> Shown:
    """At most `max_rows` requests from row `first_row` on, in the order asked for.

    All requests where they have room; else those that are in the system some time in `span_s`.
    """
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}, not {order!r}")
    requests = recording.requests
    if len(requests) <= max_rows:
        ids = np.arange(len(requests))
    else:
        ended = np.where(requests.status == reasons.REJECTED, requests.arrival_s, requests.end_s)
        here = (requests.arrival_s <= span_s[1]) & ~(ended < span_s[0])
        ids = np.flatnonzero(here)
    by = {"ttft": requests.first_token_s - requests.arrival_s, "worst gap": requests.max_gap_s}
    if order in by:
        ids = ids[np.argsort(-np.nan_to_num(by[order][ids], nan=-1.0), kind="stable")]
    first = max(0, min(first_row, len(ids) - max_rows))
    return Shown(ids[first : first + max_rows], first, len(ids))


def row_arrays(recording: Recording, shown: np.ndarray, t0: float) -> dict[str, np.ndarray]:
    """One value per row; times are seconds from t0, nan for what did not happen."""
    requests = recording.requests[shown]
    arrival = np.where(np.isfinite(requests.arrival_s), requests.arrival_s, np.nan)
    return {
        "row_arrival": (arrival - t0).astype(np.float32),
        "row_first_token": (requests.first_token_s - t0).astype(np.float32),
        "row_end": (requests.end_s - t0).astype(np.float32),
        "row_worst": requests.max_gap_s.astype(np.float32),
        "row_prompt": requests.num_prompt_tokens.astype(np.uint32),
        "row_outputs": requests.num_output_tokens.astype(np.uint32),
        "row_status": requests.status.astype(np.uint8),
        "row_rejection": requests.rejection.astype(np.uint8),
        "row_hits": requests.hit_tokens.astype(np.uint32),
        "row_before": (_last_token_before(recording, shown, t0) - t0).astype(np.float32),
    }


def _last_token_before(recording: Recording, shown: np.ndarray, t0: float) -> np.ndarray:
    """When each row's last token before t0 came (s), nan where none did.

    Most tokens follow the step before theirs, so only rows with a token before t0 are searched, and
    these backwards, a slice of steps at a time.
    """
    found = np.full(len(shown), np.nan)
    first_token = recording.requests.first_token_s[shown]
    open_rows = {int(r): k for k, r in enumerate(shown) if first_token[k] <= t0}
    last = int(np.searchsorted(recording.steps.start_s, t0))
    while open_rows and last > 0 and len(recording.items):
        first = max(0, last - 256)
        low = int(recording.steps.first_item[first])
        high = int(recording.steps.first_item[last - 1]) + int(recording.steps.num_items[last - 1])
        items = recording.items[low:high]
        step = np.repeat(np.arange(first, last), recording.steps.num_items[first:last])
        emits = items.num_tokens == items.num_needed
        mine = emits & np.isin(items.request, list(open_rows))
        latest = dict(zip(items.request[mine].tolist(), step[mine].tolist(), strict=True))
        for r, s in latest.items():
            found[open_rows.pop(r)] = recording.steps.start_s[s] + recording.steps.duration_s[s]
        last = first
    return found


def wait_arrays(
    recording: Recording, shown: np.ndarray, first: int, last: int, t0: float
) -> dict[str, np.ndarray]:
    """Intervals in which a row waited: before its first step, or preempted. Seconds from t0."""
    steps, requests = recording.steps, recording.requests
    ends = steps.start_s + steps.duration_s  # of several servers the last one is not always last
    end_of_run = float(ends.max(initial=0.0))
    waits: list[tuple[int, int, float, float]] = []

    def add(k: int, what: int, a: float, b: float) -> None:
        if b > a and first < last and b >= t0 and a <= window_end:
            waits.append((k, what, a - t0, b - t0))

    window_end = float(ends[first:last].max(initial=0.0))
    for k, r in enumerate(shown):
        request = requests[r]
        if not np.isfinite(request.arrival_s) or request.status == reasons.REJECTED:
            continue
        until = np.nan_to_num(request.end_s, nan=end_of_run)
        add(k, WAITING, request.arrival_s, np.nan_to_num(request.first_scheduled_s, nan=until))
    for k, a, b in _preemptions(recording, shown, end_of_run):
        add(k, PREEMPTED, a, b)
    row, kind, start, stop = zip(*waits, strict=True) if waits else ((), (), (), ())
    return {
        "wait_row": np.array(row, np.uint8),
        "wait_kind": np.array(kind, np.uint8),
        "wait_start": np.array(start, np.float32),
        "wait_stop": np.array(stop, np.float32),
    }


def _preemptions(
    recording: Recording, shown: np.ndarray, end_of_run: float
) -> list[tuple[int, float, float]]:
    """(row, from, until) in seconds for every preemption of the rows."""
    events, start = recording.events, recording.steps.start_s
    chosen = np.isin(events.kind, (reasons.PREEMPTION, reasons.RESUMED))
    chosen &= np.isin(events.request, shown[recording.requests.num_preemptions[shown] > 0])
    row_of = {int(r): k for k, r in enumerate(shown)}
    since: dict[int, float] = {}
    found = []
    for event in events[chosen]:
        k, t = row_of[int(event.request)], float(start[event.step])
        if event.kind == reasons.PREEMPTION:
            since[k] = t
        elif k in since:
            found.append((k, since.pop(k), t))
    for k, t in since.items():
        end = float(np.nan_to_num(recording.requests.end_s[shown[k]], nan=end_of_run))
        found.append((k, t, end))
    return found


def run_arrays(
    cut: StepItems, index: np.ndarray, num_rows: int, first: int
) -> dict[str, np.ndarray]:
    """Stretches of consecutive steps in which a row decodes one token each: row, first, last
    step."""
    row = index[cut.items.request]
    mine = cut.is_decode & (row >= 0) & (row < num_rows)
    row, step = row[mine], cut.step[mine] - first
    order = np.lexsort((step, row))
    row, step = row[order], step[order]
    starts = np.ones(len(row), bool)
    starts[1:] = (row[1:] != row[:-1]) | (step[1:] != step[:-1] + 1)
    at = np.flatnonzero(starts)
    ends = np.append(at[1:], len(row)) - 1 if len(at) else at
    return {"run_row": row[at], "run_first": step[at], "run_last": step[ends]}


def focus(recording: Recording, itl_limit_s: float) -> tuple[tuple[float, float], float]:
    """What to look at first, in seconds of the clock: a stretch, and the moment of the play head.

    The stretch is that of the longest prompt, from before it arrives until its first token is out
    and the streams have recovered; the moment is where its work begins.
    """
    requests, steps = recording.requests, recording.steps
    if not len(steps):
        return (0.0, 1.0), 0.0
    first, last = float(steps.start_s[0]), float(steps.start_s[-1] + steps.duration_s[-1])
    answered = np.isfinite(requests.first_token_s)
    if not answered.any():
        return (first, last), first
    longest = requests[int(np.argmax(np.where(answered, requests.num_prompt_tokens, -1)))]
    cue = float(longest.first_scheduled_s)
    if len(steps) <= FEW_STEPS:
        return (first, last), cue
    start, stop = float(longest.arrival_s), float(longest.first_token_s)
    usual = float(np.median(steps.duration_s))
    stop = max(stop, start + FEW_STEPS * usual, start + itl_limit_s)
    margin = stop - start
    return (max(first, start - 0.5 * margin), min(last, stop + margin)), cue

"""A toy scheduler that fills the tables of a Recording, for tests of what is drawn from one.

First come first served, chunked, one token budget, no KV limit; durations from the linear toy.
Small enough to check by hand; the real scheduler has tests of its own.
"""

import numpy as np

from sim.cluster.cluster_state import KV_TRANSFER
from sim.core import reasons
from sim.core.recording import EVENT, GAP, ITEM, STEP, Recording
from sim.core.requests import empty_requests

STEP_S, PREFILL_S, DECODE_S = 0.005, 12e-6, 40e-6


def run(
    asked: list[tuple[float, int, int]], budget: int, cap: int = 0, max_steps: int = 100_000
) -> Recording:
    """`asked`: (arrival_s, prompt_len, output_len) in arrival order."""
    requests = empty_requests(len(asked))
    for request, (arrival, prompt, output) in zip(requests, asked, strict=True):
        request.arrival_s, request.num_prompt_tokens, request.num_tokens = arrival, prompt, prompt
        request.output_len = request.max_tokens = output
    now, done = 0.0, 0
    running: list[int] = []
    waiting: list[int] = []
    arrived = 0
    steps, items, events, gaps = [], [], [], []
    while done < len(asked) and len(steps) < max_steps:
        while arrived < len(asked) and requests[arrived].arrival_s <= now:
            waiting.append(arrived)
            arrived += 1
        if not running and not waiting:
            now = float(requests[arrived].arrival_s)
            continue
        step, plan, stop = len(steps), [], reasons.QUEUE_EMPTY
        left, events_before = budget, len(events)
        for r in list(running):
            if left == 0:
                break
            left -= _serve(requests, r, left, cap, plan)
        while waiting and left > 0:
            r = waiting.pop(0)
            running.append(r)
            requests[r].first_scheduled_s = now
            events.append((step, r, reasons.ADMITTED, 0, 0))
            left -= _serve(requests, r, left, cap, plan)
        if left == 0:
            stop = reasons.BUDGET
            if waiting:
                want = int(requests[waiting[0]].num_tokens)
                events.append((step, waiting[0], reasons.REFUSED_BUDGET, want, 0))
        elif any(n < needed for _, n, _, needed in plan):
            stop = reasons.CHUNK_CAP
        decodes = sum(
            1 for r, _, c, need in plan if need == 1 and c >= requests[r].num_prompt_tokens
        )
        tokens = sum(n for _, n, _, _ in plan)
        duration = STEP_S + PREFILL_S * (tokens - decodes) + DECODE_S * decodes
        row = np.zeros(1, STEP)
        row["start_s"], row["duration_s"] = now, duration
        row["first_item"], row["num_items"] = len(items), len(plan)
        row["first_event"], row["num_events"] = events_before, len(events) - events_before
        row["stop_reason"], row["num_running"], row["num_waiting"] = (
            stop,
            len(running),
            len(waiting),
        )
        row["num_prefill_tokens"], row["num_decodes"] = tokens - decodes, decodes
        items.extend(plan)
        now += duration
        for r, n, _, needed in plan:
            request = requests[r]
            request.num_computed_tokens += n
            if n < needed:
                continue
            if request.num_output_tokens == 0:
                request.first_token_s = now
            else:
                gap = now - request.last_token_s
                request.max_gap_s = max(request.max_gap_s, gap)
                if abs(gap - duration) < 1e-12:
                    row["num_regular_gaps"] += 1
                else:
                    gaps.append((step, r, gap))
            request.last_token_s = now
            request.num_output_tokens += 1
            request.num_tokens += 1
            if request.num_output_tokens == request.output_len:
                request.status, request.finish_reason = reasons.FINISHED, reasons.LENGTH
                request.end_s = now
                running.remove(r)
                done += 1
        steps.append(row[0])
    return Recording(
        steps=np.array(steps, STEP).view(np.recarray),
        items=np.array(items, ITEM).view(np.recarray),
        events=np.array(events, EVENT).view(np.recarray),
        gaps=np.array(gaps, GAP).view(np.recarray),
        requests=requests,
        status="finished" if done == len(asked) else "bounded",
        reason=None,
        stuck_request=-1,
        block_size=16,
        num_blocks=1000,
        peak_kv_blocks=0,
        replica_blocks=np.array([1000]),
        replica_peaks=np.array([0]),
        prefill_requests=requests[:0],
        kv_transfers=np.zeros(0, KV_TRANSFER).view(np.recarray),
    )


def _serve(requests: np.recarray, r: int, left: int, cap: int, plan: list) -> int:
    request = requests[r]
    needed = int(request.num_tokens - request.num_computed_tokens)
    n = min(needed, left, cap or needed)
    plan.append((r, n, int(request.num_computed_tokens), needed))
    return n


def chats_and_document() -> list[tuple[float, int, int]]:
    """Four chats, an 8,000-token document at 160 ms, two more chats."""
    chats = [(0.0, 96, 120), (0.012, 160, 120), (0.03, 64, 120), (0.055, 220, 120)]
    return [*chats, (0.16, 8000, 40), (0.21, 120, 80), (0.3, 90, 80)]

"""Metrics of a measured server, beside the simulation of the same requests."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_backend.serve_check.request_timing import Outcome
from sim.results.metrics import percentile_block
from sim.results.run import run_resolved
from sim.scenario.load import Scenario, resolve
from sim.workload.workload import Workload

__all__ = ["TPOT_DEFINITION", "compare", "gaps_of", "measured_figures", "simulated_figures"]

TPOT_DEFINITION = "(E2E - TTFT) / (output tokens - 1), as in vLLM's benchmark and AIPerf"
BLOCKS = ("ttft_s", "itl_s", "tpot_s", "e2e_s")
LATE_S = 0.010  # a client later than this is not an open loop
TOKENS_OFF = 0.02  # relative difference of counted and requested tokens below which no note is made

Floats = NDArray[np.float64]
Figures = dict[str, Any]


def points(values: Sequence[float] | Floats) -> dict[str, float] | None:
    """p50 and p95, None for no values."""
    block = percentile_block(np.asarray(values, np.float64))
    return None if block is None else {name: block[name] for name in ("p50", "p95")}


def gaps_of(outcome: Outcome) -> list[float]:
    """Seconds between the chunks of an answer."""
    return np.diff(outcome.chunk_s).tolist()


def one_token_each(outcome: Outcome) -> bool:
    """Whether every chunk carried one token. The EOS token has no text and therefore no chunk."""
    silent = 1 if outcome.finish_reason == "stop" else 0
    return outcome.output_tokens in (len(outcome.chunk_s), len(outcome.chunk_s) + silent)


def measured_figures(outcomes: Sequence[Outcome]) -> Figures:
    """TTFT, ITL, TPOT, E2E of finished requests, throughput of all; definitions in endpoint.py."""
    finished = [o for o in outcomes if o.status == "finished" and o.sent_s is not None]
    started = [o for o in outcomes if o.sent_s is not None and o.chunk_s]
    counted = [o for o in finished if (o.output_tokens or 0) > 1]
    tokens = sum(o.output_tokens or 0 for o in started)
    duration = (
        max(o.chunk_s[-1] for o in started) - min(o.sent_s or 0.0 for o in started)
        if started
        else 0.0
    )
    return {
        "ttft_s": points([o.chunk_s[0] - (o.sent_s or 0.0) for o in started]),
        "itl_s": points([gap for o in finished if one_token_each(o) for gap in gaps_of(o)]),
        "tpot_s": points(
            [(o.chunk_s[-1] - o.chunk_s[0]) / ((o.output_tokens or 0) - 1) for o in counted]
        ),
        "e2e_s": points([o.chunk_s[-1] - (o.sent_s or 0.0) for o in finished]),
        "duration_s": duration,
        "output_tokens_per_s": tokens / duration if tokens and duration > 0 else None,
        "inter_chunk_s": points([gap for o in finished for gap in gaps_of(o)]),
        "ttft_visible_s": points(
            [
                o.first_visible_s - (o.sent_s or 0.0)
                for o in started
                if o.first_visible_s is not None
            ]
        ),
    }


def as_served(workload: Workload, outcomes: Sequence[Outcome]) -> Workload:
    """The workload with the token counts that the server reported."""
    first = workload.first_run + workload.num_runs - 1
    shortest = np.array([workload.runs["start"][k] for k in first], np.int64) + 1
    prompt, output = workload.num_prompt_tokens.copy(), workload.output_len.copy()
    for o in outcomes:
        if o.prompt_tokens is not None:
            prompt[o.index] = max(o.prompt_tokens, int(shortest[o.index]))
        if o.output_tokens:
            output[o.index] = o.output_tokens
    return replace(workload, num_prompt_tokens=prompt, output_len=output, max_tokens=output)


def simulated_figures(
    scenario: Scenario, workload: Workload, outcomes: Sequence[Outcome]
) -> Figures:
    """The same metrics simulated for the server of the scenario, with the requests as served."""
    summary = run_resolved(
        resolve(scenario), as_served(workload, outcomes), record_items=False
    ).summary
    figures: Figures = {}
    for name in BLOCKS:
        block = summary[name]
        figures[name] = block and {point: block[point] for point in ("p50", "p95")}
    return figures | {name: summary[name] for name in ("duration_s", "output_tokens_per_s")}


def difference(measured: Figures, simulated: Figures) -> Figures:
    """simulated / measured - 1, None where either is missing."""

    def share(real: float | None, ours: float | None) -> float | None:
        return None if not real or ours is None else ours / real - 1.0

    figures: Figures = {}
    for name in BLOCKS:
        real, ours = measured[name] or {}, simulated[name] or {}
        figures[name] = {point: share(real.get(point), ours.get(point)) for point in ("p50", "p95")}
    for name in ("duration_s", "output_tokens_per_s"):
        figures[name] = share(measured[name], simulated[name])
    return figures


# --- what must be said ----------------------------------------------------------------------------


def contamination(outcomes: Sequence[Outcome]) -> list[str]:
    """Why the run was not an open loop, None if it was."""
    sent = [o for o in outcomes if o.sent_s is not None]
    late = [(o.sent_s or 0.0) - o.arrival_s for o in sent]
    worst = max(late, default=0.0)
    count = sum(lag > LATE_S for lag in late)
    if count == 0:
        return []
    return [f"{count} of {len(sent)} requests went out late, by up to {worst * 1e3:.0f} ms"]


def notes_of(workload: Workload, outcomes: Sequence[Outcome]) -> list[str]:
    """Notes on the metrics."""
    notes = []
    finished = [o for o in outcomes if o.status == "finished"]
    uncounted = sum(o.output_tokens is None for o in finished)
    if uncounted:
        notes.append(f"{uncounted} answers came without usage: no tokens, TPOT or ITL for them")
    packed = sum(not one_token_each(o) for o in finished if o.output_tokens is not None)
    if packed:
        notes.append(
            f"{packed} answers had chunks of several tokens: not in ITL; inter-chunk latency has "
            "them"
        )
    if any(o.status == "cancelled" and o.chunk_s for o in outcomes):
        notes.append("answers that were cut off have a TTFT only; no throughput has their tokens")
    undone = sum(not o.done for o in finished)
    if undone:
        notes.append(f"{undone} answers ended without [DONE]")
    for name, words in (("prompt_tokens", "prompt"), ("output_tokens", "output")):
        known = [o for o in finished if getattr(o, name) is not None]
        wanted_of = workload.num_prompt_tokens if name == "prompt_tokens" else workload.output_len
        wanted = sum(int(wanted_of[o.index]) for o in known)
        real = sum(getattr(o, name) for o in known)
        if known and abs(real - wanted) > TOKENS_OFF * wanted:
            notes.append(
                f"{real:,} {words} tokens were counted by the server, {wanted:,} were asked for; "
                "the simulation runs with the server's"
            )
    if any(o.reasoning_tokens or (o.chunk_s and o.first_visible_s is None) for o in finished):
        notes.append("TTFT is that of the first reasoning token; ttft_visible_s of the answer")
    return notes


def compare(
    model: str, outcomes: Sequence[Outcome], workload: Workload, scenario: Scenario | None
) -> Figures:
    """The report of serve-check, in the shape of `serve-check --json`. `scenario` None: no
    simulation."""
    measured = measured_figures(outcomes)
    simulated = None if scenario is None else simulated_figures(scenario, workload, outcomes)
    why, notes = contamination(outcomes), notes_of(workload, outcomes)
    errors = Counter(o.error for o in outcomes if o.error)
    statuses = Counter(o.status for o in outcomes)
    if simulated is not None and statuses["cancelled"]:
        notes.append("the simulation serves the cancelled requests to their end")
    return {
        "model": model,
        "requests": len(outcomes),
        **{name: statuses[name] for name in ("finished", "failed", "aborted", "cancelled")},
        "errors": dict(errors.most_common()),
        "contaminated": bool(why),
        "contaminated_why": "; ".join(why) or None,
        "tpot_definition": TPOT_DEFINITION,
        "prompt_tokens": sum(o.prompt_tokens or 0 for o in outcomes),
        "output_tokens": sum(o.output_tokens or 0 for o in outcomes),
        "cached_tokens": sum(o.cached_tokens or 0 for o in outcomes),
        "measured": measured,
        "simulated": simulated,
        "difference": None if simulated is None else difference(measured, simulated),
        "notes": notes,
    }

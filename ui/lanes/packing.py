"""Small timelines one above the other as packed bytes: NumPy in, bytes out, no streamlit.

The packet has the timeline's layout (ui.timeline.packet), with the arrays that a small lane draws:
arrival, waiting, chunks, runs of decodes, KV on its way, the steps' times. Of several servers the
steps of each stand together: "servers" says where.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sim.core.recording import Recording
from sim.results.run import Result
from ui.lanes import pools
from ui.scenarios.settings import itl_limit_s
from ui.text import explain
from ui.text.units import Parts
from ui.timeline import rows
from ui.timeline.packet import Arrays, Header, smallest, tables, write

MOST_ROWS = 40
MOST_STEPS = 4_000


@dataclass(frozen=True)
class LaneText:
    """A lane beside its picture: its name, its knobs in words, its figures, or why it did not
    run."""

    engine: str
    title: str
    note: str
    figures: tuple[Parts, ...] = ()
    problem: str = ""


def pack(lanes: Sequence[tuple[LaneText, Result | None]]) -> bytes:
    """A packet of lanes; one that was refused has words instead of a picture."""
    headers: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray] = {}
    for k, (text, result) in enumerate(lanes):
        header, mine = (empty(), {}) if result is None else lane(result)
        headers.append(header | words(text))
        arrays |= {f"{k}.{name}": values for name, values in mine.items()}
    return join(headers, arrays)


def join(headers: Sequence[Header], arrays: Arrays) -> bytes:
    """A packet of lanes: their headers, and arrays whose names begin with a lane's number."""
    texts = [["chunk", "prefill", "prefill", ""]]
    names = {"transfer_outcome": pools.TRANSFER_OUTCOMES}
    return write(tables(texts, **names) | {"lanes": headers}, arrays)


def words(text: LaneText) -> dict[str, Any]:
    return {
        "engine": text.engine,
        "title": text.title,
        "note": text.note,
        "figures": text.figures,
        "problem": text.problem,
    }


def empty() -> dict[str, Any]:
    return {"num_rows": 0, "labels": [], "end_s": 0.0}


def lane(result: Result) -> tuple[dict[str, Any], Mapping[str, np.ndarray]]:
    """The header and the arrays of one run; times are seconds of the run's clock."""
    return drawn(pools.by_server(first_steps(result.recording)), result)


def first_steps(recording: Recording) -> Recording:
    """The part of a run that lanes draw."""
    return replace(recording, steps=recording.steps[:MOST_STEPS])


def drawn(recording: Recording, result: Result) -> tuple[dict[str, Any], Mapping[str, np.ndarray]]:
    """The same for a recording in which each server's steps are contiguous: a run or one pool."""
    steps = recording.steps
    count = len(steps)
    shown = np.arange(min(len(recording.requests), MOST_ROWS))
    index = np.full(len(recording.requests) + 1, -1)
    index[shown] = shown
    cut = explain.step_items(recording, 0, count, 0)
    end = float((steps.start_s + steps.duration_s).max()) if count else 0.0
    arrays = {
        "start": steps.start_s.astype(np.float32),
        "duration": steps.duration_s.astype(np.float32),
        "prefill": smallest(steps.num_prefill_tokens),
        "decodes": smallest(steps.num_decodes),
        "running": smallest(steps.num_running),
        "waiting": smallest(steps.num_waiting),
    }
    arrays |= rows.row_arrays(recording, shown, 0.0)
    arrays |= rows.wait_arrays(recording, shown, 0, count, 0.0)
    arrays |= pools.kv_transfers(recording, shown, 0.0)
    runs = rows.run_arrays(cut, index, len(shown), 0)
    arrays |= {name: smallest(values) for name, values in runs.items()}
    arrays |= chunk_arrays(cut, index)
    header = {
        "num_rows": len(shown),
        "labels": [result.workload.label(int(r))[:40] for r in shown],
        "itl_limit_s": itl_limit_s(result.scenario),
        "t0_s": 0.0,
        "first_step": 0,
        "end_s": end,
        "servers": pools.ranges(recording),
    }
    return header, arrays


def chunk_arrays(cut: explain.StepItems, index: np.ndarray) -> dict[str, np.ndarray]:
    """The prefill of each step, as the timeline's facts: whose, how many tokens, of how many
    needed."""
    request = index[cut.items.request]
    mine = ~cut.is_decode & (request >= 0)
    return {
        "fact_step": smallest(cut.step[mine]),
        "fact_kind": np.zeros(int(mine.sum()), np.uint8),
        "fact_request": smallest(request[mine] + 1),
        "fact_a": smallest(cut.items.num_tokens[mine]),
        "fact_b": smallest(cut.items.num_needed[mine]),
    }

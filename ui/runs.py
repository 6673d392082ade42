"""Runs of a page, and the pictures of them: what is cached, and under what key.

Pictures (a few KB of bytes and words) are cached for everybody under the scenario's digest and the
window; the Result behind the newest one stays with its session, so that moving a window on a large
run simulates nothing again. Workloads are shared: a dial that moves does not read a file twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import streamlit as st

from sim.run import Result, run_resolved, workload_of
from sim.scenario import Scenario, resolve
from sim.workload import Workload
from ui import breakdown, settings, story
from ui.explain import Limits
from ui.timeline import packet

DEADLINE_S = 8.0  # of this machine's time; a longer run is shown as far as it came
Uploads = Mapping[str, bytes]


@dataclass(frozen=True)
class Picture:
    """All that a page shows of one run."""

    packet: bytes
    sentence: story.Parts
    tiles: list[story.Tile]
    rejections: str | None
    ending: str | None  # why the run did not finish, None when it did
    max_model_len: int
    max_num_seqs: int
    notes: tuple[str, ...]


def picture(scenario: Scenario, window: packet.Window | None, uploads: Uploads) -> Picture:
    """The picture of a scenario, from the cache or new. ScenarioError where it is refused."""
    return _picture(scenario.digest, window, scenario, uploads)


@st.cache_data(max_entries=512, show_spinner=False)
def _picture(
    digest: str, window: packet.Window | None, _scenario: Scenario, _uploads: Uploads
) -> Picture:
    result = _result(digest, _scenario, _uploads)
    knobs = result.resolved.replicas[0].knobs
    summary = result.summary
    return Picture(
        packet=packet.build([lane_of(result, "Now")], window),
        sentence=story.sentence(result),
        tiles=story.tiles(result),
        rejections=story.rejections(result),
        ending=None
        if summary["status"] == "finished"
        else f"{summary['status']}: {summary['reason']}",
        max_model_len=knobs.max_model_len or 0,
        max_num_seqs=knobs.max_num_seqs or 0,
        notes=result.notes,
    )


def _result(digest: str, scenario: Scenario, uploads: Uploads) -> Result:
    """The session's newest Result, simulated where it is another scenario's."""
    kept = st.session_state.get("newest_result")
    if kept is not None and kept[0] == digest:
        return kept[1]
    resolved = resolve(scenario)
    key = scenario.workload.model_dump_json()
    workload, notes = _workload(key, scenario.seed, scenario, uploads)
    result = run_resolved(resolved, workload, notes=notes, deadline_s=DEADLINE_S)
    st.session_state["newest_result"] = (digest, result)
    return result


@st.cache_resource(max_entries=16, show_spinner=False)
def _workload(
    key: str, seed: int, _scenario: Scenario, _uploads: Uploads
) -> tuple[Workload, tuple[str, ...]]:
    return workload_of(_scenario, uploads=_uploads)


def lane_of(result: Result, title: str) -> packet.Lane:
    """A run as a lane of the timeline."""
    knobs = result.resolved.replicas[0].knobs
    budget = knobs.max_num_batched_tokens or 1
    parts = breakdown.of_steps(result.resolved.latency[0], result.trace.steps)
    return packet.Lane(
        title=title,
        notes=("chunks" if knobs.enable_chunked_prefill else "chunking off", f"budget {budget:,}"),
        trace=result.trace,
        label=result.workload.label,
        limits=Limits(budget, knobs.long_prefill_token_threshold),
        itl_limit_s=settings.itl_limit_s(result.scenario),
        terms=tuple(str(k) for k in range(np.shape(parts.seconds)[1])),
        terms_text=parts.text,
        breakdown_s=parts.seconds,
    )

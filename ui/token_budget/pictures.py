"""Runs of the page, and the pictures of them: what is cached, and under what key.

Pictures (a few KB of bytes and words) are cached for all sessions under the scenarios' digests and
the window. The Results behind the newest one stay with their session, so that moving a window on a
large run simulates nothing again.
"""

from dataclasses import dataclass, field

import numpy as np
import streamlit as st

from sim.results.provenance import provenance
from sim.results.run import Result, run_resolved
from sim.scenario.load import Scenario, resolve
from ui.scenarios import settings
from ui.scenarios.run import Run
from ui.shell.kernels import computed_first
from ui.shell.session import kept
from ui.shell.workload_cache import Uploads, workload
from ui.text import comparison, run_summary
from ui.text.explain import Limits
from ui.text.units import Parts
from ui.timeline import packet, step_breakdown

DEADLINE_S = 8.0  # of this machine's time; a longer run is shown as far as it got
NOW, PINNED = "now", "pinned"


@dataclass(frozen=True)
class Asked:
    """A run and its scenario."""

    run: Run
    scenario: Scenario


@dataclass(frozen=True)
class Picture:
    """All that a page shows of one run, or of two beside each other."""

    packet: bytes
    sentence: Parts
    tiles: list[run_summary.Tile]
    rejections: tuple[str, ...]
    ending: str | None  # why the run did not finish, None when it did
    max_model_len: int
    max_num_seqs: int
    engine: str
    worst_gap_s: float
    confidence: tuple[str, ...]  # how sure the milliseconds are


@dataclass
class Newest:
    """The newest Result of a session and the scenario's digest, in each place."""

    results: dict[str, tuple[str, Result]] = field(default_factory=dict)


def picture(
    asked: Asked, beside: Asked | None, window: packet.Window | None, uploads: Uploads
) -> Picture:
    """The picture of a run, and of the pinned one beside it, from the cache or new. ScenarioError
    where a scenario is refused."""
    other = None if beside is None else (beside.scenario.digest, beside.run)
    return _picture(asked.scenario.digest, asked.run, other, window, asked, beside, uploads)


@st.cache_data(max_entries=256, show_spinner=False)
def _picture(
    digest: str,
    run: Run,
    other: tuple[str, Run] | None,
    window: packet.Window | None,
    _asked: Asked,
    _beside: Asked | None,
    _uploads: Uploads,
) -> Picture:
    result = result_of(_asked.scenario, _uploads, NOW)
    lanes = [lane_of(result, "Now")]
    sentence, tiles = run_summary.sentence(result), run_summary.tiles(result)
    if _beside is not None:
        pinned = result_of(_beside.scenario, _uploads, PINNED)
        lanes.append(lane_of(pinned, "Pinned"))
        differ = comparison.differences(run, _beside.run)
        sentence = comparison.sentence(result, pinned, differ)
        tiles = comparison.tiles(result, pinned)
    knobs = settings.vllm_v1(result.resolved.replicas[0].knobs)
    summary = result.summary
    ended = summary["status"] == "finished"
    return Picture(
        packet=packet.build(lanes, window),
        sentence=sentence,
        tiles=tiles,
        rejections=() if result.all_rejected else result.rejections,  # else the sentence
        ending=None if ended else f"{summary['status']}: {summary['reason']}",
        max_model_len=knobs.max_model_len or 0,
        max_num_seqs=knobs.max_num_seqs or 0,
        engine=knobs.engine,
        worst_gap_s=run_summary.worst_gap_s(result),
        confidence=provenance(result.recording, result.resolved),
    )


def result_of(scenario: Scenario, uploads: Uploads, place: str = NOW) -> Result:
    """The session's newest Result in a place, simulated where it is another scenario's."""
    newest, digest = kept(Newest).results, scenario.digest
    for found in newest.values():
        if found[0] == digest:
            newest[place] = found
            return found[1]
    resolved = resolve(scenario)
    requests, notes = workload(scenario, uploads)

    def run() -> Result:
        return run_resolved(resolved, requests, notes=notes, deadline_s=DEADLINE_S)

    result = computed_first("token budget", digest, run)
    newest[place] = (digest, result)
    return result


def lane_of(result: Result, title: str) -> packet.Lane:
    """A run as a lane of the timeline."""
    knobs = settings.vllm_v1(result.resolved.replicas[0].knobs)
    budget = knobs.max_num_batched_tokens or 1
    parts = step_breakdown.of_steps(result.resolved.latency[0], result.recording.steps)
    return packet.Lane(
        title=title,
        notes=(how_prompts_run(result), f"budget {budget:,}"),
        recording=result.recording,
        label=result.workload.label,
        limits=Limits(budget, knobs.long_prefill_token_threshold),
        itl_limit_s=settings.itl_limit_s(result.scenario),
        terms=tuple(str(k) for k in range(np.shape(parts.seconds)[1])),
        terms_text=parts.text,
        breakdown_s=parts.seconds,
    )


def how_prompts_run(result: Result) -> str:
    """Chunks, where a prompt was cut; whole prompts, where none was or none may be."""
    knobs = settings.vllm_v1(result.resolved.replicas[0].knobs)
    if not knobs.enable_chunked_prefill:
        return "chunking off"
    items = result.recording.items
    prompts = result.recording.requests.num_prompt_tokens[items.request]
    cut = (items.num_computed_tokens < prompts) & (items.num_tokens < items.num_needed)
    return "chunks" if bool(cut.any()) else "whole prompts"

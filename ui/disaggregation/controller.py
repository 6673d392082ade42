"""What the page runs, and the lanes of it. Runs are small, and cached for all sessions."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import streamlit as st

from sim.cluster.cluster_state import DECODE, PREFILL, ROLES
from sim.engines.registry import DEFAULT_ENGINE
from sim.results.provenance import provenance
from sim.results.run import Result, simulate
from sim.scenario.load import Scenario, ScenarioError
from ui.disaggregation import captions
from ui.disaggregation.setup import Setup, co_located, disaggregated
from ui.lanes import packing, pools
from ui.scenarios.ways import DISAGGREGATED
from ui.shell.kernels import computed_first
from ui.text.suggested_fixes import refusal

DEADLINE_S = 6.0
MOST_DRAWN = packing.MOST_ROWS


@dataclass(frozen=True)
class Shown:
    """Both runs, one of which may have been refused with these words, and their lanes."""

    disaggregated: Result | str
    co_located: Result | str
    packet: bytes
    confidence: tuple[str, ...]


def shown(setup: Setup) -> Shown:
    return _shown(repr(setup), setup)


@st.cache_resource(max_entries=64, show_spinner=False)
def _shown(key: str, _setup: Setup) -> Shown:
    split, mixed = run(_setup, disaggregated), run(_setup, co_located)
    notes = [
        note
        for result in (split, mixed) if isinstance(result, Result)
        for note in confidence(result)
    ]  # fmt: skip
    return Shown(split, mixed, pack(split, mixed, _setup), tuple(dict.fromkeys(notes)))


def run(setup: Setup, make: Any) -> Result | str:
    """The run of one of the two scenarios, or why it is refused."""
    try:
        scenario = make(setup)
        return computed_first(
            "disaggregation",
            scenario.digest,
            lambda: simulate(scenario, deadline_s=DEADLINE_S),
        )
    except ScenarioError as error:
        return refusal(error)


@st.cache_data(max_entries=128, show_spinner=False)
def best_budget(key: str, _setup: Setup) -> tuple[int, float]:
    """The budget with which the co-located servers serve most within the limits, and how many
    requests/s: 0 where they are refused with all. `key`: what the setup is kept under."""
    runs = {b: run(replace(_setup, budget=b), co_located) for b in _setup.budgets}
    good = {
        budget: result.summary["goodput_rps"] or 0.0
        for budget, result in runs.items()
        if isinstance(result, Result)
    }
    best = max(good, key=good.__getitem__, default=_setup.budget)
    return best, good.get(best, 0.0)


def confidence(result: Result) -> tuple[str, ...]:
    """How sure the milliseconds are; where there are several kinds of servers, of which."""
    return provenance(result.recording, result.resolved)


def servers_of(result: Result, role: int) -> list[int]:
    """The numbers of a role's servers."""
    replicas = result.resolved.replicas
    return [k for k, server in enumerate(replicas) if server.replica.role == ROLES[role]]


# --- lanes ----------------------------------------------------------------------------------------


def pack(split: Result | str, mixed: Result | str, setup: Setup) -> bytes:
    """Both pools with the KV between them, and the co-located servers under them."""
    headers: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray] = {}

    def add(text: packing.LaneText, lane: tuple[dict[str, Any], Any] | None, **more: Any) -> None:
        header, mine = lane or (packing.empty(), {})
        arrays.update({f"{len(headers)}.{name}": values for name, values in mine.items()})
        headers.append(header | packing.words(text) | more)

    if isinstance(split, str):
        words = packing.LaneText(DISAGGREGATED.engine, "Disaggregated", "two pools", problem=split)
        add(words, None)
    else:
        recording = packing.first_steps(split.recording)
        lane = pools.prefill_pool(recording, servers_of(split, PREFILL))
        add(captions.lane(split, PREFILL, setup), packing.drawn(lane, split), linked_to=1)
        lane = pools.decode_pool(recording, servers_of(split, DECODE))
        add(
            captions.lane(split, DECODE, setup), packing.drawn(lane, split), arrives="handed over"
        )  # fmt: skip
    if isinstance(mixed, str):
        words = packing.LaneText(DEFAULT_ENGINE, "Co-located", "chunked", problem=mixed)
        add(words, None)
    else:
        add(captions.co_located(mixed, setup), packing.lane(mixed))
    return packing.join(headers, arrays)


def scenario(setup: Setup) -> Scenario | None:
    """The scenario to take home, None where it is refused."""
    try:
        return disaggregated(setup)
    except ScenarioError:
        return None

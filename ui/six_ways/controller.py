"""From the choices to lanes and tables. Runs are cached for all sessions."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import streamlit as st

from sim.results.run import Result, run_resolved
from sim.scenario.load import Scenario, ScenarioError, resolve
from ui.lanes import packing
from ui.scenarios.under_engine import Server, length_of, scenario_of, under
from ui.scenarios.ways import DISAGGREGATED, WAYS, Value, Way
from ui.shell import session
from ui.shell.kernels import computed_first
from ui.shell.workload_cache import workload
from ui.six_ways import form, outcomes
from ui.six_ways.outcomes import Outcome
from ui.text.suggested_fixes import refusal
from ui.widgets import your_scenario

DEADLINE_S = 6.0
WARM: set[str] = set()  # engines that this process has run: their code is compiled
Chosen = tuple[tuple[str, Value], ...]
Tell = Callable[[float, str], object]


@dataclass(frozen=True)
class Asked:
    """What all ways run: `base` is the reader's own scenario, None for a preset's."""

    preset: str
    server: Server
    base: Scenario | None

    def scenario(self, way: Way, chosen: Chosen) -> Scenario:
        """The workload under a way. ScenarioError for an impossible value."""
        if self.base is not None:
            length = length_of(self.base, self.server.model)
            return under(self.base, way, dict(chosen), self.server, length)
        model, gpu = self.server.model, self.server.gpu
        assert model is not None
        assert gpu is not None
        tp, servers = self.server.tp, self.server.servers
        return scenario_of(self.preset, way, dict(chosen), model, gpu, tp, servers)


@dataclass(frozen=True)
class Shown:
    """The runs that went, the packet of all lanes, the refusals by engine, and what is to be said
    of runs that did not finish or are drawn in part."""

    outcomes: list[Outcome]
    packet: bytes
    refused: dict[str, str]
    notes: list[str]


def servers_of(engines: Sequence[str]) -> int:
    """How many servers every way gets: as many as both pools of the disaggregated one have."""
    if DISAGGREGATED.engine not in engines:
        return 1
    chosen = dict(chosen_of(DISAGGREGATED))
    return int(chosen["prefill_servers"]) + int(chosen["decode_servers"])


def asked(preset: str, server: Server, servers: int = 1) -> Asked | None:
    """What the choices ask for; None where "Your scenario" is chosen and there is none yet."""
    if preset != your_scenario.YOURS.id:
        return Asked(preset, replace(server, servers=servers), None)
    base = your_scenario.scenario()
    if base is None:
        return None
    replica = base.replicas[0]
    if replica.model is None or replica.gpu is None:
        return Asked(preset, Server(replica.model, replica.gpu, servers=servers), base)
    return Asked(preset, replace(server, servers=servers), base)


def run_of(scenario: Scenario, uploads: Mapping[str, bytes]) -> Result | str:
    """A way's run, or why the engine refuses to start."""
    return _run_of(scenario.digest, scenario, uploads)


@st.cache_resource(max_entries=64, show_spinner=False)
def _run_of(digest: str, _scenario: Scenario, _uploads: Mapping[str, bytes]) -> Result | str:
    try:
        resolved = resolve(_scenario)
        requests, notes = workload(_scenario, _uploads)

        def run() -> Result:
            return lean(run_resolved(resolved, requests, notes=notes, deadline_s=DEADLINE_S))

        return computed_first("six ways", digest, run)
    except ScenarioError as error:
        return refusal(error)


def lean(result: Result) -> Result:
    """The same without the records that no lane draws: a cached run must be small."""
    steps = result.recording.steps[: packing.MOST_STEPS]
    count = int(steps.first_item[-1] + steps.num_items[-1]) if len(steps) else 0
    recording = result.recording
    recording = replace(
        recording, steps=recording.steps.copy(), items=recording.items[:count].copy(),
        gaps=recording.gaps.copy(),
        events=recording.events.copy(),
    )  # fmt: skip
    return replace(result, recording=recording)


def chosen_of(way: Way) -> Chosen:
    """The knobs of a way as they stand."""
    fields = ((knob.name, form.KNOBS[way.engine, knob.name]) for knob in way.knobs)
    return tuple((name, _as_started(field.value, field.usual)) for name, field in fields)


def _as_started(value: Value | None, usual: Value) -> Value:
    return usual if value is None else value  # a number box that was emptied


def outcomes_of(
    engines: Sequence[str], wanted: Asked, tell: Tell = lambda share, words: None
) -> Shown:
    """Run every way that is shown. `tell` hears of each that takes its time."""
    lanes: list[tuple[packing.LaneText, Result | None]] = []
    found = Shown([], b"", {}, [])
    uploads = session.uploads() if wanted.base is not None else {}
    for way in WAYS:
        if way.engine not in engines:
            continue
        chosen = chosen_of(way)
        announce(way, len(lanes) / len(engines), wanted, tell)
        try:
            result = run_of(wanted.scenario(way, chosen), uploads)
        except ScenarioError as error:
            result = refusal(error)
        WARM.add(way.engine)
        note = way.summary(dict(chosen))
        if isinstance(result, str):
            found.refused[way.engine] = result
            lanes.append((packing.LaneText(way.engine, way.title, note, problem=result), None))
            continue
        outcome = Outcome(way, result)
        found.outcomes.append(outcome)
        if result.recording.status != "finished":
            found.notes.append(f"{way.title} did not finish ({result.recording.reason}).")
        found.notes.extend(f"{way.title}: {rejection}." for rejection in result.rejections)
        figures = outcomes.lane_figures(outcome)
        lanes.append((packing.LaneText(way.engine, way.title, note, figures), result))
    drawn = drawn_in_part([outcome.result for outcome in found.outcomes])
    return replace(found, packet=packing.pack(lanes), notes=[*found.notes, *drawn])


def announce(way: Way, share: float, wanted: Asked, tell: Tell) -> None:
    if way.engine not in WARM:
        tell(share, f"Getting {way.title} ready: its scheduler is compiled once")
    elif wanted.base is not None and wanted.base.workload.file is not None:
        tell(share, f"Running {way.title}")


def drawn_in_part(results: Sequence[Result]) -> list[str]:
    """What of large runs is left out of the lanes, though not of the figures."""
    requests = max((len(result.workload) for result in results), default=0)
    steps = max((len(result.recording.steps) for result in results), default=0)
    parts = []
    if requests > packing.MOST_ROWS:
        parts.append(f"the first {packing.MOST_ROWS} of {requests:,} requests")
    if steps > packing.MOST_STEPS:
        parts.append(f"the first {packing.MOST_STEPS:,} of up to {steps:,} steps")
    if not parts:
        return []
    return [f"The lanes draw {' and '.join(parts)}; the figures count all of them."]


def source(way: Way) -> str:
    """The policy's rule as the running code has it."""
    return inspect.getsource(way.source)

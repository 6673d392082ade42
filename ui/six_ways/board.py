"""What the page does: choices in, lanes and tables out. Runs are cached for everybody."""

import inspect
from collections.abc import Callable

import streamlit as st

from sim import catalog
from sim.run import Result, simulate
from sim.scenario import ScenarioError
from ui.six_ways import figures_of, packing
from ui.six_ways.figures_of import Outcome
from ui.six_ways.ways import WAYS, Knob, Value, Way, scenario_of, starting, way_of

DEADLINE_S = 6.0
WARM: set[str] = set()  # engines that this process has run: their code is compiled
Chosen = tuple[tuple[str, Value], ...]


@st.cache_resource(max_entries=128, show_spinner=False)
def run_of(preset: str, engine: str, chosen: Chosen, model: str, gpu: str) -> Result | str:
    """A way's run, or why the engine refuses to start."""
    try:
        scenario = scenario_of(preset, way_of(engine), dict(chosen), model, gpu)
        return simulate(scenario, deadline_s=DEADLINE_S)
    except ScenarioError as error:
        return " ".join(said(problem) for problem in error.problems)


def said(problem: str) -> str:
    """A problem without the path to it."""
    for prefix in ("replicas[0].policy.", "replicas[0].policy: ", "replicas[0].", "replicas[0]: "):
        problem = problem.removeprefix(prefix)
    return problem


def knob_key(way: Way, knob: Knob) -> str:
    return f"six_{way.engine}_{knob.name}"


def chosen_of(way: Way) -> Chosen:
    """The knobs of a way as they stand; a preset's where nobody turned them."""
    start = starting(way)
    found = [(name, st.session_state.get(f"six_{way.engine}_{name}")) for name in start]
    return tuple((name, start[name] if value is None else value) for name, value in found)


def turn_knobs(way: Way) -> None:
    """The knobs of a way, in its popover."""
    for knob in way.knobs:
        key = knob_key(way, knob)
        kept = st.session_state.get(key, knob.start)
        if knob.options:
            st.selectbox(knob.name, knob.options, index=knob.options.index(str(kept)), key=key)
        elif isinstance(knob.start, bool):
            st.toggle(knob.name, value=bool(kept), key=key)
        else:
            st.number_input(
                knob.name, value=int(kept), min_value=knob.least, max_value=1_000_000, key=key
            )


def outcomes_of(
    engines: list[str],
    preset: str,
    model: str,
    gpu: str,
    tell: Callable[[float, str], object] = lambda share, words: None,
) -> tuple[list[Outcome], bytes, dict[str, str]]:
    """The runs that went, the packet of all lanes, and the refusals by engine. `tell` hears of each
    way that is compiled first."""
    lanes: list[tuple[packing.Told, Result | None]] = []
    outcomes, refused = [], {}
    for way in WAYS:
        if way.engine not in engines:
            continue
        chosen = chosen_of(way)
        if way.engine not in WARM:
            words = f"Getting {way.title} ready: its scheduler is compiled once"
            tell(len(lanes) / len(engines), words)
        result = run_of(preset, way.engine, chosen, model, gpu)
        WARM.add(way.engine)
        note = way.note(dict(chosen))
        if isinstance(result, str):
            refused[way.engine] = result
            lanes.append((packing.Told(way.engine, way.title, note, problem=result), None))
            continue
        outcome = Outcome(way, result)
        outcomes.append(outcome)
        figures = figures_of.lane_figures(outcome)
        lanes.append((packing.Told(way.engine, way.title, note, figures), result))
    return outcomes, packing.pack(lanes), refused


def source(way: Way) -> str:
    """The policy's rule as the running code has it."""
    return inspect.getsource(way.source)


def where(model: str, gpu: str) -> str:
    return f"{model} on {catalog.gpu(gpu).title}"

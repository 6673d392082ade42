"""From choices to what is run: a scenario for each of the one or two runs. Pure, no Streamlit.

The page's own workloads are gpu_backend.engine.presets with arrivals that suit any machine: the
long prompt arrives while the chats decode, whether a step takes 2 ms or 200.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from sim.scenario.load import Scenario, parse_scenario, resolve
from ui.scenarios.presets import Preset
from ui.scenarios.under_engine import Server, length_of, under
from ui.scenarios.ways import Value, Way
from ui.text.units import count

CHATS = Preset("chats", "Four chats, one long prompt")
POISSON = Preset("poisson", "30 requests, Poisson arrivals")
PRESETS = (CHATS, POISSON)
CHAT_TOKENS, DOCUMENT_AT_S = 80, 0.04
RATE_PER_S = 8.0

BUDGETS, WHOLE, NOTHING = "budget", "whole", "nothing"
BESIDE = {BUDGETS: "another budget", WHOLE: "chunking off", NOTHING: "nothing"}
SMALL = 256  # the budget beside one that holds every prompt whole


@dataclass(frozen=True)
class Part:
    """One run: what to call it, and its scenario."""

    title: str
    scenario: Scenario


@dataclass(frozen=True)
class Plan:
    """What a reader asks for. `model` as gpu_backend.models.zoo names it; the last run of a plan
    that has two is there to compare the first with."""

    model: str
    parts: tuple[Part, ...]
    temperature: float
    seed: int


def scenario_of(preset: str, rate_per_s: float = RATE_PER_S) -> Scenario:
    """A workload of the page under vLLM V1."""
    from gpu_backend.engine import presets

    data: dict[str, Any] = deepcopy(presets.PRESETS[preset])
    classes = data["workload"]["classes"]
    if preset == CHATS.id:
        classes[0]["output"]["tokens"] = CHAT_TOKENS
        classes[1]["arrivals"]["times_s"] = [DOCUMENT_AT_S]
    else:
        classes[0]["arrivals"]["rate_per_s"] = rate_per_s
    return parse_scenario(data)


def parts_of(
    base: Scenario, way: Way, chosen: Mapping[str, Value], beside: str, seed: int
) -> tuple[Part, ...]:
    """The runs of `base` under a policy. ScenarioError for an impossible value."""
    found = [Part(title_of(way, chosen), scenario_under(base, way, chosen, seed))]
    other = beside_knobs(way, chosen, beside, length_of(base, None))
    if other is not None:
        knobs = {**chosen, **other}
        found.append(Part(title_of(way, knobs), scenario_under(base, way, knobs, seed)))
    for part in found:
        resolve(part.scenario)  # refuses now what an engine would refuse to start with
    return tuple(found)


def title_of(way: Way, knobs: Mapping[str, Value]) -> str:
    """A run in a few words."""
    spec = way.spec
    if spec.without_chunking and all(knobs.get(n) == v for n, v in spec.without_chunking.items()):
        return f"{way.title}, chunking off"
    if spec.budget_knob is None:
        return way.title
    return f"{way.title}, budget {count(int(knobs[spec.budget_knob]))}"


def scenario_under(base: Scenario, way: Way, chosen: Mapping[str, Value], seed: int) -> Scenario:
    """The scenario under a policy; under its own it keeps what the page has no knob for."""
    replica = base.replicas[0]
    if replica.policy.engine != way.engine:
        server = Server(replica.model, replica.gpu, replica.tp)
        data = under(base, way, chosen, server, length_of(base, None)).model_dump(mode="json")
    else:
        data = base.model_dump(mode="json")
        data["replicas"][0]["policy"] |= chosen
    return parse_scenario(data | {"seed": seed})


def beside_knobs(
    way: Way, chosen: Mapping[str, Value], beside: str, length: int
) -> dict[str, Value] | None:
    """The knobs of the run beside it; None where there is none, or where it would be the same."""
    spec = way.spec
    budget = spec.budget_knob
    if beside == NOTHING or budget is None or spec.chunking == "never":
        return None  # these policies run prompts whole either way
    if beside == BUDGETS:
        seqs = int(chosen.get(spec.seqs_knob, 1))
        return {budget: length if int(chosen[budget]) < length else max(SMALL, seqs)}
    knobs: dict[str, Value] = {budget: length}
    if beside == WHOLE:
        if not spec.without_chunking:
            return None
        knobs |= spec.without_chunking
        if spec.chunk_cap_knob is not None:
            knobs[spec.chunk_cap_knob] = 0
    same = all(chosen.get(name) == value for name, value in knobs.items())
    return None if same else knobs

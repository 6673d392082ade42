"""The engines whose KV memory the block map shows, and a preset under the rules of each."""

from dataclasses import dataclass
from typing import Any

from sim.engines.knobs.translation import knobs_under
from sim.engines.registry import DEFAULT_ENGINE, ENGINES, EngineSpec, Value, engine_spec
from sim.results.run import workload_of
from sim.scenario.load import Scenario, ScenarioError, parse_scenario, resolve
from ui.block_map.packing import Words
from ui.scenarios import presets

# A padded batch has no blocks to draw. The default engine stands first.
SHOWN = sorted(
    (spec for spec in ENGINES if spec.kv_layout != "padded"),
    key=lambda spec: spec.id != DEFAULT_ENGINE,
)
TITLES = {spec.id: spec.title for spec in SHOWN}
GATE = "scheduler_reserve_full_isl"
WATERMARK = "watermark"
PREEMPTION = "preemption_mode"
# Every knob that decides over KV memory, with an engine that has it.
MEMORY_KNOBS = {name: spec for spec in reversed(SHOWN) for name in spec.memory_dials}
WATERMARKS = (0.0, 0.01, 0.05, 0.1)
BLOCK = 16  # tokens, of all engines here, so that their maps can be compared


@dataclass(frozen=True)
class Rules:
    """The engine of the block map, whether it has prefix caching, and the values of those of its
    knobs that decide over KV memory."""

    engine: str = DEFAULT_ENGINE
    caching: bool = False
    knobs: tuple[tuple[str, Value], ...] = ()

    @property
    def spec(self) -> EngineSpec:
        return engine_spec(self.engine)

    @property
    def has_cache(self) -> bool:
        return self.spec.has_prefix_cache

    def has(self, knob: str) -> bool:
        return knob in self.spec.memory_dials

    def value(self, knob: str) -> Value | None:
        """The value of a knob, None where the engine has none of that name."""
        return self.all_knobs.get(knob) if self.has(knob) else None

    @property
    def all_knobs(self) -> dict[str, Any]:
        return self.spec.defaults.model_dump() | dict(self.knobs)

    @property
    def words(self) -> Words:
        has_slots = self.spec.kv_layout == "slots"
        return Words(self.spec.admission(self.all_knobs), self.spec.victim, has_slots)


def rules_of(preset: str, engine: str = DEFAULT_ENGINE, **knobs: Value) -> Rules:
    """The rules as a preset has them; `knobs`: other values."""
    names = engine_spec(engine).memory_dials
    values = {name: start_of(preset, name) for name in names} | knobs
    return Rules(engine, starts_with_caching(preset), tuple(values.items()))


def start_of(preset: str, knob: str) -> Value:
    """A knob's value in a preset; where its engine has no such knob, the default."""
    policy = presets.scenario_of(preset).replicas[0].policy
    owner = policy if knob in type(policy).model_fields else MEMORY_KNOBS[knob].defaults
    value: Value = getattr(owner, knob)
    return value


def starts_with_caching(preset: str) -> bool:
    policy = presets.scenario_of(preset).replicas[0].policy
    without = engine_spec(policy.engine).without_caching
    return any(getattr(policy, name) != value for name, value in without.items())


def scenario_of(preset: str, rules: Rules) -> Scenario:
    """A preset's requests and memory under an engine's rules. ScenarioError for what it refuses.

    Where the engine refuses the preset's max_model_len, the longest request's."""
    base = presets.scenario_of(preset)
    if rules.spec.kv_layout != "slots":
        found = under(base, rules)
        if not refuses_length(found, rules):
            return found
    return under(base, rules, length=longest(base))


def under(base: Scenario, rules: Rules, **changes: Any) -> Scenario:
    data: dict[str, Any] = base.model_dump(mode="json")
    policy = knobs_under(base.replicas[0].policy, rules.engine, caching=rules.caching, **changes)
    data["replicas"][0]["policy"] = policy | dict(rules.knobs)
    return parse_scenario(data)


def refuses_length(scenario: Scenario, rules: Rules) -> bool:
    """Is a request of max_model_len too long for this engine's memory?"""
    try:
        resolve(scenario)
    except ScenarioError as error:
        return rules.spec.length_knob is not None and error.field.endswith(rules.spec.length_knob)
    return False


def longest(base: Scenario) -> int:
    """Tokens of the longest request: the smallest slot that serves this workload."""
    workload, _ = workload_of(base)
    return int((workload.num_prompt_tokens + workload.max_tokens).max())

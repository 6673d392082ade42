"""The ways to batch that pages offer: every engine of the registry, and two pools of servers."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType

from sim.cluster import disaggregation
from sim.engines.registry import DEFAULT_ENGINE, ENGINES, EngineSpec, Value, engine_spec
from sim.hardware import catalog
from ui.scenarios.presets import Preset

__all__ = [
    "DISAGGREGATED", "ENGINE_WAYS", "FIRST_SHOWN", "LINKS", "PRESETS", "WAYS", "Knob", "Value",
    "Way", "way_of",
]  # fmt: skip

PRESETS = (
    Preset("six_ways_chats_two_documents", "Chats + two documents"),
    Preset("six_ways_head_of_line", "Head-of-line: 32 streams, one prompt"),
    Preset("six_ways_all_short", "All short"),
    Preset("six_ways_out_of_memory", "Out of memory"),
)


@dataclass(frozen=True)
class Knob:
    """A knob that a page shows: a number from `least` on, a switch, or one of `options`."""

    name: str
    start: Value
    least: int = 1
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Way:
    """A way to batch: `engine` names it in addresses, `spec` is the engine that its servers run.

    `source` holds its rule as code; `complexity` is how much there is to operate, a judgement of
    ours, and `complexity_reason` says why.
    """

    engine: str
    title: str
    rule: str
    spec: EngineSpec
    knobs: tuple[Knob, ...]
    source: ModuleType
    summary: Callable[[Mapping[str, Value]], str]
    complexity: str
    complexity_reason: str

    @property
    def has_pools(self) -> bool:
        return self.engine != self.spec.id


def knob_of(spec: EngineSpec, name: str, start: Value) -> Knob:
    """A dial of the registry as a knob of a page."""
    options = spec.options(name)
    is_number = not options and not isinstance(start, bool)
    return Knob(name, start, spec.least(name) if is_number else 1, options)


def way_with(spec: EngineSpec) -> Way:
    """An engine on every server."""
    return Way(
        engine=spec.id,
        title=spec.title,
        rule=spec.rule,
        spec=spec,
        knobs=tuple(knob_of(spec, name, start) for name, start in spec.dials.items()),
        source=importlib.import_module(f"sim.engines.{spec.id}"),
        summary=spec.summary,
        complexity=spec.complexity,
        complexity_reason=spec.complexity_reason,
    )


def pools_summary(knobs: Mapping[str, Value]) -> str:
    way = "KV streamed" if knobs["streaming"] else "KV after the prompt"
    return f"{knobs['prefill_servers']} prefill + {knobs['decode_servers']} decode, {way}"


LINKS = tuple(name for name in catalog.link_names() if name.startswith(("rdma", "nvl", "eth")))
DISAGGREGATED = Way(
    engine="disaggregated",
    title="Disaggregated",
    rule="Prompts on some servers, decodes on others, KV is transferred between them",
    spec=engine_spec(DEFAULT_ENGINE),
    knobs=(
        Knob("prefill_servers", 1),
        Knob("decode_servers", 1),
        Knob("max_num_batched_tokens", 2048),
        Knob("link", "rdma_100g", options=LINKS),
        Knob("streaming", False),
        Knob("first_token_from", "decode", options=("decode", "prefill")),
    ),
    source=disaggregation,
    summary=pools_summary,
    complexity="high",
    complexity_reason="two pools to size, a network that must keep up, a proxy",
)
ENGINE_WAYS = tuple(way_with(spec) for spec in ENGINES)
WAYS = (*ENGINE_WAYS, DISAGGREGATED)
FIRST_SHOWN = tuple(spec.id for spec in ENGINES if spec.shown_first)


@cache
def way_of(engine: str) -> Way:
    return next(way for way in WAYS if way.engine == engine)

"""The choices of the page: the workload, the server, which ways, and every knob of theirs."""

from functools import partial
from typing import Any

from ui.scenarios import gpu_choice
from ui.scenarios.under_engine import starting
from ui.scenarios.ways import FIRST_SHOWN, PRESETS, WAYS, Knob, Way
from ui.shell import query_values
from ui.shell.forms import Field, Form
from ui.widgets import model_choice, your_scenario
from ui.widgets.engine_knobs import read_knob

MODEL, GPU = "Llama-3.1-8B", "h100_sxm"
PARALLEL = (1, 2, 4, 8)

WORKLOAD = Field(
    "six_preset", "workload", PRESETS[0].id,
    query_values.name(
        lambda: (*(preset.id for preset in PRESETS), your_scenario.YOURS.id), "workload"
    ),
)  # fmt: skip


def is_yours() -> bool:
    """Is the reader's own scenario put under all ways?"""
    return bool(WORKLOAD.value == your_scenario.YOURS.id)


def server(name: str, usual: Any) -> Any:
    """What the reader's scenario says of its server, else the page's own."""
    base = your_scenario.scenario() if is_yours() else None
    return (base and getattr(base.replicas[0], name)) or usual


ENGINES = Field(
    "six_engines", "ways", lambda: list(FIRST_SHOWN),
    query_values.names_of(lambda: tuple(way.engine for way in WAYS), "ways"),
    query_values.say_names,
)  # fmt: skip
MODEL_FIELD = Field(
    "six_model", "on_model", partial(server, "model", MODEL), query_values.model,
    no_choice=model_choice.PASTE,
)  # fmt: skip
GPU_FIELD = Field("six_gpu", "on_gpu", partial(server, "gpu", GPU), gpu_choice.read)
TP = Field("six_tp", "tp", partial(server, "tp", 1), query_values.one_of(PARALLEL))


def start_of(way: Way, knob: Knob) -> Any:
    """Where a knob starts: as the presets have it, or as the reader's scenario has it."""
    return starting(way, your_scenario.scenario() if is_yours() else None)[knob.name]


def knob_key(way: Way, knob: Knob) -> str:
    return f"six_{way.engine}_{knob.name}"


KNOBS = {
    (way.engine, knob.name): Field(
        knob_key(way, knob), f"{way.engine}.{knob.name}", partial(start_of, way, knob),
        read_knob(knob),
    )
    for way in WAYS for knob in way.knobs
}  # fmt: skip
SIX_WAYS = Form(
    "six_ways", (WORKLOAD, ENGINES, MODEL_FIELD, GPU_FIELD, TP, *KNOBS.values()),
    shows_run=lambda: is_yours() and your_scenario.scenario() is not None,
)  # fmt: skip

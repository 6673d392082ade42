"""The choices of the page: the workload, the server, which ways, and every knob of theirs."""

from functools import partial
from typing import Any

from ui import machines, models, values
from ui.form import Field, Form
from ui.six_ways import yours
from ui.six_ways.scenarios import starting
from ui.six_ways.ways import FIRST_SHOWN, PRESETS, WAYS, Knob, Way

MODEL, GPU = "Llama-3.1-8B", "h100_sxm"
PARALLEL = (1, 2, 4, 8)
MOST = 1_000_000  # of a knob

WORKLOAD = Field(
    "six_preset", "workload", PRESETS[0].id,
    values.name(lambda: (*(preset.id for preset in PRESETS), yours.YOURS.id), "workload"),
)  # fmt: skip


def is_yours() -> bool:
    """Is the reader's own scenario put under all ways?"""
    return bool(WORKLOAD.value == yours.YOURS.id)


def server(name: str, usual: Any) -> Any:
    """What the reader's scenario says of its server, else the page's own."""
    base = yours.scenario() if is_yours() else None
    return (base and getattr(base.replicas[0], name)) or usual


ENGINES = Field(
    "six_engines", "ways", lambda: list(FIRST_SHOWN),
    values.names_of(lambda: tuple(way.engine for way in WAYS), "ways"), values.say_names,
)  # fmt: skip
MODEL_FIELD = Field(
    "six_model", "on_model", partial(server, "model", MODEL), values.model,
    no_choice=models.PASTE,
)  # fmt: skip
GPU_FIELD = Field("six_gpu", "on_gpu", partial(server, "gpu", GPU), machines.read)
TP = Field("six_tp", "tp", partial(server, "tp", 1), values.one_of(PARALLEL))


def start_of(way: Way, knob: Knob) -> Any:
    """Where a knob starts: as the presets have it, or as the reader's scenario has it."""
    return starting(way, yours.scenario() if is_yours() else None)[knob.name]


def read_knob(knob: Knob) -> Any:
    if knob.options:
        return values.name(lambda: knob.options, "value")
    if isinstance(knob.start, bool):
        return values.switch
    if knob.least < 0:
        return values.either(str(knob.least), knob.least, values.whole(1, MOST))
    return values.whole(knob.least, MOST)


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
    shows_run=lambda: is_yours() and yours.scenario() is not None,
)  # fmt: skip

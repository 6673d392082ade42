"""The choices of the page: model, workload, policy with its knobs, what is run beside it."""

from functools import partial
from typing import Any

from sim.engines.registry import DEFAULT_ENGINE
from sim.scenario.load import Scenario
from ui.real_engine import model_list, plan
from ui.scenarios.under_engine import starting
from ui.scenarios.ways import ENGINE_WAYS, Knob, Way
from ui.shell import query_values
from ui.shell.forms import Field, Form
from ui.widgets import your_scenario
from ui.widgets.engine_knobs import read_knob

MOST_SEED = 2**31
RATES = (0.1, 1000.0)

WORKLOAD = Field(
    "real_workload", "workload", plan.CHATS.id,
    query_values.name(
        lambda: (*(preset.id for preset in plan.PRESETS), your_scenario.YOURS.id), "workload"
    ),
)  # fmt: skip


def base() -> Scenario | None:
    """The requests, on a server that any policy takes over; None where nothing came along."""
    if WORKLOAD.value == your_scenario.YOURS.id:
        return your_scenario.scenario()
    return plan.scenario_of(WORKLOAD.value, RATE.value or plan.RATE_PER_S)


def start_of(way: Way, knob: Knob) -> Any:
    """Where a knob starts: as the workload's scenario has it."""
    return starting(way, base())[knob.name]


def start_seed() -> int:
    found = base()
    return 0 if found is None else found.seed


def temperatures() -> tuple[float, float]:
    from gpu_backend.engine.presets import TEMPERATURES

    return TEMPERATURES


def read_temperature(text: str) -> float:
    return query_values.number(*temperatures())(text)


MODEL = Field(
    "real_model", "run_model", model_list.DEFAULT, query_values.name(model_list.names, "model")
)
RATE = Field("real_rate", "arrivals", plan.RATE_PER_S, query_values.number(*RATES))
ENGINE = Field(
    "real_engine", "policy", DEFAULT_ENGINE,
    query_values.name(lambda: tuple(way.engine for way in ENGINE_WAYS), "policy"),
)  # fmt: skip
BESIDE = Field(
    "real_beside", "beside", plan.BUDGETS, query_values.name(lambda: tuple(plan.BESIDE), "choice")
)  # fmt: skip
TEMPERATURE = Field("real_temperature", "temperature", 0.0, read_temperature)
SEED = Field("real_seed", "run_seed", start_seed, query_values.whole(0, MOST_SEED))
KNOBS = {
    (way.engine, knob.name): Field(
        f"real_{way.engine}_{knob.name}", f"{way.engine}.{knob.name}",
        partial(start_of, way, knob), read_knob(knob), belongs_to=WORKLOAD.key,
    )
    for way in ENGINE_WAYS for knob in way.knobs
}  # fmt: skip
REAL_ENGINE = Form(
    "real_engine",
    (WORKLOAD, MODEL, RATE, ENGINE, BESIDE, TEMPERATURE, SEED, *KNOBS.values()),
    shows_run=lambda: (
        WORKLOAD.value == your_scenario.YOURS.id and your_scenario.scenario() is not None
    ),
)

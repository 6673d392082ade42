"""The choices of the page: model, workload, policy with its knobs, what is run beside it."""

from functools import partial
from typing import Any

from sim.scenario.load import Scenario
from ui import values
from ui.form import Field, Form
from ui.real import offers, plan
from ui.six_ways import yours
from ui.six_ways.form import read_knob
from ui.six_ways.scenarios import starting
from ui.six_ways.ways import LONE_WAYS, Knob, Way

MOST_SEED = 2**31
RATES = (0.1, 1000.0)

WORKLOAD = Field(
    "real_workload", "workload", plan.CHATS.id,
    values.name(lambda: (*(preset.id for preset in plan.PRESETS), yours.YOURS.id), "workload"),
)  # fmt: skip


def base() -> Scenario | None:
    """The requests, on a server that any policy takes over; None where nothing came along."""
    if WORKLOAD.value == yours.YOURS.id:
        return yours.scenario()
    return plan.scenario_of(WORKLOAD.value, RATE.value or plan.RATE_PER_S)


def start_of(way: Way, knob: Knob) -> Any:
    """Where a knob starts: as the workload's scenario has it."""
    return starting(way, base())[knob.name]


def start_seed() -> int:
    found = base()
    return 0 if found is None else found.seed


def temperatures() -> tuple[float, float]:
    from gpu_backend.temperatures import TEMPERATURES

    return TEMPERATURES


def read_temperature(text: str) -> float:
    return values.number(*temperatures())(text)


MODEL = Field("real_model", "run_model", offers.DEFAULT, values.name(offers.names, "model"))
RATE = Field("real_rate", "arrivals", plan.RATE_PER_S, values.number(*RATES))
ENGINE = Field(
    "real_engine", "policy", "vllm_v1",
    values.name(lambda: tuple(way.engine for way in LONE_WAYS), "policy"),
)  # fmt: skip
BESIDE = Field(
    "real_beside", "beside", plan.BUDGETS, values.name(lambda: tuple(plan.BESIDE), "choice")
)  # fmt: skip
TEMPERATURE = Field("real_temperature", "temperature", 0.0, read_temperature)
SEED = Field("real_seed", "run_seed", start_seed, values.whole(0, MOST_SEED))
KNOBS = {
    (way.engine, knob.name): Field(
        f"real_{way.engine}_{knob.name}", f"{way.engine}.{knob.name}",
        partial(start_of, way, knob), read_knob(knob), belongs_to=WORKLOAD.key,
    )
    for way in LONE_WAYS for knob in way.knobs
}  # fmt: skip
REAL_ENGINE = Form(
    "real_engine",
    (WORKLOAD, MODEL, RATE, ENGINE, BESIDE, TEMPERATURE, SEED, *KNOBS.values()),
    shows_run=lambda: WORKLOAD.value == yours.YOURS.id and yours.scenario() is not None,
)


def along() -> dict[str, str]:
    """What an address needs to put the session's run on the real engine."""
    return {WORKLOAD.name: yours.YOURS.id}

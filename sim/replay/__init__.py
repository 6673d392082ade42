"""Replay of recorded scheduler cases, one step at a time and without a clock.

A replay reads only the engine, name, config and requests of a case; `recorded` and `skip` of an
engine read the recorded trace. Schemas: tests/oracles/README.md. A new schema is a file here and a
line in ENGINES, under the name of its folder of cases."""

from pathlib import Path
from typing import Any

from sim.replay.case import Case, Schema, arrivals_and_aborts, difference, parse_case
from sim.replay.sarathi_serve import SARATHI_ORCA, SARATHI_SARATHI, SARATHI_VLLM
from sim.replay.static_padded import STATIC_PADDED
from sim.replay.tensorrt_llm import TENSORRT_LLM
from sim.replay.vllm_v1 import VLLM_V1, recorded_vllm_v1, vllm_v1_knobs, vllm_v1_state

__all__ = [
    "SCHEMAS",
    "Case",
    "Schema",
    "arrivals_and_aborts",
    "difference",
    "read_case",
    "recorded_vllm_v1",
    "replay",
    "vllm_v1_knobs",
    "vllm_v1_state",
]

SCHEMAS = {
    "vllm_v1": VLLM_V1,
    "trt": TENSORRT_LLM,
    "static_padded": STATIC_PADDED,
    "sarathi_orca": SARATHI_ORCA,
    "sarathi_vllm": SARATHI_VLLM,
    "sarathi_sarathi": SARATHI_SARATHI,
}


def read_case(path: Path) -> tuple[Case, dict[str, Any]]:
    """The case in a file, and the whole file. Raises ValueError if it is not a case."""
    return parse_case(path, SCHEMAS)


def replay(case: Case) -> dict[str, Any]:
    """The steps that the simulator schedules for a case, in the form that `sim replay` prints."""
    try:
        return {"engine": case.engine, "case": case.name} | SCHEMAS[case.engine].replay(case)
    except KeyError as error:
        raise ValueError(f"case {case.name}: key {error} is missing") from error

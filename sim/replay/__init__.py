"""Replay of recorded scheduler cases, one step at a time and without a clock.

Only a case's engine, name, config and requests are read to replay it; the recorded trace is read by
an engine's `recorded` and `skip` alone. Schemas: tests/oracles/README.md. A new schema is its file
and its line in ENGINES, by the name of the folder that its cases lie in.
"""

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
    """The case in a file, and the whole file. Raises ValueError in words when it is no case."""
    return parse_case(path, SCHEMAS)


def replay(case: Case) -> dict[str, Any]:
    """The steps that our policy makes of a case, in the form that `sim replay` prints."""
    try:
        return {"engine": case.engine, "case": case.name} | SCHEMAS[case.engine].replay(case)
    except KeyError as error:
        raise ValueError(f"case {case.name}: key {error} is missing") from error

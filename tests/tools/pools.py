"""Builders for tests of clusters: scenarios of prefill and decode pools under the linear toy, whose
times can be worked out by hand."""

from typing import Any

from sim.results.run import Result, simulate
from sim.scenario.load import Scenario, parse_scenario
from tests.field.field import LINEAR, asked, at

STEP_S, PREFILL_TOKEN_S, DECODE_S = 0.005, 1.2e-5, 4e-5
GIGABIT = 1e9 / 8  # bytes/s
TOKEN_BYTES_8B = 2 * 32 * 8 * 128 * 2  # Llama-3.1-8B, bf16: 131,072 bytes per token

KNOBS: dict[str, Any] = {
    "engine": "vllm_v1",
    "max_num_batched_tokens": 8192,
    "max_num_seqs": 64,
    "max_model_len": 32_768,
    "num_gpu_blocks": 4_001,
    "enable_prefix_caching": False,
}


def replica(role: str, count: int, model: str, more: dict[str, Any] | None = None) -> Any:
    """`count` servers of a role; `more`: their knobs that differ."""
    return {
        "role": role,
        "count": count,
        "model": model,
        "latency": LINEAR,
        "policy": KNOBS | (more or {}),
    }


def pools(
    *classes: dict[str, Any],
    prefill: int = 1,
    decode: int = 1,
    link: dict[str, Any] | None = None,
    model: str = "Llama-3.1-8B",
    prefill_knobs: dict[str, Any] | None = None,
    decode_knobs: dict[str, Any] | None = None,
    scenario: dict[str, Any] | None = None,
    **disaggregation: Any,
) -> Scenario:
    """Prefill and decode servers on a link of 100 Gb/s without a latency."""
    return parse_scenario(
        {
            "workload": {"classes": list(classes)},
            "replicas": [
                replica("prefill", prefill, model, prefill_knobs),
                replica("decode", decode, model, decode_knobs),
            ],
            "link": {"bandwidth_bytes_per_s": 100 * GIGABIT} | (link or {}),
            "disaggregation": disaggregation,
            **(scenario or {}),
        }
    )


def run_pools(*classes: dict[str, Any], **more: Any) -> Result:
    return simulate(pools(*classes, **more))


def one(prompt: int, output: int = 8, arrival_s: float = 0.0, **more: Any) -> dict[str, Any]:
    """A single request."""
    return asked("one", prompt, output, at(arrival_s), **more)


def prefill_s(tokens: int) -> float:
    """A step that computes so many prompt tokens and nothing else."""
    return STEP_S + PREFILL_TOKEN_S * tokens

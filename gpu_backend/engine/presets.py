"""Preset scenarios of the real engine that run in seconds on a small machine, and the range of
sampling temperatures. Does not load torch."""

from typing import Any

from sim.scenario.load import Scenario, parse_scenario

__all__ = ["DEFAULT", "PRESETS", "TEMPERATURES", "scenario"]

TEMPERATURES = (0.0, 2.0)  # of sampling, as in OpenAI-compatible servers

REPLICA: dict[str, Any] = {
    "latency": {"kind": "linear"},
    "policy": {
        "engine": "vllm_v1",
        "max_num_batched_tokens": 64,
        "max_num_seqs": 16,
        "max_model_len": 2048,
        "num_gpu_blocks": 257,
    },
}

# One long prompt arrives while four short chats decode: the case for chunked prefill.
DEFAULT: dict[str, Any] = {
    "name": "four chats and one long prompt",
    "workload": {
        "classes": [
            {
                "name": "chat",
                "count": 4,
                "arrivals": {"kind": "all_at_once"},
                "prompt": {"kind": "fixed", "tokens": 24},
                "output": {"kind": "fixed", "tokens": 32},
            },
            {
                "name": "document",
                "count": 1,
                "arrivals": {"kind": "at", "times_s": [0.3]},
                "prompt": {"kind": "fixed", "tokens": 512},
                "output": {"kind": "fixed", "tokens": 8},
            },
        ]
    },
    "replicas": [REPLICA],
}
POISSON: dict[str, Any] = {
    "name": "30 requests, Poisson arrivals",
    "workload": {
        "classes": [
            {
                "name": "request",
                "count": 30,
                "arrivals": {"kind": "poisson", "rate_per_s": 2.0},
                "prompt": {"kind": "uniform", "min": 16, "max": 128},
                "output": {"kind": "uniform", "min": 8, "max": 32},
            }
        ]
    },
    "replicas": [REPLICA],
}
PRESETS = {"chats": DEFAULT, "poisson": POISSON}


def scenario(name: str = "chats") -> Scenario:
    """The preset of that name; KeyError for another."""
    return parse_scenario(PRESETS[name])

"""A rejection says how many, the limit, the numbers on both sides and the knob to change."""

from typing import Any

import pytest

from sim.results.run import simulate
from sim.scenario.load import parse_scenario


def run(policy: dict[str, Any], *prompts: int, output: int = 4, **more: Any) -> tuple[str, ...]:
    classes = [
        {
            "name": f"p{k}",
            "count": 1,
            "arrivals": {"kind": "all_at_once"},
            "prompt": {"kind": "fixed", "tokens": tokens},
            "output": {"kind": "fixed", "tokens": output},
        }
        for k, tokens in enumerate(prompts)
    ]
    scenario = {
        "workload": {"classes": classes},
        "replicas": [{"latency": {"kind": "linear"}, "policy": policy, **more}],
    }
    return simulate(parse_scenario(scenario)).rejections


def test_no_rejection_no_sentence() -> None:
    assert run({"engine": "vllm_v1"}, 100) == ()


def test_a_prompt_longer_than_max_model_len() -> None:
    (text,) = run({"engine": "vllm_v1", "max_model_len": 64}, 16, 64, 90)
    assert text.startswith("2 of 3 requests rejected: prompts of up to 90 tokens")
    assert "max_model_len (64)" in text
    assert "raise max_model_len above 90" in text


@pytest.mark.parametrize(
    ("policy", "knob"),
    [
        ({"engine": "vllm_v0", "max_num_batched_tokens": 8192, "max_model_len": 8192}, None),
        (
            {
                "engine": "tensorrt_llm",
                "max_num_tokens": 8192,
                "enable_chunked_prefill": False,
                "max_seq_len": 32768,
            },
            "max_num_tokens",
        ),
    ],
)
def test_a_whole_prompt_above_the_budget_names_both_numbers_and_the_knob(
    policy: dict[str, Any], knob: str | None
) -> None:
    (text,) = run(policy, 16384)
    assert text.startswith("1 of 1 requests rejected: prompts of up to 16,384 tokens")
    assert "(8,192)" in text
    if knob is not None:
        assert f"raise {knob} to at least 16,384" in text
        assert "max_num_batched_tokens" not in text


def test_a_static_batch_limits_prompt_and_output_together() -> None:
    (text,) = run({"engine": "static", "kv_tokens": 100}, 90, output=20)
    assert "prompt plus max_tokens is up to 110 tokens" in text
    assert "limited to 100" in text


def test_a_decode_server_without_room_says_its_own_pool() -> None:
    """The request was sent to a prefill server, whose pool is larger."""
    servers = [
        {
            "role": role,
            "model": "Llama-3.1-8B",
            "latency": {"kind": "linear"},
            "policy": {"engine": "vllm_v1", "num_gpu_blocks": blocks, "max_model_len": 512},
        }
        for role, blocks in (("prefill", 33), ("decode", 5))
    ]
    fixed = {"prompt": {"kind": "fixed", "tokens": 100}, "output": {"kind": "fixed", "tokens": 4}}
    request = {"name": "p", "count": 1, "arrivals": {"kind": "all_at_once"}, **fixed}
    scenario = {
        "workload": {"classes": [request]},
        "replicas": servers,
        "link": {"kind": "rdma_100g"},
        "disaggregation": {},
    }
    (text,) = simulate(parse_scenario(scenario)).rejections
    assert "need 7 KV blocks of 16 tokens and the pool has 4" in text

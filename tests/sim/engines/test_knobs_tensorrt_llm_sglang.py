"""The knobs of TensorRT-LLM and SGLang: what is derived, what is refused, the flags of a server."""

from typing import Any

import pytest

from sim.results.export import sglang_server_flags, trtllm_serve_files
from sim.results.run import simulate
from sim.scenario.load import ScenarioError, parse_scenario, resolve


def scenario(
    policy: dict[str, Any], *, requests: int = 3, prompt: int = 100, **replica: Any
) -> Any:
    """`requests` equal ones at once, on the linear toy or on what `replica` names."""
    toy = {} if "gpu" in replica else {"latency": {"kind": "linear"}}
    return parse_scenario(
        {
            "workload": {
                "classes": [
                    {
                        "name": "equal",
                        "count": requests,
                        "arrivals": {"kind": "all_at_once"},
                        "prompt": {"kind": "fixed", "tokens": prompt},
                        "output": {"kind": "fixed", "tokens": 10},
                    }
                ]
            },
            "replicas": [toy | replica | {"policy": policy}],
        }
    )


def refusal(policy: dict[str, Any], **replica: Any) -> str:
    with pytest.raises(ScenarioError) as caught:
        resolve(scenario(policy, **replica))
    return str(caught.value)


H100 = {"model": "Qwen2.5-7B", "gpu": "h100"}


# --- TensorRT-LLM ---------------------------------------------------------------------------------


def test_tensorrt_llm_defaults_are_the_engines() -> None:
    replica = resolve(scenario({"engine": "tensorrt_llm"}, **H100)).replicas[0]
    knobs = replica.knobs
    assert (knobs.max_num_tokens, knobs.max_batch_size, knobs.tokens_per_block) == (8192, 2048, 32)
    assert knobs.capacity_scheduler_policy == "GUARANTEED_NO_EVICT"
    assert knobs.max_seq_len == 32_768
    assert replica.row.num_gpu_blocks == knobs.num_blocks + 1
    assert "num_blocks" in replica.derived


def test_kv_takes_a_share_of_what_is_free() -> None:
    """Half the fraction, half the pool; vLLM's share counts the weights in."""
    blocks = [
        resolve(scenario({"engine": "tensorrt_llm"}, **H100, **share)).replicas[0].knobs.num_blocks
        for share in ({}, {"free_gpu_memory_fraction": 0.9}, {"free_gpu_memory_fraction": 0.45})
    ]
    assert blocks[0] == blocks[1]
    assert blocks[2] == pytest.approx(blocks[1] / 2, rel=1e-3)


def test_each_engine_takes_its_own_share_of_the_memory() -> None:
    text = refusal({"engine": "tensorrt_llm"}, gpu_memory_utilization=0.8)
    assert "free_gpu_memory_fraction" in text
    text = refusal({"engine": "vllm_v1"}, free_gpu_memory_fraction=0.8)
    assert "vllm_v1 takes gpu_memory_utilization" in text
    made = scenario({"engine": "tensorrt_llm"}, free_gpu_memory_fraction=0.8)
    assert parse_scenario(made.model_dump(mode="json", exclude_none=True)) == made


def test_a_chunk_unit_above_the_budget_can_only_stall() -> None:
    policy = {"engine": "tensorrt_llm", "enable_chunked_prefill": True, "max_num_tokens": 16}
    text = refusal(policy)
    assert "max_num_tokens (16) is smaller than tokens_per_block (32)" in text
    assert "0 tokens for ever" in text
    resolve(scenario(policy | {"enable_chunked_prefill": False}))


@pytest.mark.parametrize(("chunked", "rejected"), [(False, 3), (True, 0)])
def test_a_prompt_above_max_num_tokens_needs_chunking(chunked: bool, rejected: int) -> None:
    policy = {"engine": "tensorrt_llm", "enable_chunked_prefill": chunked, "max_num_tokens": 64}
    summary = simulate(scenario(policy)).summary
    assert summary["rejected"] == rejected
    reasons = {"prompt_exceeds_token_budget": 3} if rejected else {}
    assert summary["rejected_reasons"] == reasons
    assert summary["finished"] == 3 - rejected


@pytest.mark.parametrize("policy", ["GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"])
def test_no_request_is_longer_than_the_pool(policy: str) -> None:
    """4 blocks of 32: max_seq_len is cut to 128, so prompt + max_tokens always fits."""
    knobs = {"engine": "tensorrt_llm", "capacity_scheduler_policy": policy, "num_blocks": 4}
    made = scenario(knobs | {"max_seq_len": 4096}, prompt=124)
    assert resolve(made).replicas[0].knobs.max_seq_len == 128
    result = simulate(made)
    assert result.summary["status"] == "finished"
    assert result.recording.requests.num_output_tokens.tolist() == [4, 4, 4]


def test_files_for_trtllm_serve() -> None:
    policy = {"engine": "tensorrt_llm", "context_chunking_policy": "EQUAL_PROGRESS"}
    command, options = trtllm_serve_files(resolve(scenario(policy, **H100, tp=2)))
    assert command.startswith("trtllm-serve Qwen2.5-7B")
    assert "--tp_size 2" in command
    assert "--max_num_tokens 8192" in command
    assert "--extra_llm_api_options extra_llm_api_options.yaml" in command
    assert "  context_chunking_policy: EQUAL_PROGRESS\n" in options
    assert "enable_chunked_prefill: false\n" in options
    assert "  free_gpu_memory_fraction: 0.9\n" in options
    assert "max_tokens" not in options
    _, options = trtllm_serve_files(resolve(scenario(policy | {"num_blocks": 1000}, **H100)))
    assert options.endswith("  max_tokens: 32000\n")
    with pytest.raises(ValueError, match="names no model"):
        trtllm_serve_files(resolve(scenario(policy)))
    with pytest.raises(ValueError, match="vllm_v1"):
        trtllm_serve_files(resolve(scenario({"engine": "vllm_v1"}, **H100)))


# --- SGLang ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "chunk"), [("rtx_4090", 2048), ("l40s", 4096), ("h100", 8192), ("b200", 16_384)]
)
def test_sglang_takes_its_chunk_from_the_gpu(gpu: str, chunk: int) -> None:
    made = scenario({"engine": "sglang"}, model="Qwen2.5-7B", gpu=gpu)
    knobs = resolve(made).replicas[0].knobs
    assert knobs.chunked_prefill_size == chunk
    assert 2048 <= knobs.max_running_requests <= 4096
    assert knobs.max_total_tokens > 20_000


def test_sglang_refuses_a_chunk_of_broken_pages() -> None:
    text = refusal({"engine": "sglang", "chunked_prefill_size": 100, "page_size": 16})
    assert "chunked_prefill_size (100) must be divisible by page_size (16)" in text
    resolve(scenario({"engine": "sglang", "chunked_prefill_size": -1, "page_size": 16}))


def test_sglang_refuses_a_pool_without_room_for_a_prompt() -> None:
    assert "leave no room" in refusal({"engine": "sglang", "max_total_tokens": 3})


@pytest.mark.parametrize("chunk", [-1, 16])
@pytest.mark.parametrize("mixed", [False, True])
def test_sglang_runs_from_a_scenario(chunk: int, mixed: bool) -> None:
    policy = {
        "engine": "sglang",
        "chunked_prefill_size": chunk,
        "enable_mixed_chunk": mixed,
        "max_total_tokens": 150,
    }
    summary = simulate(scenario(policy, requests=8)).summary
    assert (summary["status"], summary["finished"]) == ("finished", 8)


def test_flags_for_sglang() -> None:
    policy = {"engine": "sglang", "enable_mixed_chunk": True, "page_size": 16}
    command = sglang_server_flags(resolve(scenario(policy, **H100)))
    assert command.startswith("python -m sglang.launch_server --model-path Qwen2.5-7B")
    assert "--chunked-prefill-size 8192" in command
    assert "--enable-mixed-chunk" in command
    assert "--page-size 16" in command
    assert "--disable-overlap-schedule" in command
    assert "--max-total-tokens" not in command
    with pytest.raises(ValueError, match="names no model"):
        sglang_server_flags(resolve(scenario(policy)))
    with pytest.raises(ValueError, match="vllm_v1"):
        sglang_server_flags(resolve(scenario({"engine": "vllm_v1"}, **H100)))


@pytest.mark.parametrize("engine", ["tensorrt_llm", "sglang"])
def test_an_unknown_knob_is_an_error(engine: str) -> None:
    with pytest.raises(ScenarioError, match="max_num_batched_tokens"):
        scenario({"engine": engine, "max_num_batched_tokens": 64})

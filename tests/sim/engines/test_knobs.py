"""The knobs of static batching, Orca, vLLM V0 and Sarathi-Serve: derived, refused, run."""

import json
from pathlib import Path
from typing import Any

import pytest

from sim.engines.registry import ENGINE_IDS
from sim.results.export import vllm_serve_flags
from sim.results.run import simulate
from sim.scenario.load import Resolved, ScenarioError, parse_scenario, resolve

ALLOWED = ", ".join(repr(engine) for engine in ENGINE_IDS)

# CLI.md's table
KEYS = {
    "vllm_v0": "max_num_batched_tokens max_num_seqs max_model_len block_size num_gpu_blocks "
    "watermark preemption_mode swap_space_bytes",
    "sarathi": "chunk_size dynamic max_num_seqs max_model_len block_size num_gpu_blocks",
    "orca": "max_num_seqs max_model_len num_gpu_blocks",
    "static": "max_batch_size kv_tokens",
}


def scenario(policy: dict[str, Any], **replica: Any) -> dict[str, Any]:
    """16 requests of 200 prompt and 100 output tokens on an RTX 4090."""
    hardware = {"model": "Qwen2.5-7B", "gpu": "rtx_4090", "policy": policy}
    requests = {
        "name": "chat",
        "count": 16,
        "arrivals": {"kind": "constant", "rate_per_s": 10.0},
        "prompt": {"kind": "fixed", "tokens": 200},
        "output": {"kind": "uniform", "min": 50, "max": 150},
    }
    return {"workload": {"classes": [requests]}, "replicas": [hardware | replica]}


def resolved(policy: dict[str, Any], **replica: Any) -> Resolved:
    return resolve(parse_scenario(scenario(policy, **replica)))


def toy(policy: dict[str, Any]) -> dict[str, Any]:
    """The summary of the same requests under the linear toy."""
    data = scenario(policy, model=None, gpu=None, latency={"kind": "linear"})
    summary = simulate(parse_scenario(data)).summary
    json.dumps(summary, allow_nan=False)
    return summary


@pytest.mark.parametrize("engine", KEYS)
def test_keys_are_those_of_the_command_lines_table(engine: str) -> None:
    least = {"max_model_len": 4096} if engine == "orca" else {}
    knobs = resolved({"engine": engine} | least)
    assert set(type(knobs.replicas[0].knobs).model_fields) == {"engine", *KEYS[engine].split()}


@pytest.mark.parametrize("engine", KEYS)
def test_a_scenario_runs_to_its_end(engine: str) -> None:
    policy = {"engine": engine, "max_model_len": 1024} if engine == "orca" else {"engine": engine}
    for summary in (simulate(parse_scenario(scenario(policy))).summary, toy(policy)):
        assert summary["status"] == "finished"
        assert summary["finished"] == 16
        assert summary["replicas"][0]["engine"] == engine
        assert 0 < summary["kv_peak_fraction"] <= 1
    assert (summary["padding_tokens"] > 0) == (engine == "static")


def test_derived_values() -> None:
    replica = resolved({"engine": "vllm_v0"}).replicas[0]
    assert replica.derived == ("max_num_batched_tokens", "max_model_len", "num_gpu_blocks")
    assert replica.row.max_num_batched_tokens == replica.row.max_model_len == 32_768
    assert replica.row.num_gpu_blocks == replica.pool.num_gpu_blocks + 1
    assert replica.row.watermark_blocks == int(0.01 * replica.pool.num_gpu_blocks)
    assert replica.row.num_host_blocks == 0
    static = resolved({"engine": "static", "max_batch_size": 4}).replicas[0]
    assert static.derived == ("kv_tokens",)
    assert static.row.num_gpu_blocks - 1 == static.knobs.kv_tokens <= 4 * 32_768
    assert static.row.max_model_len == 32_768
    sarathi = resolved({"engine": "sarathi", "max_model_len": 4096}).replicas[0]
    assert sarathi.row.max_num_batched_tokens == 512
    assert sarathi.derived == ("num_gpu_blocks",)


def test_host_memory_in_blocks_of_one_gpu() -> None:
    """Qwen2.5-7B: 57,344 bytes per token, 16 tokens per block, 1 GiB per GPU."""
    swap = {"engine": "vllm_v0", "preemption_mode": "swap", "swap_space_bytes": 1 << 30}
    one, two = resolved(swap), resolved(swap, tp=2)
    assert one.policy[0].num_host_blocks == (1 << 30) // (16 * 57_344)
    assert two.policy[0].num_host_blocks == (1 << 30) // (16 * 28_672)
    assert one.latency[0].swap_block_bytes == 16 * 57_344
    assert one.latency[0].host_bandwidth == 25e9


def test_swapped_bytes_are_counted_both_ways() -> None:
    """Little KV: some go to host memory and all come back, so the bytes are an even number of
    blocks; without swap they are computed again."""
    knobs = {"engine": "vllm_v0", "num_gpu_blocks": 60, "max_model_len": 512}
    swap = simulate(parse_scenario(scenario(knobs | {"preemption_mode": "swap"}))).summary
    again = simulate(parse_scenario(scenario(knobs))).summary
    block = 16 * 57_344
    assert swap["swapped_bytes"] > 0
    assert swap["swapped_bytes"] % (2 * block) == 0
    assert swap["recomputed_tokens"] == 0
    assert again["swapped_bytes"] == 0
    assert again["recomputed_tokens"] > 0
    assert swap["preemptions"] > 0


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"engine": "vllm_v0", "chunk_size": 4}, r"policy.chunk_size: unknown key"),
        ({"engine": "vllm_v0", "preemption_mode": "drop"}, "allowed: 'recompute' or 'swap'"),
        ({"engine": "vllm_v0", "watermark": 1.5}, "watermark: found 1.5; must be less than 1"),
        ({"engine": "sarathi", "chunk_size": 0}, "policy.chunk_size: found 0; must be at least 1"),
        ({"engine": "sarathi", "chunk_siz": 8}, "did you mean 'chunk_size'"),
        (
            {"engine": "sarathi", "dynamic": [64, 32, 99_999, 4]},
            r"dynamic: low \(64\) must not be more than high \(32\)",
        ),
        (
            {"engine": "sarathi", "dynamic": [32, 64, 100, 4]},
            r"stages end at max_tokens \(100\), a prompt may have up to max_model_len \(32768\)",
        ),
        (
            {"engine": "sarathi", "dynamic": [32, 64]},
            r"policy.dynamic: found 2 numbers; must be \[low, high, max_tokens, stages\]",
        ),
        ({"engine": "sarathi", "dynamic": [8, "a", 9, 1]}, r"dynamic\[1\]: found 'a'; must be a"),
        (
            {"engine": "orca", "num_gpu_blocks": 10, "max_model_len": 512},
            "10 KV blocks of 16 tokens hold no slot of max_model_len",
        ),
        ({"engine": "static", "max_batch_size": "many"}, "max_batch_size: found 'many'; must be a"),
        ({"engine": "static", "max_num_seqs": 4}, "max_num_seqs: unknown key"),
        ({"engine": "orka"}, rf"policy.engine: found 'orka'; allowed: {ALLOWED}"),
        ({"chunk_size": 8}, r"replicas\[0\].policy: engine is missing"),
    ],
)
def test_refusals_help(policy: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError, match=words) as caught:
        resolved(policy)
    assert len(caught.value.problems) == 1


def test_a_swap_needs_a_model_and_a_host_link() -> None:
    swap = {"engine": "vllm_v0", "preemption_mode": "swap"}
    linear = {"latency": {"kind": "linear"}, "gpu": None}
    with pytest.raises(ScenarioError, match="preemption_mode swap needs a model"):
        resolved(swap, model=None, **linear)
    with pytest.raises(ScenarioError, match="host_link is missing"):
        resolved(swap, **linear)
    assert resolved(swap, host_link="pcie_gen5_x16", **linear).latency[0].host_bandwidth == 55e9


@pytest.mark.parametrize(
    ("policy", "rejected"),
    [
        ({"engine": "vllm_v0", "max_num_batched_tokens": 150}, "prompt_exceeds_token_budget"),
        ({"engine": "vllm_v0", "max_model_len": 200}, "prompt_reaches_max_model_len"),
        ({"engine": "sarathi", "num_gpu_blocks": 10}, "prompt_exceeds_kv_pool"),
        ({"engine": "orca", "max_model_len": 150}, "prompt_reaches_max_model_len"),
        ({"engine": "static", "kv_tokens": 240}, "request_exceeds_kv_pool"),
    ],
)
def test_the_front_end_refuses_what_can_never_run(policy: dict[str, Any], rejected: str) -> None:
    summary = toy(policy)
    assert summary["status"] == "finished"
    assert summary["rejected_reasons"] == {rejected: 16}


def test_flags_of_vllm_v0(tmp_path: Path) -> None:
    command = vllm_serve_flags(resolved({"engine": "vllm_v0", "preemption_mode": "swap"}))
    assert command.startswith("VLLM_USE_V1=0 vllm serve Qwen2.5-7B")
    for flag in ("--swap-space 4", "--preemption-mode swap", "--no-enable-chunked-prefill"):
        assert flag in command
    with pytest.raises(ValueError, match="does not start a server of sarathi"):
        vllm_serve_flags(resolved({"engine": "sarathi"}))

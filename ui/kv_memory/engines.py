"""The engines whose KV memory the block map shows, and a preset's memory in the words of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sim.results.run import workload_of
from sim.scenario.load import Scenario, parse_scenario
from ui.block_map.packing import Words
from ui.scenarios import presets
from ui.scenarios.settings import vllm_v1

TITLES: Mapping[str, str] = {
    "vllm_v1": "vLLM V1",
    "vllm_v0": "vLLM V0",
    "sarathi": "Sarathi-Serve",
    "sglang": "SGLang",
    "tensorrt_llm": "TensorRT-LLM",
    "orca": "Orca",
}
FIRST = "vllm_v1"
WITH_WATERMARK = ("vllm_v1", "vllm_v0")
WITH_CACHE = ("vllm_v1", "sglang", "tensorrt_llm")
WATERMARKS = (0.0, 0.01, 0.05, 0.1)
PREEMPT_BY = ("recompute", "swap")
CAPACITY = ("GUARANTEED_NO_EVICT", "MAX_UTILIZATION")
BLOCK = 16  # of all engines here, so that their maps can be compared
# Whom each engine throws out when memory is short.
VICTIM: Mapping[str, str] = {
    "sglang": "the one with the fewest answer tokens",
    "tensorrt_llm": "the last to have arrived",
}
THE_LAST = "the last in line"
# What each engine promises, or holds back.
RULE: Mapping[str, str] = {
    "vllm_v0": "A prompt is let in when all of its blocks and the watermark are free.",
    "sarathi": "A prompt is let in when all of its blocks and 1% of the pool are free.",
    "sglang": "A prompt is let in beside what the others are expected to generate.",
    "orca": "A request gets a slot for the longest request, whatever it needs.",
}
CAPACITY_RULE: Mapping[str, str] = {
    "GUARANTEED_NO_EVICT": "A prompt is let in when its max_tokens fit as well.",
    "MAX_UTILIZATION": "A prompt is let in when it fits; somebody is paused when memory ends.",
}


@dataclass(frozen=True)
class Rules:
    """The engine of the block map and its knobs; an engine reads those that it has.

    gate, watermark: vLLM V1's full-prompt gate, and the share of blocks kept back at admission
    (V0's too). caching: prefix caching. preempt_by: V0's. capacity: TensorRT-LLM's.
    """

    engine: str = "vllm_v1"
    gate: bool = True
    watermark: float = 0.0
    caching: bool = False
    preempt_by: str = "recompute"
    capacity: str = "GUARANTEED_NO_EVICT"

    @property
    def has_cache(self) -> bool:
        return self.engine in WITH_CACHE

    @property
    def has_gate(self) -> bool:
        return self.engine == FIRST

    @property
    def has_watermark(self) -> bool:
        return self.engine in WITH_WATERMARK

    @property
    def can_swap(self) -> bool:
        return self.engine == "vllm_v0"

    @property
    def has_capacity_policy(self) -> bool:
        return self.engine == "tensorrt_llm"

    @property
    def has_knobs(self) -> bool:
        return (
            self.has_cache or self.has_gate or self.has_watermark or self.can_swap
            or self.has_capacity_policy
        )  # fmt: skip

    @property
    def victim(self) -> str:
        return VICTIM.get(self.engine, THE_LAST)

    @property
    def words(self) -> Words:
        return Words(self.admission, self.victim, self.engine == "orca")

    @property
    def admission(self) -> str:
        """What decides over admission, as a sentence; V1's is in its knobs."""
        if self.engine == "tensorrt_llm":
            return CAPACITY_RULE[self.capacity]
        if self.engine == "vllm_v1":
            return f"Full-prompt gate {'on' if self.gate else 'off'}."
        return RULE[self.engine]


def rules_of(preset: str, engine: str = "vllm_v1") -> Rules:
    """The rules as a preset has them."""
    policy = vllm_v1(presets.scenario_of(preset).replicas[0].policy)
    return Rules(
        engine, policy.scheduler_reserve_full_isl, policy.watermark, policy.enable_prefix_caching
    )


def scenario_of(preset: str, rules: Rules) -> Scenario:
    """A preset's requests and memory under an engine's rules. ScenarioError for what it refuses."""
    base = presets.scenario_of(preset)
    data: dict[str, Any] = base.model_dump(mode="json")
    policy = data["replicas"][0]["policy"]
    if rules.engine == "vllm_v1":
        policy |= {
            "scheduler_reserve_full_isl": rules.gate,
            "watermark": rules.watermark,
            "enable_prefix_caching": rules.caching,
        }
    else:
        data["replicas"][0]["policy"] = knobs_of(rules, policy, base)
    return parse_scenario(data)


def knobs_of(rules: Rules, shared: Mapping[str, Any], base: Scenario) -> dict[str, Any]:
    """The knobs of an engine that come nearest to vLLM V1's."""
    budget, seqs = shared["max_num_batched_tokens"], shared["max_num_seqs"]
    length, blocks = shared["max_model_len"], shared["num_gpu_blocks"] - 1
    found: dict[str, Any] = {"engine": rules.engine}
    if rules.engine == "vllm_v0":
        return found | {
            "max_num_batched_tokens": max(budget, length), "max_num_seqs": seqs,
            "max_model_len": length, "num_gpu_blocks": blocks, "watermark": rules.watermark,
            "preemption_mode": rules.preempt_by,
        }  # fmt: skip
    if rules.engine == "sarathi":
        return found | {
            "chunk_size": budget, "max_num_seqs": seqs, "max_model_len": length,
            "num_gpu_blocks": blocks,
        }  # fmt: skip
    if rules.engine == "sglang":
        return found | {
            "chunked_prefill_size": budget, "max_running_requests": seqs, "page_size": BLOCK,
            "context_length": length, "max_total_tokens": blocks * BLOCK,
            "disable_radix_cache": not rules.caching,
        }  # fmt: skip
    if rules.engine == "tensorrt_llm":
        return found | {
            "max_num_tokens": budget, "enable_chunked_prefill": True, "max_batch_size": seqs,
            "max_seq_len": length, "tokens_per_block": BLOCK, "num_blocks": blocks,
            "enable_block_reuse": rules.caching, "capacity_scheduler_policy": rules.capacity,
        }  # fmt: skip
    return found | {
        "max_num_seqs": seqs, "max_model_len": longest(base), "num_gpu_blocks": blocks,
    }  # fmt: skip


def longest(base: Scenario) -> int:
    """Tokens of the longest request: the smallest slot that serves this workload."""
    workload, _ = workload_of(base)
    return int((workload.num_prompt_tokens + workload.max_tokens).max())

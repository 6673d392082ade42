"""The ways to batch: what each is called, and which knobs a reader may turn."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from sim.cluster import disaggregation
from sim.engines import orca, sarathi, sglang, static, tensorrt_llm, vllm_v0, vllm_v1
from sim.engines.registry import ENGINE_IDS
from sim.hardware import catalog
from ui.presets import Preset

PRESETS = (
    Preset("six_ways_chats_two_documents", "Chats + two documents"),
    Preset("six_ways_head_of_line", "Head-of-line: 32 streams, one prompt"),
    Preset("six_ways_all_short", "All short"),
    Preset("six_ways_out_of_memory", "Out of memory"),
)
Value = int | bool | str


@dataclass(frozen=True)
class Knob:
    """A knob a reader may turn: a number from `least` on, a switch, or one of `options`."""

    name: str
    start: Value
    least: int = 1
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Way:
    """A policy: its engine, what to call it, its knobs, its source, and a judgement of ours.

    `length` and `kv` name the knobs for the longest request and for the KV memory (in tokens of
    `kv_unit`, or the name of the knob that says how many a block has).
    `complexity`: how much there is to operate; `because`: why we think so.
    """

    engine: str
    title: str
    knobs: tuple[Knob, ...]
    source: ModuleType
    complexity: str
    because: str
    length: str | None = "max_model_len"
    kv: str = "num_gpu_blocks"
    kv_unit: int | str = 16

    def note(self, chosen: Mapping[str, Value]) -> str:
        """The knobs that matter, in a few words."""
        return NOTES[self.engine](chosen)


def _trt_note(k: Mapping[str, Value]) -> str:
    kept = {"GUARANTEED_NO_EVICT": "no evict", "MAX_UTILIZATION": "max utilization"}
    capacity = kept.get(str(k["capacity_scheduler_policy"]), "static batch")
    if not k["enable_chunked_prefill"]:
        return f"{capacity}, whole prompts"
    order = "equal progress" if k["context_chunking_policy"] == "EQUAL_PROGRESS" else "FCFS"
    return f"{capacity}, {order}, unit {k['tokens_per_block']}"


NOTES: dict[str, Any] = {
    "static": lambda k: f"batch of {k['max_batch_size']}, padded",
    "orca": lambda k: "iteration level, whole prompts",
    "vllm_v0": lambda k: f"prefill first, preempts by {k['preemption_mode']}",
    "vllm_v1": lambda k: (
        f"chunks, budget {k['max_num_batched_tokens']:,}"
        if k["enable_chunked_prefill"]
        else f"whole prompts, budget {k['max_num_batched_tokens']:,}"
    ),
    "tensorrt_llm": _trt_note,
    "sarathi": lambda k: f"decodes first, chunks of {k['chunk_size']:,}",
    "disaggregated": lambda k: (
        f"{k['prefill_servers']} prefill + {k['decode_servers']} decode, "
        + ("KV streamed" if k["streaming"] else "KV after the prompt")
    ),
    "sglang": lambda k: (
        f"chunks of {k['chunked_prefill_size']:,}, decodes "
        + ("join" if k["enable_mixed_chunk"] else "wait")
    ),
}

LINKS = tuple(name for name in catalog.link_names() if name.startswith(("rdma", "nvl", "eth")))
WAYS = (
    Way(
        "static", "Static", (Knob("max_batch_size", 4),), static, "low",
        "one queue and one loop; nothing to tune but the batch", length=None, kv="kv_tokens",
        kv_unit=1,
    ),
    Way(
        "orca", "Orca", (Knob("max_num_seqs", 64),), orca, "low",
        "memory is reserved for the longest request, so nothing is ever preempted",
    ),
    Way(
        "vllm_v0", "vLLM V0",
        (
            Knob("max_num_batched_tokens", 8192), Knob("max_num_seqs", 64),
            Knob("preemption_mode", "recompute", options=("recompute", "swap")),
        ),
        vllm_v0, "medium", "paged memory, preemption, a token limit that must hold every prompt",
    ),
    Way(
        "vllm_v1", "vLLM V1",
        (
            Knob("max_num_batched_tokens", 512), Knob("long_prefill_token_threshold", 0, 0),
            Knob("max_num_seqs", 64), Knob("enable_chunked_prefill", True),
        ),
        vllm_v1, "medium", "one budget to tune; prompts and decodes share every step",
    ),
    Way(
        "tensorrt_llm", "TensorRT-LLM",
        (
            Knob("max_num_tokens", 1024), Knob("max_batch_size", 64),
            Knob("tokens_per_block", 64), Knob("enable_chunked_prefill", True),
            Knob(
                "capacity_scheduler_policy", "GUARANTEED_NO_EVICT",
                options=("GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"),
            ),
            Knob(
                "context_chunking_policy", "FIRST_COME_FIRST_SERVED",
                options=("FIRST_COME_FIRST_SERVED", "EQUAL_PROGRESS"),
            ),
        ),
        tensorrt_llm, "high", "two policies that combine, and an engine built for its limits",
        length="max_seq_len", kv="num_blocks", kv_unit="tokens_per_block",
    ),
    Way(
        "sarathi", "Sarathi-Serve", (Knob("chunk_size", 512), Knob("max_num_seqs", 64)), sarathi,
        "medium", "one chunk size to tune against the latency target",
    ),
    Way(
        "sglang", "SGLang",
        (
            Knob("chunked_prefill_size", 512, -1), Knob("enable_mixed_chunk", False),
            Knob("max_running_requests", 64),
        ),
        sglang, "medium", "admission rests on an estimate of how long answers will be",
        length="context_length", kv="max_total_tokens", kv_unit=1,
    ),
    Way(
        "disaggregated", "Disaggregated",
        (
            Knob("prefill_servers", 1), Knob("decode_servers", 1),
            Knob("max_num_batched_tokens", 2048), Knob("link", "rdma_100g", options=LINKS),
            Knob("streaming", False),
            Knob("first_token_from", "decode", options=("decode", "prefill")),
        ),
        disaggregation, "high", "two pools to size, a network that must keep up, a proxy",
    ),
)  # fmt: skip
FIRST_SHOWN = ("static", "orca", "vllm_v0", "vllm_v1", "tensorrt_llm")


LONE_WAYS = tuple(way for way in WAYS if way.engine in ENGINE_IDS)  # one server does it all


@cache
def way_of(engine: str) -> Way:
    return next(way for way in WAYS if way.engine == engine)

"""The ways to batch: what each is called, which knobs a reader may turn, and how a workload is put
under it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

from sim import catalog, disaggregation
from sim.knobs.engine import NO_MODEL_LEN
from sim.model_config import DescribedModel, model_of
from sim.policies import POLICIES, orca, sarathi, sglang, static, tensorrt_llm, vllm_v0, vllm_v1
from sim.scenario import Scenario, parse_scenario, resolve
from ui import machines, presets
from ui.presets import Preset
from ui.settings import written

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
NO_CACHE: dict[str, dict[str, Value]] = {
    "vllm_v1": {"enable_prefix_caching": False},
    "tensorrt_llm": {"enable_block_reuse": False},
    "sglang": {"disable_radix_cache": True},
    "disaggregated": {"enable_prefix_caching": False},
}
NULL_BLOCK = ("vllm_v1", "disaggregated")  # their block count includes one that nobody gets
FIRST_SHOWN = ("static", "orca", "vllm_v0", "vllm_v1", "tensorrt_llm")


LONE_WAYS = tuple(way for way in WAYS if way.engine in POLICIES)  # one server does it all


@cache
def way_of(engine: str) -> Way:
    return next(way for way in WAYS if way.engine == engine)


# Knobs that mean the same in every engine: they start as the reader's scenario has them.
BUDGET = {
    "vllm_v1": "max_num_batched_tokens", "vllm_v0": "max_num_batched_tokens",
    "tensorrt_llm": "max_num_tokens", "sarathi": "chunk_size", "sglang": "chunked_prefill_size",
    "disaggregated": "max_num_batched_tokens",
}  # fmt: skip
SEQS = {
    "orca": "max_num_seqs", "vllm_v0": "max_num_seqs", "vllm_v1": "max_num_seqs",
    "sarathi": "max_num_seqs", "tensorrt_llm": "max_batch_size", "sglang": "max_running_requests",
}  # fmt: skip
MOST_SEQS = 256  # to start with, where a scenario leaves it open


def starting(way: Way, base: Scenario | None = None) -> dict[str, Value]:
    """The knobs as a preset has them; with `base`, as that scenario has them where it says."""
    found = {knob.name: knob.start for knob in way.knobs}
    if base is None:
        return found
    policy = base.replicas[0].policy
    budget = policy.max_num_batched_tokens
    if budget and way.engine in BUDGET:
        # vLLM V0 runs prompts whole: its limit must hold the longest
        least = length_of(base, None) if way.engine == "vllm_v0" else 1
        if way.engine == "tensorrt_llm":
            least = int(found["tokens_per_block"])
        found[BUDGET[way.engine]] = max(budget, least)
    if way.engine in SEQS:
        found[SEQS[way.engine]] = policy.max_num_seqs or min(MOST_SEQS, budget or MOST_SEQS)
    if way.engine == "vllm_v1":
        found["long_prefill_token_threshold"] = policy.long_prefill_token_threshold
        found["enable_chunked_prefill"] = policy.enable_chunked_prefill
    return found


def length_of(base: Scenario, model: str | DescribedModel | None) -> int:
    """The longest request that all ways get: the scenario's, or what the model was made for."""
    replica = base.replicas[0]
    if replica.policy.max_model_len:
        return int(replica.policy.max_model_len)
    name = model or replica.model
    return model_of(name).max_model_len if name else NO_MODEL_LEN


def scenario_of(
    preset: str,
    way: Way,
    chosen: Mapping[str, Value],
    model: str | DescribedModel,
    gpu: str,
    tp: int = 1,
    servers: int = 1,
) -> Scenario:
    """A preset's workload under a way. ScenarioError for an impossible value."""
    base = presets.scenario_of(preset)
    runs = machines.own_model(gpu) or model_of(model)
    length = min(length_of(base, model), runs.max_model_len)
    return under(base, way, chosen, Server(model, gpu, tp, servers), length)


@dataclass(frozen=True)
class Server:
    """What all ways run on: `servers` of `tp` GPUs each, in pools where prefill and decode are
    apart. Without model and GPU: the scenario's own, or its linear toy."""

    model: str | DescribedModel | None
    gpu: str | None
    tp: int = 1
    servers: int = 1

    def __str__(self) -> str:
        several = f"{self.servers} servers: " if self.servers > 1 else ""
        if self.model is None or self.gpu is None:
            return f"{several}the linear toy's step times"
        if machines.is_profile(self.gpu):
            return several + "".join(machines.said(None, self.gpu))
        gpu = f"{f'{self.tp} x ' if self.tp > 1 else ''}{catalog.gpu(self.gpu).title}"
        return f"{self.model} on {f'{self.servers} servers of ' if several else ''}{gpu}"


def under(
    base: Scenario, way: Way, chosen: Mapping[str, Value], server: Server, length: int
) -> Scenario:
    """A scenario's workload under a way. ScenarioError for an impossible value.

    All ways get the same room: requests of up to `length` tokens, and the KV memory of the scenario
    (a preset's blocks, else what fits the GPU), in the words of each engine.
    """
    data: dict[str, Any] = base.model_dump(mode="json")
    replica = data["replicas"][0]
    shared = replica["policy"]
    replica |= {"tp": 1 if machines.is_profile(server.gpu) else server.tp}
    replica |= machines.replica_fields(written(server.model), server.gpu, replica["latency"])
    policy: dict[str, Any] = {"engine": way.engine, **chosen, **NO_CACHE.get(way.engine, {})}
    replica["count"] = server.servers
    if server.servers > 1:
        data["router"] = {"kind": "least_tokens"}
    if way.length is not None:
        policy[way.length] = length
    if shared["num_gpu_blocks"] is not None:
        tokens = (shared["num_gpu_blocks"] - 1) * shared["block_size"]
        unit = chosen[way.kv_unit] if isinstance(way.kv_unit, str) else way.kv_unit
        blocks = max(1, tokens // max(1, int(unit)))
        policy[way.kv] = blocks + 1 if way.engine in NULL_BLOCK else blocks
    elif way.engine == "static":  # it has no knob for the length, which decides what is left for KV
        shared["max_model_len"] = length
        resolved = resolve(parse_scenario(data)).replicas[0]
        room = (resolved.num_gpu_blocks - 1) * shared["block_size"]
        policy[way.kv] = min(room, max(1, int(chosen["max_batch_size"])) * length)
    replica["policy"] = policy
    if way.engine == "disaggregated":
        take_apart(data)
    return parse_scenario(data)


def take_apart(data: dict[str, Any]) -> None:
    """Put vLLM V1 servers into two pools, as the knobs of the way say."""
    replica = data["replicas"][0]
    knobs = replica["policy"]
    pools = {role: knobs.pop(f"{role}_servers") for role in ("prefill", "decode")}
    data["link"] = {"kind": knobs.pop("link"), "streaming": knobs.pop("streaming")}
    data["disaggregation"] = {"first_token_from": knobs.pop("first_token_from")}
    data["router"] = {"kind": "least_tokens", "decode_kind": "free_kv"}
    knobs["engine"] = "vllm_v1"
    data["replicas"] = [replica | {"role": role, "count": n} for role, n in pools.items()]

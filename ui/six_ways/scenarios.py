"""A workload put under a way to batch: the scenario that runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sim.engines.knobs.base import NO_MODEL_LEN
from sim.hardware import catalog
from sim.scenario.load import Scenario, parse_scenario, resolve
from sim.scenario.model_config import DescribedModel, model_of
from ui import machines, presets
from ui.settings import written
from ui.six_ways.ways import Value, Way

NO_CACHE: dict[str, dict[str, Value]] = {
    "vllm_v1": {"enable_prefix_caching": False},
    "tensorrt_llm": {"enable_block_reuse": False},
    "sglang": {"disable_radix_cache": True},
    "disaggregated": {"enable_prefix_caching": False},
}
NULL_BLOCK = ("vllm_v1", "disaggregated")  # their block count includes one that nobody gets

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

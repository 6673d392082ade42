"""The commands that start the servers of a scenario, with the flags of their engines: one for each
kind of server."""

import json
import shlex
from collections.abc import Callable, Sequence

import yaml

from sim.engines.knobs.base import EngineKnobs
from sim.engines.knobs.sglang import Sglang
from sim.engines.knobs.tensorrt_llm import TensorRtLlm
from sim.engines.knobs.vllm_v0 import VllmV0
from sim.engines.knobs.vllm_v1 import VllmV1
from sim.scenario.load import Resolved
from sim.scenario.resolve import ResolvedReplica, free_fraction

__all__ = ["sglang_server_flags", "trtllm_serve_files", "vllm_serve_flags"]

# Of NixlConnector, vLLM 0.26.0: `kv_both` is deprecated there.
KV_ROLES = {"prefill": "kv_producer", "decode": "kv_consumer"}
ABOUT_NIXL = (
    "# Prefill and decode by NixlConnector, checked against vLLM 0.26.0. Each server needs a\n"
    "# separate VLLM_NIXL_SIDE_CHANNEL_HOST and _PORT, and a proxy in front: it sends each\n"
    "# request to a prefill server with max_tokens = 1, then, with the kv_transfer_params of its\n"
    "# answer, to a decode server."
)


def vllm_serve_flags(resolved: Resolved) -> str:
    """The commands that start these servers, with derived values except the KV pool, which a server
    measures itself. ValueError without a model or for an engine other than vLLM."""
    return blocks(resolved, lambda replica: vllm_command(resolved, replica))


def vllm_command(resolved: Resolved, replica: ResolvedReplica) -> str:
    spec, knobs = replica.replica, served(replica, (VllmV0, VllmV1), "num_gpu_blocks", "vllm serve")
    flags = [
        f"--tensor-parallel-size {spec.tp}",
        f"--gpu-memory-utilization {spec.gpu_memory_utilization:g}",
        *knobs.serve_flags(),
    ]
    if spec.kv_cache_dtype != "auto":
        flags.append(f"--kv-cache-dtype {spec.kv_cache_dtype}")
    return command(replica, [*flags, *quantization(replica), *kv_transfer(resolved, replica)])


def kv_transfer(resolved: Resolved, replica: ResolvedReplica) -> list[str]:
    """`--kv-transfer-config` of a prefill or a decode server. ValueError under vLLM V0."""
    how, role = resolved.scenario.disaggregation, replica.replica.role
    if how is None:
        return []
    if not isinstance(replica.knobs, VllmV1):
        raise ValueError(f"NixlConnector is vLLM V1's, not that of {replica.knobs.engine}")
    config = {"kv_connector": "NixlConnector", "kv_role": KV_ROLES[role]}
    if role == "decode" and how.kv_load_failure_policy != "fail":
        config["kv_load_failure_policy"] = how.kv_load_failure_policy
    return [f"--kv-transfer-config {shlex.quote(json.dumps(config))}"]


def trtllm_serve_files(resolved: Resolved) -> tuple[str, str]:
    """(the command that starts this server, the content of its extra_llm_api_options.yaml), for the
    first kind of servers; the server measures the KV pool itself where it is null. ValueError
    without a model or for an engine other than TensorRT-LLM."""
    replica = resolved.replicas[0]
    knobs = served(replica, (TensorRtLlm,), "num_blocks", "trtllm-serve")
    assert isinstance(knobs, TensorRtLlm)
    flags = [
        f"--tp_size {replica.replica.tp}",
        *knobs.serve_flags(),
        "--extra_llm_api_options extra_llm_api_options.yaml",
    ]
    options = knobs.extra_llm_api_options(free_fraction(replica.replica) or 1.0)
    if replica.replica.kv_cache_dtype != "auto":
        options["kv_cache_config"]["dtype"] = replica.replica.kv_cache_dtype
    return command(replica, flags), yaml.safe_dump(options, sort_keys=False)


def sglang_server_flags(resolved: Resolved) -> str:
    """The commands that start these servers, with the overlap schedule off, as simulated.
    ValueError without a model or for an engine other than SGLang."""
    return blocks(resolved, sglang_command)


def sglang_command(replica: ResolvedReplica) -> str:
    spec, knobs = replica.replica, served(replica, (Sglang,), "max_total_tokens", "sglang")
    flags = [
        f"--tp-size {spec.tp}",
        f"--mem-fraction-static {spec.gpu_memory_utilization:g}",
        *knobs.serve_flags(),
        "--disable-overlap-schedule",
    ]
    if spec.kv_cache_dtype != "auto":
        flags.append("--kv-cache-dtype fp8_e4m3")
    return command(replica, [*flags, *quantization(replica)])


# --- shared ---------------------------------------------------------------------------------------


def blocks(resolved: Resolved, one: Callable[[ResolvedReplica], str]) -> str:
    """The command of a single server; for a cluster one for each kind, with its count."""
    if len(resolved.replicas) == 1:
        return one(resolved.replicas[0])
    kinds = {id(replica): replica for replica in resolved.replicas}
    parts = [ABOUT_NIXL] if resolved.scenario.disaggregation is not None else []
    for replica in kinds.values():
        count, role = replica.replica.count, replica.replica.role
        does = "" if role == "both" else f"{role} "
        on = f" on {replica.gpu.title}" if replica.gpu else ""
        title = f"# {count} {does}server{'s' if count > 1 else ''}{on}"
        parts.append(f"{title}\n{one(replica)}")
    return "\n\n".join(parts)


def served(
    replica: ResolvedReplica, kinds: tuple[type[EngineKnobs], ...], pool: str, server: str
) -> EngineKnobs:
    """The knobs of a replica, without the KV pool (the knob `pool`) where that was derived.
    ValueError without a model, or for an engine that `server` does not start."""
    if replica.model is None:
        raise ValueError("the scenario names no model, so no server can be started")
    if not isinstance(replica.knobs, kinds):
        raise ValueError(f"{server} does not start a server of {replica.knobs.engine}")
    knobs: EngineKnobs = replica.knobs
    if pool in replica.derived:
        knobs = knobs.model_copy(update={pool: None})
    return knobs


def command(replica: ResolvedReplica, flags: Sequence[str]) -> str:
    """The command of the server with its model and flags, one flag per line."""
    assert replica.model is not None
    asked = replica.replica.model
    name = shlex.quote(asked if isinstance(asked, str) else replica.model.name)
    return " \\\n    ".join([f"{replica.knobs.server} {name}", *flags])


def quantization(replica: ResolvedReplica) -> list[str]:
    return ["--quantization fp8"] if replica.precision == "fp8" else []

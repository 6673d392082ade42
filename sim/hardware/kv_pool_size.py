"""How many KV blocks fit in the memory of a GPU.

    KV bytes = memory x gpu_memory_utilization - weights / tp - reserve
    reserve  = context + NCCL (tp > 1)
             + max_num_batched_tokens x activation bytes of a token
             + max_num_seqs x vocabulary x 4 bytes x copies of the logits

The engine measures its reserve with a dummy step of the full token budget and a dummy sampling of
max_num_seqs rows, so it grows with both: a larger budget leaves less KV. A token of that step
holds its residual stream four times and one layer's MLP three times in bf16. Constants and
sources: data/engines.toml. One block is vLLM's null block, which is never allocated: num_gpu_blocks
includes it.
"""

from dataclasses import dataclass
from typing import Any

from sim.hardware import catalog
from sim.hardware.catalog import kv_element_bytes

__all__ = ["KvPool", "activation_bytes", "engine_default", "is_large", "kv_pool"]

LOGIT_BYTES = 4.0


@dataclass(frozen=True)
class KvPool:
    """The memory of one GPU by use, in bytes, and the number of KV blocks that fit in the rest."""

    memory_bytes: float
    usable_bytes: float
    weight_bytes: float
    reserve_bytes: float
    kv_bytes: float
    kv_bytes_per_token: float
    num_gpu_blocks: int

    def tokens(self, block_size: int) -> int:
        """Tokens that requests can hold, the null block not counted."""
        return (self.num_gpu_blocks - 1) * block_size


def engine_default(engine: str, key: str) -> Any:
    """A number of data/engines.toml."""
    return catalog.table("engines")[engine][key]["value"]


def is_large(gpu: catalog.Gpu, engine: str = "vllm_v1") -> bool:
    """Whether the engine's table of defaults counts this GPU as large."""
    if gpu.name in engine_default(engine, "never_large"):
        return False
    return bool(gpu.memory_bytes >= engine_default(engine, "large_from_bytes"))


def activation_bytes(model: catalog.Model, tp: int) -> float:
    """Peak activation memory of one token on one GPU."""
    return (4 * model.hidden_size + 3 * model.intermediate_size / tp) * catalog.BF16_BYTES


def kv_pool(
    model: catalog.Model,
    gpu: catalog.Gpu,
    *,
    precision: str,
    tp: int,
    kv_cache_dtype: str,
    utilization: float,
    free_fraction: float | None = None,
    max_num_batched_tokens: int,
    max_num_seqs: int,
    block_size: int,
) -> KvPool:
    """The pool of one GPU. ValueError, with the numbers, where the weights alone do not fit.

    With `free_fraction` the engine takes that share of the memory that is free after loading
    (TensorRT-LLM), instead of the rest of `utilization` of all memory (vLLM).
    """
    usable = gpu.memory_bytes * (utilization if free_fraction is None else 1.0)
    weights = model.weight_bytes(precision) / tp
    reserve = engine_default("vllm_v1", "context_bytes")
    reserve += engine_default("vllm_v1", "nccl_bytes") if tp > 1 else 0.0
    reserve += max_num_batched_tokens * activation_bytes(model, tp)
    copies = engine_default("vllm_v1", "sampler_copies")
    reserve += max_num_seqs * model.vocab_size * LOGIT_BYTES * copies
    per_token = model.kv_bytes_per_token(tp, kv_element_bytes(kv_cache_dtype))
    left = usable - weights - reserve
    if free_fraction is not None:
        left *= free_fraction
    blocks = int(left // (per_token * block_size))
    pool = KvPool(gpu.memory_bytes, usable, weights, reserve, left, per_token, blocks)
    if blocks < 2:
        raise ValueError(too_large(pool, model, gpu, precision, tp))
    return pool


def too_large(pool: KvPool, model: catalog.Model, gpu: catalog.Gpu, precision: str, tp: int) -> str:
    """Why no KV block fits, and what to change."""
    advice = ["a larger tp", "a larger GPU"]
    if precision != "fp8" and "fp8" in gpu.peak_flops:
        advice.insert(1, "precision fp8")
    if pool.weight_bytes < pool.usable_bytes:
        advice.append("a smaller max_num_batched_tokens or max_num_seqs")
    share = f" on each of {tp} GPUs" if tp > 1 else ""
    return (
        f"{model.name} in {precision} leaves no room for KV on {gpu.title}: its weights take "
        f"{pool.weight_bytes / 1e9:.1f} GB{share} and activations "
        f"{pool.reserve_bytes / 1e9:.1f} GB, the engine may use {pool.usable_bytes / 1e9:.1f} GB "
        f"of the GPU's {pool.memory_bytes / 1e9:.1f} GB; try {', '.join(advice)}"
    )

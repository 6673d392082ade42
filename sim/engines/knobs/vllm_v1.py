"""The knobs of vLLM V1: what `policy` holds in a scenario, how open ones are filled in, what is
refused.

Names, defaults and refusals are vLLM's (0.26.0, `vllm/config/scheduler.py`,
`vllm/config/cache.py`). Not offered: max_num_partial_prefills and max_long_partial_prefills,
which V1 accepts and does not enforce.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from sim.engines.knobs.base import (
    MAX_FREE_BLOCKS,
    BlockSize,
    Derived,
    EngineKnobs,
    Seqs,
    auto_is_null,
    check_made_for,
    check_room,
    check_table,
    length_of,
)
from sim.engines.knobs.hardware import Hardware, SettingsError
from sim.hardware import kv_pool_size

__all__ = ["VllmV1"]

NOT_ENFORCED = "vLLM V1 accepts it and does not enforce it"
ON_THE_REPLICA = "it is a key of the replica, beside policy"
NOT_MODELLED = {
    "max_num_partial_prefills": NOT_ENFORCED,
    "max_long_partial_prefills": NOT_ENFORCED,
    "async_scheduling": "scheduling is simulated as synchronous (--no-async-scheduling)",
    "num_speculative_tokens": "speculative decoding is not simulated",
    "speculative_config": "speculative decoding is not simulated",
    "num_lookahead_slots": "speculative decoding is not simulated",
    "swap_space": "V1 preempts by recompute; vllm_v0 has preemption_mode swap",
    "cpu_offload_gb": "weights stay on the GPU",
    "pipeline_parallel_size": "pipeline parallelism is not simulated",
    "data_parallel_size": "use count on the replica: that many independent servers",
    "tensor_parallel_size": "it is tp on the replica",
    "gpu_memory_utilization": ON_THE_REPLICA,
    "kv_cache_dtype": ON_THE_REPLICA,
    "disable_hybrid_kv_cache_manager": "models with sliding windows are not simulated",
}
ALLOW_LONG = " unless VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 is set"


class VllmV1(EngineKnobs):
    """vLLM V1's scheduler and KV cache. null: derived, see `fill`."""

    server: ClassVar[str] = "vllm serve"
    not_modelled: ClassVar[Mapping[str, str]] = NOT_MODELLED
    engine: Literal["vllm_v1"]
    max_num_batched_tokens: Derived = None
    max_num_seqs: Annotated[Seqs | None, BeforeValidator(auto_is_null)] = None
    max_model_len: Derived = None
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: Annotated[int, Field(ge=0, le=10_000_000)] = 0
    block_size: BlockSize = 16
    num_gpu_blocks: Annotated[
        Annotated[int, Field(ge=2, le=8_000_000)] | None, BeforeValidator(auto_is_null)
    ] = None
    enable_prefix_caching: bool = True
    policy: Literal["fcfs", "priority"] = "fcfs"
    watermark: Annotated[float, Field(ge=0, lt=1)] = 0.0
    scheduler_reserve_full_isl: bool = True

    def fill(
        self, hardware: Hardware
    ) -> tuple["VllmV1", tuple[str, ...], kv_pool_size.KvPool | None]:
        """The same knobs without a null, the names of those that were derived, and the KV pool.

        max_model_len: the model's own. max_num_batched_tokens: the server's default for this GPU,
        or max_model_len where that is more and prompts are not chunked. max_num_seqs: the smaller
        of the server's default and the budget. num_gpu_blocks: what fits in the GPU's memory.
        SettingsError where vLLM would refuse to start.
        """
        size = "large" if hardware.large else "small"
        length = length_of(self.max_model_len, hardware)
        check_made_for(length, hardware, "max_model_len", ALLOW_LONG)
        budget = self.max_num_batched_tokens
        if budget is None:
            budget = kv_pool_size.engine_default("vllm_v1", f"{size}_max_num_batched_tokens")
            budget = budget if self.enable_chunked_prefill else max(budget, length)
        seqs = self.max_num_seqs
        if seqs is None:
            seqs = min(kv_pool_size.engine_default("vllm_v1", f"{size}_max_num_seqs"), budget)
        check_start(self, budget, seqs, length)

        pool = hardware.kv_pool(budget, seqs, self.block_size, self.num_gpu_blocks is not None)
        blocks = self.num_gpu_blocks
        if blocks is None and pool is not None:
            blocks = pool.num_gpu_blocks
            check_room(pool, length, pool.tokens(self.block_size))
        elif blocks is None:
            blocks = min(1 + seqs * -(-length // self.block_size), MAX_FREE_BLOCKS)
        numbers = {
            "max_num_batched_tokens": budget,
            "max_num_seqs": seqs,
            "max_model_len": length,
            "num_gpu_blocks": blocks,
        }
        return self.filled(numbers, pool)

    def row(self) -> Any:
        """The knobs as one row of state.POLICY; every null must have been filled in."""
        assert self.num_gpu_blocks is not None
        row = self.new_row()
        for name in row.dtype.names:
            if name in type(self).model_fields and name != "engine":
                row[name] = getattr(self, name)
        row.priority = self.policy == "priority"
        row.watermark_blocks = int(self.watermark * self.num_gpu_blocks)
        return row

    def serve_flags(self) -> list[str]:
        """The flags of `vllm serve` for these knobs; nulls are left to the server."""
        named = {
            "--max-num-batched-tokens": self.max_num_batched_tokens,
            "--max-num-seqs": self.max_num_seqs,
            "--max-model-len": self.max_model_len,
            "--block-size": self.block_size,
            "--long-prefill-token-threshold": self.long_prefill_token_threshold or None,
            "--num-gpu-blocks-override": self.num_gpu_blocks,
            "--scheduling-policy": self.policy,
        }
        flags = [f"{flag} {value}" for flag, value in named.items() if value is not None]
        chunked = "" if self.enable_chunked_prefill else "no-"
        caching = "" if self.enable_prefix_caching else "no-"
        return [
            *flags,
            f"--{chunked}enable-chunked-prefill",
            f"--{caching}enable-prefix-caching",
        ]


def check_start(knobs: VllmV1, budget: int, seqs: int, length: int) -> None:
    """The cross-checks of vLLM's scheduler config."""
    if budget < seqs:
        raise SettingsError(
            f"max_num_batched_tokens ({budget}) must be greater than or equal to max_num_seqs "
            f"({seqs}): every running request gets a token per step; raise the budget, lower "
            "max_num_seqs, or leave max_num_seqs null",
            field="max_num_batched_tokens",
            code="budget_below_max_num_seqs",
            limit=seqs,
        )
    if not knobs.enable_chunked_prefill and budget < length:
        raise SettingsError(
            f"max_num_batched_tokens ({budget}) is smaller than max_model_len ({length}) with "
            "chunked prefill off: a longer prompt could never be scheduled; increase "
            "max_num_batched_tokens, decrease max_model_len or enable_chunked_prefill",
            field="max_num_batched_tokens",
            code="budget_below_max_model_len",
            limit=length,
        )
    check_table(seqs, length, knobs.block_size)

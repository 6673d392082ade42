"""The knobs of vLLM V0, before chunked prefill.

Names and defaults are vLLM's (0.2, `vllm/config.py`, `vllm/engine/arg_utils.py`). Later versions
refuse to start with max_num_batched_tokens below max_model_len; the early one and its copy in
Sarathi-Serve start, and a prompt above the token limit is refused.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PrivateAttr

from sim.engines.knobs.base import (
    Blocks,
    BlockSize,
    Derived,
    EngineKnobs,
    Seqs,
    check_made_for,
    check_room,
    check_table,
    length_of,
    pool_of,
)
from sim.engines.knobs.hardware import Hardware, SettingsError
from sim.hardware import kv_pool_size
from sim.hardware.catalog import kv_element_bytes

__all__ = ["VllmV0"]

LEAST_BUDGET = 2048  # max_num_batched_tokens where it is open and max_model_len is less
GIB = 1 << 30


class VllmV0(EngineKnobs):
    """vLLM V0's scheduler and KV cache. null: derived, see `fill`."""

    not_modelled: ClassVar[Mapping[str, str]] = {
        "enable_chunked_prefill": "V0's chunked mode is not simulated; vllm_v1 and sarathi chunk",
        "enable_prefix_caching": "V0 is simulated without its prefix cache",
        "num_lookahead_slots": "speculative decoding is not simulated",
        "speculative_config": "speculative decoding is not simulated",
        "num_scheduler_steps": "multi-step scheduling is not simulated",
        "delay_factor": "prompts are scheduled without a delay",
        "gpu_memory_utilization": "it is a key of the replica, beside policy",
        "tensor_parallel_size": "it is tp on the replica",
    }
    server: ClassVar[str] = "VLLM_USE_V1=0 vllm serve"
    engine: Literal["vllm_v0"]
    max_num_batched_tokens: Derived = None
    max_num_seqs: Seqs = 256
    max_model_len: Derived = None
    block_size: BlockSize = 16
    num_gpu_blocks: Blocks = None
    watermark: Annotated[float, Field(ge=0, lt=1)] = 0.01
    preemption_mode: Literal["recompute", "swap"] = "recompute"
    swap_space_bytes: Annotated[int, Field(ge=0, le=1 << 50)] = 4 * GIB  # of each GPU

    _num_host_blocks: int = PrivateAttr(0)

    def fill(
        self, hardware: Hardware
    ) -> tuple["VllmV0", tuple[str, ...], kv_pool_size.KvPool | None]:
        """The same knobs without a null, the names of those that were derived, and the KV pool.

        max_num_batched_tokens: max_model_len, 2048 at least. SettingsError where nothing could run,
        and for a swap of blocks whose size no model says.
        """
        length = length_of(self.max_model_len, hardware)
        check_made_for(length, hardware, "max_model_len", "")
        budget = self.max_num_batched_tokens or max(length, LEAST_BUDGET)
        check_table(self.max_num_seqs, length, self.block_size)
        blocks, pool = pool_of(
            hardware,
            self.num_gpu_blocks,
            budget=budget,
            seqs=self.max_num_seqs,
            block_size=self.block_size,
            most=self.max_num_seqs * -(-length // self.block_size),
        )
        if pool is not None and self.num_gpu_blocks is None:
            check_room(pool, length, (blocks - int(self.watermark * blocks)) * self.block_size)
        numbers = {
            "max_num_batched_tokens": budget,
            "max_model_len": length,
            "num_gpu_blocks": blocks,
        }
        filled, derived, pool = self.filled(numbers, pool)
        if self.preemption_mode == "swap":
            filled._num_host_blocks = int(self.swap_space_bytes // self.block_bytes(hardware))
        return filled, derived, pool

    def block_bytes(self, hardware: Hardware) -> float:
        """Bytes of a KV block on one GPU."""
        if hardware.model is None:
            raise SettingsError(
                "preemption_mode swap needs a model: it says how many bytes a KV block has",
                field="preemption_mode",
                code="swap_without_model",
            )
        element = kv_element_bytes(hardware.kv_cache_dtype)
        return self.block_size * hardware.model.kv_bytes_per_token(hardware.tp, element)

    def row(self) -> Any:
        """The knobs as one row of state.POLICY; every null must have been filled in."""
        assert self.num_gpu_blocks is not None
        row = self.new_row()
        row.max_num_batched_tokens = row.max_prompt_len = self.max_num_batched_tokens
        row.max_num_seqs = self.max_num_seqs
        row.max_model_len = self.max_model_len
        row.block_size = self.block_size
        row.num_gpu_blocks = self.num_gpu_blocks + 1
        row.watermark_blocks = int(self.watermark * self.num_gpu_blocks)
        row.watermark_always = 1
        row.num_host_blocks = self._num_host_blocks
        return row

    def serve_flags(self) -> list[str]:
        """The flags of `vllm serve` for these knobs; nulls are left to the server."""
        named = {
            "--max-num-batched-tokens": self.max_num_batched_tokens,
            "--max-num-seqs": self.max_num_seqs,
            "--max-model-len": self.max_model_len,
            "--block-size": self.block_size,
            "--num-gpu-blocks-override": self.num_gpu_blocks,
            "--preemption-mode": self.preemption_mode,
            "--swap-space": f"{self.swap_space_bytes / GIB:g}",
        }
        flags = [f"{flag} {value}" for flag, value in named.items() if value is not None]
        return [*flags, "--no-enable-chunked-prefill", "--no-enable-prefix-caching"]

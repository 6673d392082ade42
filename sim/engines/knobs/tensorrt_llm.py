"""The knobs of TensorRT-LLM: what `policy` holds in a scenario, how open ones are filled in.

Names and defaults are those of its LLM API (`tensorrt_llm/llmapi/llm_args.py`). Its documents
disagree on whether prompts are chunked by default; here they are not unless asked.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator

from sim.core import waiting_queue
from sim.engines.knobs.base import (
    Blocks,
    BlockSize,
    Derived,
    EngineKnobs,
    Seqs,
    auto_is_null,
    check_table,
    length_of,
    pool_of,
)
from sim.engines.knobs.hardware import Hardware, SettingsError
from sim.engines.tensorrt_llm import CAPACITY_POLICIES, CHUNKING_POLICIES
from sim.hardware import kv_pool_size

__all__ = ["TensorRtLlm"]


class TensorRtLlm(EngineKnobs):
    """TensorRT-LLM's two schedulers and its KV cache. null: derived, see `fill`."""

    server: ClassVar[str] = "trtllm-serve"
    not_modelled: ClassVar[Mapping[str, str]] = {
        "kv_cache_free_gpu_mem_fraction": "it is free_gpu_memory_fraction on the replica",
        "free_gpu_memory_fraction": "it is a key of the replica, beside policy",
        "speculative_config": "speculative decoding is not simulated",
        "max_beam_width": "requests are decoded with one beam",
        "disable_overlap_scheduler": "scheduling is simulated without overlap",
        "tensor_parallel_size": "it is tp on the replica",
    }
    called: ClassVar[Mapping[str, str]] = {
        "max_num_batched_tokens": "max_num_tokens",
        "max_num_seqs": "max_batch_size",
        "max_model_len": "max_seq_len",
        "block_size": "tokens_per_block",
        "gpu_memory_utilization": "free_gpu_memory_fraction",
    }
    engine: Literal["tensorrt_llm"]
    capacity_scheduler_policy: Literal["GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"] = (
        "GUARANTEED_NO_EVICT"
    )
    context_chunking_policy: Literal["FIRST_COME_FIRST_SERVED", "EQUAL_PROGRESS"] = (
        "FIRST_COME_FIRST_SERVED"
    )
    enable_chunked_prefill: bool = False
    max_num_tokens: Derived = None
    max_batch_size: Annotated[Seqs | None, BeforeValidator(auto_is_null)] = None
    max_seq_len: Derived = None
    tokens_per_block: BlockSize = 32
    enable_block_reuse: bool = True
    num_blocks: Blocks = None

    def fill(
        self, hardware: Hardware
    ) -> tuple["TensorRtLlm", tuple[str, ...], kv_pool_size.KvPool | None]:
        """The same knobs without a null, the names of those that were derived, and the KV pool.

        max_seq_len: what the model allows, or all that the KV pool holds where that is less; as the
        engine cuts it. SettingsError where nothing could ever run.
        """
        numbers: dict[str, int] = {}
        for name in ("max_num_tokens", "max_batch_size"):
            numbers[name] = getattr(self, name) or kv_pool_size.engine_default("tensorrt_llm", name)
        length = length_of(self.max_seq_len, hardware)
        if self.enable_chunked_prefill and numbers["max_num_tokens"] < self.tokens_per_block:
            raise SettingsError(
                f"max_num_tokens ({numbers['max_num_tokens']}) is smaller than tokens_per_block "
                f"({self.tokens_per_block}): a chunk is rounded down to whole blocks, so a longer "
                "prompt would get 0 tokens for ever; raise max_num_tokens, lower tokens_per_block "
                "or turn enable_chunked_prefill off",
                field="max_num_tokens",
                code="budget_below_block_size",
                limit=self.tokens_per_block,
            )
        numbers["num_blocks"], pool = pool_of(
            hardware,
            self.num_blocks,
            budget=numbers["max_num_tokens"],
            seqs=min(
                numbers["max_batch_size"],
                kv_pool_size.engine_default("tensorrt_llm", "reserve_rows"),
            ),
            block_size=self.tokens_per_block,
            most=numbers["max_batch_size"] * -(-length // self.tokens_per_block),
        )
        room = numbers["num_blocks"] * self.tokens_per_block
        if room < 2:
            raise SettingsError(
                f"num_blocks ({numbers['num_blocks']}) of tokens_per_block "
                f"({self.tokens_per_block}) hold no prompt and its output; raise one of them",
                field="num_blocks",
                code="kv_cache_too_small",
            )
        numbers["max_seq_len"] = min(length, room)
        check_table(numbers["max_batch_size"], numbers["max_seq_len"], self.tokens_per_block)
        return self.filled(numbers, pool)

    def row(self) -> Any:
        """The knobs as one row of state.POLICY; every null must have been filled in."""
        row = self.new_row()
        row.capacity_policy = CAPACITY_POLICIES.index(self.capacity_scheduler_policy)
        chunking = self.context_chunking_policy if self.enable_chunked_prefill else "none"
        row.chunking_policy = CHUNKING_POLICIES.index(chunking)
        row.enable_chunked_prefill = self.enable_chunked_prefill
        row.chunk_unit = row.block_size = self.tokens_per_block
        row.max_num_batched_tokens = self.max_num_tokens
        row.max_num_seqs = self.max_batch_size
        row.max_model_len = self.max_seq_len
        if not self.enable_chunked_prefill:
            row.max_prompt_len = self.max_num_tokens
        assert self.num_blocks is not None
        row.num_gpu_blocks = self.num_blocks + 1
        row.enable_prefix_caching = self.enable_block_reuse
        row.requeue = waiting_queue.TO_ARRIVAL_PLACE
        return row

    def serve_flags(self) -> list[str]:
        """The flags of `trtllm-serve` for these knobs; nulls are left to the server."""
        named = {
            "--max_num_tokens": self.max_num_tokens,
            "--max_batch_size": self.max_batch_size,
            "--max_seq_len": self.max_seq_len,
        }
        return [f"{flag} {value}" for flag, value in named.items() if value is not None]

    def extra_llm_api_options(self, free_gpu_memory_fraction: float) -> dict[str, Any]:
        """The knobs that are not flags, as the content of the file that `--extra_llm_api_options`
        reads; num_blocks becomes kv_cache_config.max_tokens."""
        kv_cache: dict[str, Any] = {
            "enable_block_reuse": self.enable_block_reuse,
            "tokens_per_block": self.tokens_per_block,
            "free_gpu_memory_fraction": free_gpu_memory_fraction,
        }
        if self.num_blocks is not None:
            kv_cache["max_tokens"] = self.num_blocks * self.tokens_per_block
        return {
            "enable_chunked_prefill": self.enable_chunked_prefill,
            "scheduler_config": {
                "capacity_scheduler_policy": self.capacity_scheduler_policy,
                "context_chunking_policy": self.context_chunking_policy,
            },
            "kv_cache_config": kv_cache,
        }

"""The knobs of SGLang: what `policy` holds in a scenario, how open ones are filled in.

Names, defaults and refusals are those of SGLang 0.5.5 (`python/sglang/srt/server_args.py`,
`managers/tp_worker.py`).
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from sim.core import waiting_queue
from sim.engines.knobs.base import (
    MAX_TABLE,
    BlockSize,
    Count,
    Derived,
    EngineKnobs,
    Seqs,
    auto_is_null,
    check_made_for,
    check_table,
    length_of,
    pool_of,
)
from sim.engines.knobs.hardware import Hardware, SettingsError
from sim.hardware import kv_pool_size

__all__ = ["Sglang"]

INIT_NEW_TOKEN_RATIO = 0.7
ALLOW_LONG = " unless SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 is set"
GIB = 1 << 30
NOT_MODELLED = {
    "speculative_algorithm": "speculative decoding is not simulated",
    "speculative_num_steps": "speculative decoding is not simulated",
    "speculative_num_draft_tokens": "speculative decoding is not simulated",
    "schedule_policy": "requests are served first come, first served (fcfs)",
    "mem_fraction_static": "it is gpu_memory_utilization on the replica",
    "disable_overlap_schedule": "scheduling is simulated without overlap",
    "enable_dp_attention": "data-parallel attention is not simulated",
    "tp_size": "it is tp on the replica",
    "dp_size": "use count on the replica: that many independent servers",
}
ChunkSize = Annotated[int, Field(ge=-1, le=10_000_000)]


class Sglang(EngineKnobs):
    """SGLang's scheduler and KV cache. null: derived, see `fill`. chunked_prefill_size -1: prompts
    are not split."""

    server: ClassVar[str] = "python -m sglang.launch_server --model-path"
    not_modelled: ClassVar[Mapping[str, str]] = NOT_MODELLED
    called: ClassVar[Mapping[str, str]] = {
        "max_num_batched_tokens": "chunked_prefill_size",
        "max_num_seqs": "max_running_requests",
        "max_model_len": "context_length",
        "block_size": "page_size",
    }
    engine: Literal["sglang"]
    chunked_prefill_size: Annotated[ChunkSize | None, BeforeValidator(auto_is_null)] = None
    enable_mixed_chunk: bool = False
    max_running_requests: Annotated[Seqs | None, BeforeValidator(auto_is_null)] = None
    max_prefill_tokens: Count = 16_384
    page_size: BlockSize = 1
    schedule_conservativeness: Annotated[float, Field(ge=0, le=1000)] = 1.0
    context_length: Derived = None
    max_total_tokens: Derived = None
    disable_radix_cache: bool = False

    def fill(
        self, hardware: Hardware
    ) -> tuple["Sglang", tuple[str, ...], kv_pool_size.KvPool | None]:
        """The same knobs without a null, the names of those that were derived, and the KV pool.

        chunked_prefill_size: by the GPU's memory. max_running_requests: 2048, or one for each
        512th of context_length that the pool holds, 4096 at most. max_total_tokens: what fits in
        the GPU's memory. SettingsError where SGLang would refuse to start.
        """
        length, page = length_of(self.context_length, hardware), self.page_size
        check_made_for(length, hardware, "context_length", ALLOW_LONG)
        chunk = self.chunked_prefill_size
        if chunk is None:
            chunk = default_chunk(hardware)
        if chunk > 0 and chunk % page:
            raise SettingsError(
                f"chunked_prefill_size ({chunk}) must be divisible by page_size ({page})",
                field="chunked_prefill_size",
                code="not_a_multiple_of_page_size",
                limit=page,
            )
        asked = None if self.max_total_tokens is None else self.max_total_tokens // page
        blocks, pool = pool_of(
            hardware,
            asked,
            budget=max(chunk, 0) or self.max_prefill_tokens,
            seqs=kv_pool_size.engine_default("sglang", "reserve_rows"),
            block_size=page,
            most=8 * -(-length // page),
        )
        tokens = blocks * page
        if min(length, tokens) <= 3:
            raise SettingsError(
                f"max_total_tokens ({tokens}) and context_length ({length}) leave no room for a "
                "prompt and its output; raise the smaller",
                field="max_total_tokens" if tokens < length else "context_length",
                code="kv_cache_too_small",
            )
        width = -(-min(length, tokens) // page)
        seqs = self.max_running_requests
        if seqs is None:
            seqs = min(max(tokens * 512 // length, 2048), 4096, MAX_TABLE // width)
        check_table(seqs, min(length, tokens), page)
        numbers = {
            "chunked_prefill_size": chunk or -1,
            "max_running_requests": seqs,
            "context_length": length,
            "max_total_tokens": tokens,
        }
        return self.filled(numbers, pool)

    def row(self) -> Any:
        """The knobs as one row of state.POLICY; every null must have been filled in.

        SGLang lets a request have two tokens less than fit: max_model_len here."""
        assert self.chunked_prefill_size is not None
        assert self.context_length is not None
        assert self.max_total_tokens is not None
        row = self.new_row()
        row.enable_chunked_prefill = self.chunked_prefill_size > 0
        row.max_num_batched_tokens = self.max_prefill_tokens
        if row.enable_chunked_prefill:
            row.max_num_batched_tokens = self.chunked_prefill_size
            row.enable_mixed_chunk = self.enable_mixed_chunk
        row.max_prefill_tokens = self.max_prefill_tokens
        row.max_num_seqs = self.max_running_requests
        row.block_size = self.page_size
        row.num_gpu_blocks = self.max_total_tokens // self.page_size + 1
        row.max_model_len = min(self.context_length, self.max_total_tokens) - 2
        row.enable_prefix_caching = not self.disable_radix_cache
        row.init_new_token_ratio = min(INIT_NEW_TOKEN_RATIO * self.schedule_conservativeness, 1.0)
        row.requeue = waiting_queue.TO_TAIL
        return row

    def serve_flags(self) -> list[str]:
        """The flags of SGLang's server for these knobs; nulls are left to the server."""
        named = {
            "--chunked-prefill-size": self.chunked_prefill_size,
            "--max-running-requests": self.max_running_requests,
            "--max-prefill-tokens": self.max_prefill_tokens,
            "--page-size": self.page_size,
            "--schedule-conservativeness": f"{self.schedule_conservativeness:g}",
            "--context-length": self.context_length,
            "--max-total-tokens": self.max_total_tokens,
        }
        switches = {
            "--enable-mixed-chunk": self.enable_mixed_chunk,
            "--disable-radix-cache": self.disable_radix_cache,
        }
        flags = [f"{flag} {value}" for flag, value in named.items() if value is not None]
        return [*flags, *(switch for switch, on in switches.items() if on)]


def default_chunk(hardware: Hardware) -> int:
    """chunked_prefill_size by the memory of the GPU; without one, SGLang's fallback."""
    if hardware.gpu is None:
        return int(kv_pool_size.engine_default("sglang", "chunked_prefill_size"))
    sizes = kv_pool_size.engine_default("sglang", "chunked_prefill_size_by_gib")
    for below_gib, size in sizes:
        if hardware.gpu.memory_bytes < below_gib * GIB:
            return int(size)
    return int(sizes[-1][1])

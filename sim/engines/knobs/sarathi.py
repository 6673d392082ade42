"""The knobs of Sarathi-Serve.

Names and defaults are those of `SarathiSchedulerConfig` (microsoft/sarathi-serve @ 96f9911790ec,
`sarathi/config/config.py`); `dynamic` stands for its four fields low_chunk_size, high_chunk_size,
chunk_schedule_max_tokens and chunk_schedule_stages.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from sim.engines.knobs.base import (
    Blocks,
    BlockSize,
    Count,
    Derived,
    EngineKnobs,
    Seqs,
    check_room,
    check_table,
    length_of,
    pool_of,
)
from sim.engines.knobs.hardware import Hardware, SettingsError
from sim.hardware import kv_pool_size

__all__ = ["Sarathi"]

WATERMARK = 0.01  # vllm's, part of its block manager
Stages = Annotated[int, Field(ge=1, le=1_000)]


def four_numbers(value: Any) -> Any:
    """Name the four numbers if there are more or fewer."""
    if isinstance(value, list | tuple) and len(value) != 4:
        raise ValueError(f"found {len(value)} numbers; must be [low, high, max_tokens, stages]")
    return value


Dynamic = Annotated[tuple[Count, Count, Count, Stages] | None, BeforeValidator(four_numbers)]


class Sarathi(EngineKnobs):
    """Sarathi-Serve's scheduler. null: derived, see `fill`."""

    called: ClassVar[Mapping[str, str]] = {"max_num_batched_tokens": "chunk_size"}
    engine: Literal["sarathi"]
    chunk_size: Count = 512
    dynamic: Dynamic = None
    max_num_seqs: Seqs = 128
    max_model_len: Derived = None
    block_size: BlockSize = 16
    num_gpu_blocks: Blocks = None

    def fill(
        self, hardware: Hardware
    ) -> tuple["Sarathi", tuple[str, ...], kv_pool_size.KvPool | None]:
        """The same knobs without a null, the names of those that were derived, and the KV pool.

        SettingsError where a prompt could run past the last stage of the schedule: upstream fails
        an assertion there.
        """
        length = length_of(self.max_model_len, hardware)
        if self.dynamic is not None:
            check_dynamic(self.dynamic, length)
        check_table(self.max_num_seqs, length, self.block_size)
        blocks, pool = pool_of(
            hardware,
            self.num_gpu_blocks,
            budget=self.dynamic[1] if self.dynamic else self.chunk_size,
            seqs=self.max_num_seqs,
            block_size=self.block_size,
            most=self.max_num_seqs * -(-length // self.block_size),
        )
        if pool is not None and self.num_gpu_blocks is None:
            check_room(pool, length, (blocks - int(WATERMARK * blocks)) * self.block_size)
        numbers = {"max_model_len": length, "num_gpu_blocks": blocks}
        return self.filled(numbers, pool)

    def row(self) -> Any:
        """The knobs as one row of state.POLICY; every null must have been filled in."""
        assert self.num_gpu_blocks is not None
        row = self.new_row()
        row.max_num_batched_tokens = self.chunk_size
        row.max_num_seqs = self.max_num_seqs
        row.max_model_len = self.max_model_len
        row.block_size = self.block_size
        row.num_gpu_blocks = self.num_gpu_blocks + 1
        row.watermark_blocks = int(WATERMARK * self.num_gpu_blocks)
        row.watermark_always = 1
        if self.dynamic is not None:
            row.dynamic_low, row.dynamic_high, most, row.dynamic_stages = self.dynamic
            row.dynamic_stage_tokens = -(-most // int(row.dynamic_stages))
            row.max_num_batched_tokens = row.dynamic_high
        return row


def check_dynamic(dynamic: tuple[int, int, int, int], length: int) -> None:
    """Sizes must fall, and the stages must cover every prompt."""
    low, high, most, _ = dynamic
    if low > high:
        raise SettingsError(
            f"dynamic: low ({low}) must not be more than high ({high})",
            field="dynamic",
            code="low_above_high",
            limit=high,
        )
    if most < length:
        raise SettingsError(
            f"dynamic: its stages end at max_tokens ({most}), a prompt may have up to "
            f"max_model_len ({length}); raise max_tokens or lower max_model_len",
            field="dynamic",
            code="stages_below_max_model_len",
            limit=length,
        )

"""The knobs of Orca, as Sarathi-Serve's copy has them (`OrcaSchedulerConfig`, @ 96f9911790ec).

A slot is max_model_len tokens of KV, in blocks of 16 as that code base counts memory.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from sim.engines.knobs.base import (
    Blocks,
    Derived,
    EngineKnobs,
    Seqs,
    check_table,
    length_of,
    pool_of,
)
from sim.engines.knobs.hardware import Hardware, SettingsError
from sim.hardware import kv_pool_size

__all__ = ["Orca"]

BLOCK_SIZE = 16


class Orca(EngineKnobs):
    """Orca's scheduler. null: derived, see `fill`."""

    called: ClassVar[Mapping[str, str]] = {"max_num_batched_tokens": "max_model_len"}
    engine: Literal["orca"]
    max_num_seqs: Seqs = 128
    max_model_len: Derived = None
    num_gpu_blocks: Blocks = None

    def fill(
        self, hardware: Hardware
    ) -> tuple["Orca", tuple[str, ...], kv_pool_size.KvPool | None]:
        """The same knobs without a null, the names of those that were derived, and the KV pool.

        The activation reserve is that of one prompt of max_model_len. SettingsError where not even
        one slot fits.
        """
        length = length_of(self.max_model_len, hardware)
        check_table(self.max_num_seqs, length, BLOCK_SIZE)
        slot = -(-length // BLOCK_SIZE)
        blocks, pool = pool_of(
            hardware,
            self.num_gpu_blocks,
            budget=length,
            seqs=self.max_num_seqs,
            block_size=BLOCK_SIZE,
            most=self.max_num_seqs * slot,
        )
        if blocks < slot:
            field = "max_model_len" if self.num_gpu_blocks is None else "num_gpu_blocks"
            raise SettingsError(
                f"{blocks} KV blocks of {BLOCK_SIZE} tokens hold no slot of max_model_len "
                f"({length}) tokens, which takes {slot}: no request could ever run; lower "
                "max_model_len or make room",
                field=field,
                code="kv_cache_too_small",
                limit=slot,
            )
        numbers = {"max_model_len": length, "num_gpu_blocks": blocks}
        return self.filled(numbers, pool)

    def row(self) -> Any:
        """The knobs as one row of state.POLICY; every null must have been filled in."""
        assert self.num_gpu_blocks is not None
        row = self.new_row()
        row.max_num_seqs = self.max_num_seqs
        row.max_model_len = self.max_model_len
        row.block_size = BLOCK_SIZE
        row.num_gpu_blocks = self.num_gpu_blocks + 1
        return row

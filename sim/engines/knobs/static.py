"""The knobs of static batching: how many members, and how many tokens of KV for all of them."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import PrivateAttr

from sim.engines.knobs.base import (
    NO_MODEL_LEN,
    Derived,
    EngineKnobs,
    Seqs,
    check_table,
    length_of,
    pool_of,
)
from sim.engines.knobs.hardware import Hardware
from sim.hardware import kv_pool_size

__all__ = ["Static"]

BLOCK_SIZE = 1  # KV is a rectangle of tokens; it is counted to the token


class Static(EngineKnobs):
    """Static batching. null: derived, see `fill`."""

    called: ClassVar[Mapping[str, str]] = {
        "max_num_batched_tokens": "max_batch_size",
        "max_num_seqs": "max_batch_size",
        "max_model_len": "tokens of a request",
    }
    engine: Literal["static"]
    max_batch_size: Seqs = 32
    kv_tokens: Derived = None

    _max_model_len: int = PrivateAttr(NO_MODEL_LEN)  # the model's, no knob

    def fill(
        self, hardware: Hardware
    ) -> tuple["Static", tuple[str, ...], kv_pool_size.KvPool | None]:
        """The same knobs without a null, the names of those that were derived, and the KV pool.

        kv_tokens: what fits in the GPU's memory beside the activations of one prompt of the model's
        full length, or as much as max_batch_size requests of that length can use.
        """
        length = length_of(None, hardware)
        most = self.max_batch_size * length
        check_table(self.max_batch_size, min(2 * length, self.kv_tokens or most), BLOCK_SIZE)
        tokens, pool = pool_of(
            hardware,
            self.kv_tokens,
            budget=length,
            seqs=self.max_batch_size,
            block_size=BLOCK_SIZE,
            most=most,
        )
        if self.kv_tokens is None:
            tokens = min(tokens, most)
        filled = self.model_copy(update={"kv_tokens": tokens})
        filled._max_model_len = length
        return filled, () if self.kv_tokens else ("kv_tokens",), pool

    def row(self) -> Any:
        """The knobs as one row of state.POLICY; every null must have been filled in."""
        assert self.kv_tokens is not None
        row = self.new_row()
        row.max_num_seqs = self.max_batch_size
        row.max_model_len = self._max_model_len
        row.block_size = BLOCK_SIZE
        row.num_gpu_blocks = self.kv_tokens + 1
        row.max_request_len = self.kv_tokens
        row.hold_finished = 1
        return row

"""Base of the knobs of all engines: types, derivation of null knobs, the policy row."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator, Field

from sim.core.state import POLICY
from sim.engines import dispatch
from sim.engines.knobs.hardware import Hardware, SettingsError
from sim.hardware import kv_pool_size
from sim.validation.base_model import Spec

__all__ = [
    "BlockSize",
    "Blocks",
    "Count",
    "Derived",
    "EngineKnobs",
    "Seqs",
    "check_made_for",
    "check_room",
    "check_table",
    "length_of",
    "pool_of",
]

NO_MODEL_LEN = 32_768  # max_model_len if neither scenario nor model sets it
MAX_FREE_BLOCKS = 262_144  # num_gpu_blocks without a GPU
MAX_TABLE = 1 << 28  # entries of the block table


def auto_is_null(value: Any) -> Any:
    """`auto` says the same as null."""
    return None if value == "auto" else value


Count = Annotated[int, Field(ge=1, le=10_000_000)]
Seqs = Annotated[int, Field(ge=1, le=65_536)]
BlockSize = Annotated[int, Field(ge=1, le=65_536)]
Derived = Annotated[Count | None, BeforeValidator(auto_is_null)]
Blocks = Annotated[Annotated[int, Field(ge=1, le=8_000_000)] | None, BeforeValidator(auto_is_null)]


class EngineKnobs(Spec, ABC):
    """The knobs of one engine.

    server        the command that starts it, where there is one
    called        vLLM's name of a knob -> the name that this engine has for it
    not_modelled  a knob that the real engine has and this one refuses -> the reason
    """

    server: ClassVar[str] = ""
    called: ClassVar[Mapping[str, str]] = {}
    not_modelled: ClassVar[Mapping[str, str]] = {}
    engine: str

    @abstractmethod
    def fill(
        self, hardware: Hardware
    ) -> tuple["EngineKnobs", tuple[str, ...], kv_pool_size.KvPool | None]:
        """The same knobs without a null, the names of those that were derived, and the KV pool.
        Raises SettingsError where the engine would refuse to start."""

    @abstractmethod
    def row(self) -> Any:
        """The knobs as one row of state.POLICY; every null must have been filled in."""

    def in_its_words(self, message: str) -> str:
        """A message with this engine's names of knobs."""
        for name, own in self.called.items():
            message = re.sub(rf"\b{name}\b", own, message)
        return message

    def filled(
        self, numbers: Mapping[str, int], pool: kv_pool_size.KvPool | None
    ) -> tuple[Self, tuple[str, ...], kv_pool_size.KvPool | None]:
        """What `fill` returns: the knobs with these numbers, which of them were null, the pool."""
        derived = tuple(name for name in numbers if getattr(self, name) is None)
        return self.model_copy(update=dict(numbers)), derived, pool

    def new_row(self) -> Any:
        """A row of state.POLICY that says which engine; every limit that is 0 is off."""
        row = np.zeros(1, POLICY).view(np.recarray)[0]
        row.engine = dispatch.number_of(self.engine)
        return row

    def serve_flags(self) -> list[str]:
        """The flags of `server` for these knobs."""
        raise ValueError(f"{self.engine} has no server that takes these knobs as flags")


def length_of(asked: int | None, hardware: Hardware) -> int:
    """max_model_len: as given, or the model's own."""
    return asked or (hardware.model.max_model_len if hardware.model else NO_MODEL_LEN)


def check_made_for(length: int, hardware: Hardware, knob: str, unless: str) -> None:
    """Refuse a length above the model's own if the engine refuses to start with it.

    `knob`: the engine's name of the length; `unless`: what makes the engine start nevertheless."""
    model = hardware.model
    if model is not None and length > model.max_model_len:
        raise SettingsError(
            f"{knob} ({length}) is more than the {model.max_model_len} tokens that {model.name} "
            f"was made for: the engine refuses to start{unless}; set {knob} to at most "
            f"{model.max_model_len}",
            field=knob,
            code="max_model_len_above_model",
            limit=model.max_model_len,
        )


def pool_of(
    hardware: Hardware, asked: int | None, *, budget: int, seqs: int, block_size: int, most: int
) -> tuple[int, kv_pool_size.KvPool | None]:
    """(usable KV blocks, pool) of an engine without a null block: as given, or what fits in the
    GPU; without a GPU, `most` blocks up to a limit."""
    pool = hardware.kv_pool(budget, seqs, block_size, asked is not None)
    if asked is not None:
        return asked, pool
    if pool is not None:
        return pool.num_gpu_blocks, pool
    return min(most, MAX_FREE_BLOCKS), None


def check_table(seqs: int, length: int, block_size: int) -> None:
    """The block table must not outgrow this machine."""
    if seqs * -(-length // block_size) > MAX_TABLE:
        raise SettingsError(
            f"max_num_seqs ({seqs}) x max_model_len ({length}) / block_size ({block_size}) "
            f"is more block-table entries than are kept here ({MAX_TABLE}); lower one of them",
            field="max_num_seqs",
            code="block_table_too_large",
            limit=MAX_TABLE,
        )


def check_room(pool: kv_pool_size.KvPool, length: int, room: int) -> None:
    """One request of full length must fit in `room` tokens, or the engine does not start."""
    if room < length:
        raise SettingsError(
            f"to serve one request of max_model_len ({length}) tokens, "
            f"{length * pool.kv_bytes_per_token / 1e9:.2f} GB of KV cache are needed and "
            f"{max(room, 0) * pool.kv_bytes_per_token / 1e9:.2f} GB are left; set max_model_len to "
            f"at most {room}, or increase gpu_memory_utilization or tp",
            field="max_model_len",
            code="kv_cache_too_small",
            limit=max(room, 0),
        )

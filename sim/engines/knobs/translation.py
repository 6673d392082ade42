"""Translate one engine's knobs to another: knobs with the same meaning keep their value."""

from dataclasses import dataclass, replace
from typing import Any

from sim.engines.knobs.base import EngineKnobs
from sim.engines.registry import EngineSpec, engine_spec

__all__ = ["SharedKnobs", "knobs_of", "knobs_under", "shared_knobs"]


@dataclass(frozen=True)
class SharedKnobs:
    """The knobs that every engine has in some form. None: left to the engine.

    budget: tokens of a step. seqs: requests that run at once. length: tokens of the longest
    request. kv_tokens: tokens that the KV pool holds. caching: prefix caching. chunking: prompts
    may be split over steps."""

    budget: int | None = None
    seqs: int | None = None
    length: int | None = None
    kv_tokens: int | None = None
    block_size: int | None = None
    caching: bool | None = None
    chunking: bool | None = None


def knobs_under(knobs: EngineKnobs, engine: str, **changes: Any) -> dict[str, Any]:
    """A scenario's `policy` for `engine` with the shared knobs of `knobs`; all others at their
    defaults, or as they are where the engine is the same one. `changes`: fields of SharedKnobs to
    set instead (`block_size=None`: the engine's own)."""
    if knobs.engine == engine:
        return knobs.model_dump(mode="json") | knobs_of(SharedKnobs(**changes), engine)
    return knobs_of(replace(shared_knobs(knobs), **changes), engine)


def shared_knobs(knobs: EngineKnobs) -> SharedKnobs:
    """The knobs of an engine that all engines have."""
    spec = engine_spec(knobs.engine)
    chunking = spec.chunking == "always"
    if spec.chunking == "optional":
        chunking = not has(knobs, spec.without_chunking)
    budget = value(knobs, spec.budget_knob)
    block_size = spec.block_size
    if isinstance(block_size, str):
        block_size = value(knobs, block_size) or 1
    pool = value(knobs, spec.pool_knob)
    if pool is not None and not spec.pool_in_tokens:
        pool = (pool - spec.null_blocks) * block_size
    return SharedKnobs(
        budget=budget if budget is None or budget > 0 else None,  # SGLang: -1 for no chunks
        seqs=value(knobs, spec.seqs_knob),
        length=value(knobs, spec.length_knob),
        kv_tokens=pool,
        block_size=block_size,
        caching=spec.has_prefix_cache and not has(knobs, spec.without_caching),
        chunking=chunking,
    )


def knobs_of(shared: SharedKnobs, engine: str) -> dict[str, Any]:
    """A scenario's `policy` for `engine` with the values of `shared`, as far as the engine has
    these knobs. A budget that must hold whole prompts, or a block, is raised to that."""
    spec = engine_spec(engine)
    found: dict[str, Any] = {"engine": engine}
    block_size = block_size_of(spec, shared.block_size)
    if isinstance(spec.block_size, str) and shared.block_size is not None:
        found[spec.block_size] = shared.block_size
    if spec.budget_knob is not None and shared.budget is not None:
        least = block_size
        if spec.chunking == "never" or shared.chunking is False:
            least = shared.length or 1
        found[spec.budget_knob] = max(shared.budget, least)
    if shared.seqs is not None:
        found[spec.seqs_knob] = shared.seqs
    if spec.length_knob is not None and shared.length is not None:
        found[spec.length_knob] = shared.length
    if shared.kv_tokens is not None:
        blocks = max(1, shared.kv_tokens // block_size) + spec.null_blocks
        found[spec.pool_knob] = shared.kv_tokens if spec.pool_in_tokens else blocks
    if shared.caching is not None:
        found |= spec.with_caching if shared.caching else spec.without_caching
    if shared.chunking is not None:
        found |= spec.with_chunking if shared.chunking else spec.without_chunking
    return found


def block_size_of(spec: EngineSpec, asked: int | None) -> int:
    """Tokens per unit of the engine's pool."""
    if isinstance(spec.block_size, int):
        return spec.block_size
    return asked or int(getattr(spec.defaults, spec.block_size))


def value(knobs: EngineKnobs, name: str | None) -> int | None:
    """The number of a knob, None where it is open or the engine has none."""
    found = None if name is None else getattr(knobs, name)
    return None if found is None else int(found)


def has(knobs: EngineKnobs, values: Any) -> bool:
    """Whether the knobs have all of these values."""
    return all(getattr(knobs, name) == value for name, value in values.items())

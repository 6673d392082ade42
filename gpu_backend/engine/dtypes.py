"""How the compiled loops of a CPU read and write weights and pages: fp32 as it is, bf16 as its 16
bits in a uint16, which a shift turns into fp32."""

from typing import Any

import numba
import numpy as np
from numba import types
from numba.extending import overload

from sim.core.compiled import INNER, OPTIONS

__all__ = ["narrow", "rounded", "widen"]


def widen(value: Any) -> Any:
    """A stored number as fp32. Plain Python; compiled code has the overload."""
    if isinstance(value, np.float32):
        return value
    return np.uint32(np.uint32(value) << np.uint32(16)).view(np.float32)


@overload(widen, inline="always", strict=False)
def widen_compiled(value: Any) -> Any:
    if value == types.float32:
        return lambda value: value
    return lambda value: np.uint32(np.uint32(value) << np.uint32(16)).view(np.float32)


def narrow(value: Any, like: Any) -> Any:
    """An fp32 as array `like` stores it, rounded to nearest, ties to even. Plain Python; compiled
    code has the overload."""
    if like.dtype == np.float32:
        return value
    plain = getattr(rounded, "py_func", rounded)  # compiled, it cannot be called from Python
    return plain(np.float32(value).view(np.uint32))


@overload(narrow, inline="always", strict=False)
def narrow_compiled(value: Any, like: Any) -> Any:
    if like.dtype == types.float32:
        return lambda value, like: value
    return lambda value, like: rounded(np.float32(value).view(np.uint32))


@numba.njit(**OPTIONS, **INNER)
def rounded(bits: Any) -> Any:
    """The upper 16 bits of an fp32 given by its bits."""
    if bits & np.uint32(0x7FFFFFFF) > np.uint32(0x7F800000):
        return np.uint16(0x7FC0)  # NaN
    even = (bits >> np.uint32(16)) & np.uint32(1)
    return np.uint16((bits + np.uint32(0x7FFF) + even) >> np.uint32(16))

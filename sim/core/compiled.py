"""`njit`: how every kernel of this project is compiled.

Set NUMBA_DISABLE_JIT=1 to run the same functions as plain Python, NUMBA_CACHE_DIR to keep compiled
code in another folder than that of compile_cache.py."""

import os
from typing import Any

from sim.core.compile_cache import cache_folder

if "NUMBA_CACHE_DIR" not in os.environ:
    os.environ["NUMBA_CACHE_DIR"] = str(cache_folder())

import numba

setattr(numba.config, "CACHE_DIR", os.environ["NUMBA_CACHE_DIR"])  # noqa: B010 (it is untyped)

# Kernels allocate nothing and keep no array, so numba's reference counts (an atomic add and a
# subtraction for each of the state's arrays in each call) are left out: `_nrt`. Measured on the
# `steady` workload of `sim bench`: 17 million request-tokens per second with them, 44 without.
OPTIONS: Any = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
    "_nrt": False,
}

njit = numba.njit(**OPTIONS)

# For kernels that only kernels call. The wrapper that unpacks the state for Python takes a third of
# the compile time and is left out, so Python cannot call them.
INNER: Any = {"no_cpython_wrapper": True}
njit_inner = numba.njit(**OPTIONS, **INNER)

# For a small function on a hot path, called by kernels only. The state is a tuple of many arrays,
# and passing it costs more than a short body does. Python cannot call it.
njit_inline = numba.njit(**OPTIONS, **INNER, forceinline=True)

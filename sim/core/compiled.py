"""`njit`: how every kernel of this project is compiled, and where the compiled code is kept.

Numba's on-disk cache notices an edit of a kernel's own file only, not of the files it calls into;
so the cache lives in a folder named after a hash of all sources of `sim/`, and an edit anywhere
starts a new one. Set NUMBA_DISABLE_JIT=1 to run the same functions as plain Python."""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parents[1]
KEPT_CACHES = 3


def cache_folder() -> Path:
    """The folder for compiled code: in the checkout, or in the user's cache where that is
    read-only.
    """
    digest = hashlib.sha256()
    for file in sorted(SOURCES.rglob("*.py")):
        digest.update(file.read_bytes())
    name = digest.hexdigest()[:16]
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "batchscope"
    for parent in (SOURCES.parent / ".numba_cache", user_cache):
        try:
            (parent / name).mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(parent / name, os.W_OK):
            os.utime(parent / name)
            return parent / name
    return Path(tempfile.mkdtemp(prefix="batchscope-"))


def forget_old_caches(current: Path) -> None:
    """Keep the newest few caches: every edit of a source starts another."""
    siblings = sorted(current.parent.iterdir(), key=lambda folder: folder.stat().st_mtime)
    for folder in siblings[:-KEPT_CACHES]:
        if folder != current:
            shutil.rmtree(folder, ignore_errors=True)


if "NUMBA_CACHE_DIR" not in os.environ:
    folder = cache_folder()
    if folder.parent.name in (".numba_cache", "batchscope"):
        forget_old_caches(folder)
    os.environ["NUMBA_CACHE_DIR"] = str(folder)

import numba  # noqa: E402  (reads NUMBA_CACHE_DIR when imported)

setattr(numba.config, "CACHE_DIR", os.environ["NUMBA_CACHE_DIR"])  # noqa: B010 (it is untyped)

# Kernels allocate nothing and keep no array, so numba's reference counts (an atomic add and a
# subtraction for each of the state's arrays in each call) are left out: `_nrt`. Measured on the
# `steady` workload of `sim bench`: 17 million request-tokens a second with them, 44 without.
OPTIONS: Any = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
    "_nrt": False,
}

njit = numba.njit(**OPTIONS)

# For kernels that only kernels call: what unpacks the state for Python takes a third of the time to
# compile. Python cannot call it.
INNER: Any = {"no_cpython_wrapper": True}
njit_inner = numba.njit(**OPTIONS, **INNER)

# For a small function on a hot path, called by kernels only: the state is a tuple of many arrays,
# and handing it over costs more than a short body does. Python cannot call it.
njit_inline = numba.njit(**OPTIONS, **INNER, forceinline=True)

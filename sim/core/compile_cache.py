"""The folder where numba keeps compiled kernels, named by a hash of everything kernels import.

Numba's on-disk cache notices an edit of a kernel's own file only, not of the files that the kernel
calls into. The hash therefore covers every file with a compiled function and every project file
that these import. An edit of any of them starts a new folder. An edit elsewhere (a page, a message,
an engine's entry in the registry) compiles nothing."""

import ast
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import platformdirs

__all__ = ["cache_folder", "cache_key", "kernel_sources"]

ROOT = Path(__file__).parents[2]
PACKAGES = ("sim", "gpu_backend")
KEPT_CACHES = 3
COMPILED = re.compile(rb"^\s*@[\w.]*njit", re.MULTILINE)  # a decorator of any of these names


def kernel_sources(root: Path = ROOT) -> list[Path]:
    """The files that compiled code depends on, sorted: those that use `njit`, and what they import
    at module level, directly or not."""
    files = [file for package in PACKAGES for file in (root / package).rglob("*.py")]
    to_read = [file for file in files if COMPILED.search(file.read_bytes())]
    found = set(to_read)
    while to_read:
        for file in project_imports(to_read.pop(), root):
            if file not in found:
                found.add(file)
                to_read.append(file)
    return sorted(found)


def project_imports(file: Path, root: Path) -> Iterator[Path]:
    """The project's files that a file imports at module level. A package's __init__ counts only if
    a name is taken from it."""
    for node in ast.parse(file.read_bytes()).body:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            path = root.joinpath(*name.split("."))
            for place in (path, path.parent):  # the name is a module, or is in one
                if place.with_suffix(".py").is_file():
                    yield place.with_suffix(".py")
                    break
                if place != root and (place / "__init__.py").is_file():
                    yield place / "__init__.py"
                    break


def cache_key(root: Path = ROOT) -> str:
    """A hash of the names and contents of `kernel_sources`."""
    digest = hashlib.sha256()
    for file in kernel_sources(root):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0")
        digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def cache_folder(root: Path = ROOT) -> Path:
    """Create and return the folder for compiled code: in the checkout, or in the user's cache if
    the checkout is read-only. Removes older folders beside it; the newest few are kept."""
    key = cache_key(root)
    for parent in (root / ".numba_cache", Path(platformdirs.user_cache_dir("batchscope"))):
        folder = parent / key
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            os.utime(folder)
            remove_old_caches(folder)
            return folder
    return Path(tempfile.mkdtemp(prefix="batchscope-"))


def remove_old_caches(current: Path) -> None:
    """Keep the newest few folders beside `current`, and `current`."""
    siblings = sorted(current.parent.iterdir(), key=lambda folder: folder.stat().st_mtime)
    for folder in siblings[:-KEPT_CACHES]:
        if folder != current:
            shutil.rmtree(folder, ignore_errors=True)

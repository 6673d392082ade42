"""The compiled cache is keyed by what kernels import: an edit elsewhere compiles nothing."""

import os
import shutil
from pathlib import Path

import pytest

from sim.core import compile_cache
from sim.core.compile_cache import KEPT_CACHES, cache_folder, cache_key, kernel_sources
from tests.conftest import ROOT


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The product's packages in a folder of their own."""
    for name in ("sim", "gpu_backend"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    return tmp_path


def edited(root: Path, file: str) -> str:
    """The key once a line was added to the end of a file."""
    path = root / file
    path.write_text(path.read_text() + "\n# an edit\n")
    return cache_key(root)


def test_a_copy_has_the_same_key(copy: Path) -> None:
    assert cache_key(copy) == cache_key()


@pytest.mark.parametrize(
    "file",
    [
        "sim/core/kv_cache.py",
        "sim/core/reasons.py",  # no kernel in it, imported by kernels
        "sim/engines/vllm_v1.py",
        "sim/engines/dispatch.py",
        "sim/cluster/loop.py",
        "sim/latency/model.py",
        "gpu_backend/engine/decode_kernels.py",
        "gpu_backend/engine/dtypes.py",
    ],
)
def test_an_edit_of_what_kernels_import_changes_the_key(copy: Path, file: str) -> None:
    assert edited(copy, file) != cache_key()


@pytest.mark.parametrize(
    "file",
    [
        "sim/engines/registry.py",
        "sim/engines/knobs/vllm_v1.py",
        "sim/cluster/simulator.py",
        "sim/results/metrics.py",
        "sim/scenario/spec.py",
        "sim/validation/base_model.py",
        "sim/__main__.py",
        "gpu_backend/engine/executor.py",
    ],
)
def test_an_edit_elsewhere_does_not(copy: Path, file: str) -> None:
    assert edited(copy, file) == cache_key()


def test_a_new_engine_changes_the_key(copy: Path) -> None:
    """Numbers of engines are places among the kernel files."""
    shutil.copy(copy / "sim/engines/orca.py", copy / "sim/engines/another.py")
    assert cache_key(copy) != cache_key()


def test_kernels_depend_on_no_library_but_numba_and_numpy() -> None:
    """pydantic models, the registry and pages are outside."""
    names = {str(file.relative_to(ROOT)) for file in kernel_sources()}
    assert not {name for name in names if "knobs" in name or "registry" in name}
    for name in names - {"sim/core/compile_cache.py"}:
        assert "pydantic" not in (ROOT / name).read_text(), name


def test_a_file_that_is_imported_inside_a_package_is_found(tmp_path: Path) -> None:
    """`from package import module`, `from package.module import name`, `import package.module`."""
    package = tmp_path / "sim"
    package.mkdir()
    files = {
        "__init__.py": "",
        "kernel.py": (
            "from sim import one\nfrom sim.two import x\nimport sim.three\n"
            "@njit_inner\ndef f(): return x\n"
        ),
        "one.py": "from sim.four import y\n",
        "two.py": "x = 1\n",
        "three.py": "def f():\n    from sim import five\n",
        "four.py": "import numpy\n",
        "five.py": "",
    }
    for name, text in files.items():
        (package / name).write_text(text)
    found = [file.name for file in kernel_sources(tmp_path)]
    assert found == ["four.py", "kernel.py", "one.py", "three.py", "two.py"]


def test_old_folders_are_removed(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each edit of a kernel starts a folder; the newest few are kept."""
    folders = []
    for number in range(KEPT_CACHES + 2):
        monkeypatch.setattr(compile_cache, "cache_key", lambda root, n=number: f"key{n}")
        folders.append(cache_folder(copy))
        os.utime(folders[-1], (number, number))
    assert [folder.exists() for folder in folders] == [False] * 2 + [True] * KEPT_CACHES


def test_a_read_only_checkout_uses_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file where the folder would be: as good as a checkout that may not be written to."""
    (tmp_path / ".numba_cache").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cache_folder(tmp_path) == tmp_path / "cache" / "batchscope" / cache_key(tmp_path)

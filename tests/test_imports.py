"""The import rule: pages -> ui -> sim, and what sim may not load."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from sim.engines import dispatch

ROOT = Path(__file__).parent.parent
HEAVY = ("streamlit", "torch", "pandas", "plotly")
# What each room of the simulator's core may import of sim; its __init__ files import nothing.
ROOMS = {
    "core": {"core"},
    "engines": {"core", "engines", "hardware", "validation", "latency"},
    "cluster": {"core", "engines", "latency", "cluster"},
}


def files(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def imported(file: Path) -> set[str]:
    """Full names of the modules that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("file", files("sim"), ids=lambda f: str(f.relative_to(ROOT)))
def test_sim_imports_nothing_above_it(file: Path) -> None:
    for name in imported(file):
        assert name.split(".")[0] not in {"ui", "pages", "gpu_backend", "streamlit", "torch"}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_the_rooms_below_it(room: str) -> None:
    for file in files(f"sim/{room}"):
        for name in imported(file):
            parts = name.split(".")
            if parts[0] == "sim":
                assert parts[1] in ROOMS[room], f"{file.name} imports {name}"


def test_a_kernel_imports_no_knobs_and_no_registry() -> None:
    """A kernel reads the state and nothing else of its engine."""
    for name in dispatch.KERNELS:
        found = imported(ROOT / "sim" / "engines" / f"{name}.py")
        assert not any("knobs" in one or "registry" in one for one in found), name


@pytest.mark.parametrize("file", files("ui"), ids=lambda f: str(f.relative_to(ROOT)))
def test_ui_imports_no_page(file: Path) -> None:
    assert not any(name.split(".")[0] == "pages" for name in imported(file))


@pytest.mark.parametrize("file", files("gpu_backend"), ids=lambda f: f.name)
def test_the_real_engine_imports_sim_only(file: Path) -> None:
    for name in imported(file):
        assert name.split(".")[0] not in {"ui", "pages", "streamlit", "plotly", "pandas"}
        assert name.split(".")[0] not in {"pickle", "transformers"}  # no pickles, no remote code


@pytest.mark.parametrize("file", files("ui") + files("pages"), ids=lambda f: f.name)
def test_pages_load_the_real_engine_inside_a_function(file: Path) -> None:
    """A page works without torch until somebody runs it."""
    top = [node for node in ast.parse(file.read_text()).body if not is_definition(node)]
    for node in ast.walk(ast.Module(body=top, type_ignores=[])):
        names = [alias.name for alias in getattr(node, "names", [])]
        names += [getattr(node, "module", None) or ""] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert not any(name.split(".")[0] in ("gpu_backend", "torch") for name in names)


def is_definition(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.ClassDef)


def test_loading_sim_loads_nothing_heavy() -> None:
    script = f"import sys, sim.__main__; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"

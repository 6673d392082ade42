"""One import rule per folder: the folders of the project that its files may import."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from sim.engines import dispatch
from tests.conftest import ROOT

HEAVY = ("streamlit", "torch", "pandas", "plotly")

# folder -> what its files may import besides themselves; the order is that of the levels
SIM = {
    "core": (),
    "validation": (),
    "hardware": (),
    "latency": ("core", "validation", "hardware"),
    "engines": ("core", "validation", "hardware"),
    "workload": ("core", "validation"),
    "cluster": ("core", "latency", "engines"),
    "replay": ("core", "latency", "engines", "workload"),
    "scenario": ("core", "validation", "hardware", "latency", "engines", "workload", "cluster"),
    "results": ("core", "hardware", "latency", "engines", "workload", "cluster", "scenario"),
    "sweep": ("validation", "hardware", "workload", "scenario", "results"),
    "cli": (
        "core",
        "latency",
        "engines",
        "workload",
        "cluster",
        "replay",
        "scenario",
        "results",
        "sweep",
    ),
}
GPU_BACKEND = {
    "models": ("device",),
    "prompts": ("models",),
    "engine": ("device", "models", "prompts"),
    "calibration": ("device", "terminal", "models", "engine"),
    "serve_check": ("terminal", "prompts"),
}
FOREIGN = {
    "sim": {"ui", "pages", "gpu_backend", "streamlit", "torch", "plotly"},
    "gpu_backend": {"ui", "pages", "streamlit", "plotly", "pandas", "pickle", "transformers"},
    "ui": {"pages"},
}


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


def imported(file: Path) -> set[str]:
    """Full names of the modules that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_every_folder_of_sim_has_a_rule() -> None:
    folders = {path.name for path in (ROOT / "sim").iterdir() if (path / "__init__.py").exists()}
    assert folders == set(SIM)


def test_rules_have_no_cycle() -> None:
    """A folder may only import folders that are listed above it."""
    listed = list(SIM)
    for folder, allowed in SIM.items():
        assert all(listed.index(other) < listed.index(folder) for other in allowed), folder


@pytest.mark.parametrize("folder", SIM)
def test_sim(folder: str) -> None:
    for file in files(f"sim/{folder}"):
        used = {name.split(".")[1] for name in imported(file) if name.startswith("sim.")}
        assert used <= {folder, *SIM[folder]}, f"{name_of(file)} imports {used}"


def test_every_folder_of_gpu_backend_has_a_rule() -> None:
    assert {path.parent.name for path in (ROOT / "gpu_backend").glob("*/__init__.py")} == set(
        GPU_BACKEND
    )


@pytest.mark.parametrize("folder", GPU_BACKEND)
def test_gpu_backend(folder: str) -> None:
    for file in files(f"gpu_backend/{folder}"):
        names = [name.split(".") for name in imported(file) if name.startswith("gpu_backend.")]
        used = {name[1] for name in names}
        assert used <= {folder, *GPU_BACKEND[folder]}, f"{name_of(file)} imports {used}"


def test_a_kernel_imports_no_knobs_and_no_registry() -> None:
    """A kernel reads the state and nothing else of its engine."""
    for name in dispatch.KERNELS:
        found = imported(ROOT / "sim" / "engines" / f"{name}.py")
        assert not any("knobs" in one or "registry" in one for one in found), name


@pytest.mark.parametrize("folder", FOREIGN)
def test_packages(folder: str) -> None:
    for file in files(folder):
        used = {name.split(".")[0] for name in imported(file)}
        assert not used & FOREIGN[folder], f"{name_of(file)} imports {used & FOREIGN[folder]}"


@pytest.mark.parametrize("file", [*files("ui"), *files("pages")], ids=name_of)
def test_pages_load_the_real_engine_inside_a_function(file: Path) -> None:
    """A page works without torch until a run needs it."""
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

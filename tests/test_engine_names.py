"""Only an engine's own files and the registry name it: everything else asks the registry.

A product file that compares with "vllm_v1" has to be edited for every new engine. ALLOWED lists the
files that may name one all the same, each with its reason."""

import re
from pathlib import Path

import pytest

from sim.engines.registry import ENGINE_IDS
from tests.conftest import ROOT

PRODUCT = ("sim", "gpu_backend", "ui", "pages", "app.py")
QUOTED = re.compile(rf"""["']({"|".join(ENGINE_IDS)})["']""")

ALLOWED = {
    "sim/engines/registry.py": "the registry",
    "sim/hardware/kv_pool_size.py": "vLLM's memory profile and its defaults for large GPUs",
    "sim/replay/__init__.py": "folders of recorded cases, named after the engine they came from",
    "sim/replay/case.py": "the one schema of recorded cases that does not say its engine",
    "sim/replay/sarathi_serve.py": "schemas of recorded cases: knobs of Sarathi-Serve's schedulers",
    "sim/replay/static_padded.py": "a schema of recorded cases: knobs of static batching",
    "sim/replay/tensorrt_llm.py": "a schema of recorded cases: columns that no knob sets",
    "sim/replay/vllm_v1.py": "a schema of recorded cases: knobs of vLLM V1",
    "sim/results/serve_flags.py": "the name of SGLang's server in a message",
    "gpu_backend/serve_check/command.py": "the toy scenario of a check against a vLLM server",
    "gpu_backend/engine/presets.py": "the presets' own scenario",
    "ui/component.py": "the folder of static files",
    "gpu_backend/calibration/command.py": "the scenario that is timed for a calibration",
}


def product_files() -> list[Path]:
    found: list[Path] = []
    for name in PRODUCT:
        path = ROOT / name
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return found


def naming(file: Path) -> list[str]:
    """The lines of a file that name an engine in quotes, its own file aside."""
    engines = set(QUOTED.findall(file.read_text()))
    if file.parent == ROOT / "sim" / "engines" / "knobs":
        engines -= {file.stem}
    lines = file.read_text().splitlines()
    return [line.strip() for line in lines if set(QUOTED.findall(line)) & engines]


def test_no_other_file_names_an_engine() -> None:
    found = {str(file.relative_to(ROOT)): naming(file) for file in product_files()}
    unexpected = {name: lines for name, lines in found.items() if lines and name not in ALLOWED}
    assert not unexpected


@pytest.mark.parametrize("name", ALLOWED)
def test_the_list_holds_no_file_without_need(name: str) -> None:
    assert naming(ROOT / name), f"{name} names no engine any more: take it off the list"

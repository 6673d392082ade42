"""docs/adding-a-policy.md, done: its policy is built in a copy of the package and runs everywhere.

The copy is plain Python (NUMBA_DISABLE_JIT=1) but for the test of the compiled dispatch."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

PAGE = ROOT / "docs" / "adding-a-policy.md"
TOY = "shortest_prompt_first"

BY_HAND = f"""
from tests.tools.builders import Server
server = Server([(30, 4), (9, 4), (20, 4), (9, 4)], engine="{TOY}", max_num_batched_tokens=32)
server.add(0, 1, 2, 3)
assert server.step() == [(1, 9, 0), (3, 9, 0), (2, 14, 0)], "shortest first, the third is cut"
assert server.stop_reason == "budget"
server.run()
print("built")
"""


# The same with the choice of the engine compiled, for this engine alone: all of them take a minute.
COMPILED = f"""
from sim.core.compiled import njit
from sim.engines import dispatch
ONLY = dispatch.only(dispatch.number_of("{TOY}"))
@njit
def schedule(state, replica):
    dispatch.schedule_for(state, replica, ONLY)
dispatch.schedule = schedule
"""


def blocks() -> list[tuple[str, str, str]]:
    """(file, kind, text) of each code block that follows a line naming its file."""
    found, file = [], ""
    pattern = re.compile(r"^`(sim/[\w/]+\.py)`$|^```(python|diff)\n(.*?)^```$", re.M | re.S)
    for match in pattern.finditer(PAGE.read_text()):
        if match[1]:
            file = match[1]
        else:
            found.append((file, match[2], match[3]))
    return found


def build(folder: Path) -> None:
    """A copy of the package and its tests, with what the page says written into it."""
    for name in ("sim", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "oracles", "browser")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for file, kind, text in blocks():
        path = folder / file
        if kind == "python":
            assert not path.exists()
            path.write_text(text)
            continue
        lines = text.splitlines()
        before = "\n".join(line[1:] for line in lines if line[0] == " ") + "\n"
        after = "\n".join(line[1:] for line in lines) + "\n"
        source = path.read_text()
        assert source.count(before) == 1, f"{file} has no place for:\n{text}"
        path.write_text(source.replace(before, after))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    build(folder)
    return folder


def python(
    folder: Path, *arguments: str, compiled: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run Python in the copy."""
    environment = os.environ | {"PYTHONPATH": str(folder)}
    environment |= {} if compiled else {"NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def scenario(**policy: Any) -> dict[str, Any]:
    """Ten long and ten short prompts at once."""
    classes = [
        {
            "name": name,
            "count": 10,
            "arrivals": {"kind": "all_at_once"},
            "prompt": {"kind": "fixed", "tokens": tokens},
            "output": {"kind": "fixed", "tokens": 5},
        }
        for name, tokens in (("long", 2000), ("short", 50))
    ]
    replica = {"latency": {"kind": "linear"}, "policy": policy}
    return {"workload": {"classes": classes}, "replicas": [replica]}


def test_the_page_adds_two_files_and_one_entry() -> None:
    kinds = [(file, kind) for file, kind, _ in blocks()]
    assert [file for file, kind in kinds if kind == "python"] == [
        f"sim/engines/{TOY}.py",
        f"sim/engines/knobs/{TOY}.py",
    ]
    assert {file for file, kind in kinds if kind == "diff"} == {"sim/engines/registry.py"}


def test_the_policy_of_the_page_plans_by_hand(built: Path) -> None:
    done = python(built, "-W", "error", "-c", BY_HAND)
    assert done.stdout == "built\n", done.stderr


@pytest.mark.slow  # the copy's kernels are compiled from nothing
def test_compiled_code_dispatches_to_it(built: Path) -> None:
    (built / "compiled.py").write_text(COMPILED + BY_HAND)
    done = python(built, "-W", "error", "compiled.py", compiled=True)
    assert done.stdout == "built\n", done.stderr


def test_the_tests_of_every_engine_run_on_it(built: Path) -> None:
    file = "tests/sim/engines/test_every_engine.py"
    names = f"{TOY} and not slow and not {TOY}-{TOY}"
    done = python(built, "-m", "pytest", file, "-q", "-k", names, "-m", "not slow")
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 10
    assert "failed" not in done.stdout


def test_a_scenario_can_name_it(built: Path) -> None:
    """Short prompts no longer wait for long ones: the mean TTFT falls below vLLM V1's."""
    means = []
    for engine in ("vllm_v1", TOY):
        file = built / f"{engine}.json"
        file.write_text(json.dumps(scenario(engine=engine, max_num_batched_tokens=2048)))
        done = python(built, "-m", "sim", "run", str(file), "--summary", "json")
        assert done.returncode == 0, done.stderr
        summary = json.loads(done.stdout)
        assert summary["finished"] == 20
        means.append(summary["ttft_s"]["mean"])
    assert means[1] < 0.7 * means[0]


def test_a_sweep_can_vary_its_knobs(built: Path) -> None:
    file = built / "base.json"
    file.write_text(json.dumps(scenario(engine=TOY)))
    table, grid = built / "sweep.csv", "max_num_batched_tokens=512,2048"
    arguments = ("sweep", str(file), "--grid", grid, "--csv", str(table))
    done = python(built, "-m", "sim", *arguments)
    assert done.returncode == 0, done.stderr
    header, *rows = csv.reader(table.read_text().splitlines())
    assert [row[header.index("status")] for row in rows] == ["finished"] * 2


def test_the_bench_measures_it(built: Path) -> None:
    done = python(built, "-m", "sim", "bench", "--list")
    assert done.returncode == 0, done.stderr
    assert f"{TOY}   " in done.stdout


def test_what_can_only_stall_is_refused(built: Path) -> None:
    file = built / "stall.json"
    file.write_text(json.dumps(scenario(engine=TOY, num_gpu_blocks=4, max_model_len=100)))
    done = python(built, "-m", "sim", "run", str(file))
    assert done.returncode == 2
    assert "would wait for ever" in done.stderr

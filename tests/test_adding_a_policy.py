"""docs/adding-a-policy.md, done: the policy it writes down is built in a copy of the package, and
runs."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "adding-a-policy.md"

# A step by hand, and a whole run with the state checked after each step.
SCRIPT = """
import random
from pydantic import TypeAdapter
from tests import builders
builders.ROOMY["shortest_prompt_first"] = {
    "max_num_seqs": 8, "max_model_len": 128, "block_size": 4, "num_gpu_blocks": 60,
    "max_num_batched_tokens": 32,
}
server = builders.Server([(30, 4), (9, 4), (20, 4), (9, 4)], engine="shortest_prompt_first")
server.add(0, 1, 2, 3)
assert server.step() == [(1, 9, 0), (3, 9, 0), (2, 14, 0)], "shortest first, the third is cut"
assert server.stop_reason == "budget"
for seed in range(20):
    draw = random.Random(seed)
    asked = [(draw.randint(1, 60), draw.randint(1, 30)) for _ in range(20)]
    server = builders.Server(asked, engine="shortest_prompt_first").add(*range(20))
    server.run()
    assert server.free == 60
    assert server.state.requests.num_output_tokens.tolist() == [output for _, output in asked]
print("built")
"""


def blocks() -> list[tuple[str, str, str]]:
    """(file, kind, text) of each code block that stands under a line naming its file."""
    found, file = [], ""
    pattern = re.compile(r"^`(sim/[\w/]+\.py)`$|^```(python|diff)\n(.*?)^```$", re.M | re.S)
    for match in pattern.finditer(PAGE.read_text()):
        if match[1]:
            file = match[1]
        else:
            found.append((file, match[2], match[3]))
    return found


def build(folder: Path) -> None:
    """A copy of the package and its tests' builders, with what the page says written into it."""
    for name in ("sim", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "oracles", "browser")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
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


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(folder)}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_page_adds_two_files_and_their_lines() -> None:
    kinds = [(file, kind) for file, kind, _ in blocks()]
    assert [file for file, kind in kinds if kind == "python"] == [
        "sim/policies/shortest_prompt_first.py",
        "sim/knobs/shortest_prompt_first.py",
    ]
    assert {file for file, kind in kinds if kind == "diff"} == {
        "sim/policies/__init__.py",
        "sim/knobs/__init__.py",
    }


def test_the_policy_of_the_page_works(built: Path) -> None:
    done = python(built, "-W", "error", "-c", SCRIPT)
    assert done.stdout == "built\n", done.stderr


def test_a_scenario_can_name_it(built: Path) -> None:
    """Short prompts no longer wait for long ones: the mean TTFT falls below vLLM V1's."""
    means = []
    for engine in ("vllm_v1", "shortest_prompt_first"):
        scenario = {
            "workload": {
                "classes": [
                    {
                        "name": name,
                        "count": 10,
                        "arrivals": {"kind": "all_at_once"},
                        "prompt": {"kind": "fixed", "tokens": tokens},
                        "output": {"kind": "fixed", "tokens": 5},
                    }
                    for name, tokens in (("long", 2000), ("short", 50))
                ]
            },
            "replicas": [
                {
                    "latency": {"kind": "linear"},
                    "policy": {"engine": engine, "max_num_batched_tokens": 2048},
                }
            ],
        }
        file = built / f"{engine}.json"
        file.write_text(json.dumps(scenario))
        done = python(built, "-m", "sim", "run", str(file), "--summary", "json")
        assert done.returncode == 0, done.stderr
        summary = json.loads(done.stdout)
        assert summary["finished"] == 20
        means.append(summary["ttft_s"]["mean"])
    assert means[1] < 0.7 * means[0]


def test_what_can_only_stall_is_refused(built: Path) -> None:
    file = built / "stall.json"
    policy = {"engine": "shortest_prompt_first", "num_gpu_blocks": 4, "max_model_len": 100}
    scenario = {
        "workload": {
            "classes": [
                {
                    "name": "one",
                    "count": 1,
                    "arrivals": {"kind": "all_at_once"},
                    "prompt": {"kind": "fixed", "tokens": 10},
                    "output": {"kind": "fixed", "tokens": 5},
                }
            ]
        },
        "replicas": [{"latency": {"kind": "linear"}, "policy": policy}],
    }
    file.write_text(json.dumps(scenario))
    done = python(built, "-m", "sim", "run", str(file))
    assert done.returncode == 2
    assert "would wait for ever" in done.stderr

"""Case files that are no cases: one sentence each, and the rest is still replayed."""

import json
from pathlib import Path
from typing import Any

import pytest

from sim.cli.main import main
from tests.conftest import CASES

GOOD = CASES / "trt" / "trt_004.json"
V1 = CASES / "vllm_v1" / "mixed_00.json"


def edited(folder: Path, source: Path, **edit: Any) -> Path:
    target = folder / source.parent.name / "case.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(json.loads(source.read_text()) | edit))
    return target


@pytest.mark.parametrize(
    ("source", "edit", "words"),
    [
        (GOOD, {"requests": "none"}, "requests: input should be a valid list"),
        (GOOD, {"requests": [{"id": 0, "arrival_step": 10**13}]}, "less than or equal to 1000000"),
        (GOOD, {"requests": [{"id": -1, "arrival_step": 0}]}, "requests.0.id"),
        (GOOD, {"requests": [{"id": 0, "arrival_step": 0, "prompt": 5, "output": 1.5}]}, "output"),
        (GOOD, {"steps": [5]}, "not a case that can be replayed"),
        (GOOD, {"config": {}}, "is missing"),
        (V1, {"trace": "none"}, "not a case that can be replayed"),
    ],
)
def test_a_broken_case_is_named_and_the_others_are_replayed(
    source: Path,
    edit: dict[str, Any],
    words: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    broken = edited(tmp_path, source, **edit)
    assert main(["replay", "--check", str(broken), str(GOOD)]) == 2
    shown = capfd.readouterr()
    assert shown.err.count("\n") == 1
    assert str(broken) in shown.err
    assert words in shown.err
    assert shown.out == "replayed 2 cases: 1 equal, 0 differ, 0 skipped\n"


def test_a_vllm_v1_case_is_known_by_its_schema(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its files name no engine; in a folder of another name the configuration tells."""
    target = tmp_path / "somewhere.json"
    target.write_text(V1.read_text())
    assert main(["replay", "--check", str(target)]) == 0
    assert "1 equal" in capfd.readouterr().out

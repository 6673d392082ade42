"""The unit tests of the JavaScript modules, under Node's own test runner."""

from pathlib import Path

import pytest

from tests.web import node

FILES = sorted(Path(__file__).parent.glob("*.test.js"))


def test_there_are_tests() -> None:
    assert len(FILES) >= 10


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_modules_pass_their_tests(file: Path) -> None:
    done = node.run("--test", "--test-reporter=tap", str(file))
    output = done.stdout.decode()
    assert done.returncode == 0, output
    assert "# skipped 0" in output
    assert "# pass 0" not in output

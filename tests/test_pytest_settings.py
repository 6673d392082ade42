"""The rules of the test run itself: which skips and which warnings fail it."""

import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.conftest import ALLOWED_SKIPS, ROOT

SKIPS = {
    "test_marked": "@pytest.mark.skip(reason='too slow')\ndef test_marked(): pass",
    "test_if_true": "@pytest.mark.skipif(True, reason='not here')\ndef test_if_true(): pass",
    "test_imported": "def test_imported(): pytest.importorskip('no_such_module')",
    "test_in_fixture": "def test_in_fixture(skipped): pass",
    "test_fails_as_expected": "@pytest.mark.xfail\ndef test_fails_as_expected(): assert False",
    "test_passes_unexpectedly": "@pytest.mark.xfail\ndef test_passes_unexpectedly(): pass",
}
FIXTURE = "@pytest.fixture\ndef skipped(): pytest.skip('no reason')"
ALLOWED = "def test_allowed(): pytest.skip('BATCHSCOPE_DATA names no folder')"
PASSES = "def test_passes(): pass"


def run_pytest(folder: Path, files: dict[str, list[str]], *options: str) -> tuple[int, str]:
    """The exit status and output of a run of these files under tests/conftest.py."""
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    for name, parts in files.items():
        (folder / name).write_text("\n\n".join(["import pytest", *parts]) + "\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", "."]
    done = subprocess.run(
        [*command, *options], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("options", [("-p", "no:xdist"), ("-n", "2")], ids=["alone", "xdist"])
def test_a_skip_that_is_not_listed_fails(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Wherever it comes from: a mark, an import, a fixture, a whole module, an xfail."""
    files = {
        "test_parts.py": [FIXTURE, *SKIPS.values(), ALLOWED, PASSES],
        "test_whole.py": ["pytest.skip('the whole file', allow_module_level=True)"],
    }
    status, output = run_pytest(tmp_path, files, "--continue-on-collection-errors", *options)
    assert status == pytest.ExitCode.TESTS_FAILED, output
    lines = [line.split() for line in output.splitlines() if line.startswith(("FAILED", "ERROR "))]
    named = {line[1] for line in lines}
    assert named == {"test_whole.py"} | {f"test_parts.py::{name}" for name in SKIPS}
    assert "3 failed, 1 passed, 1 skipped, 4 errors" in output  # errors: before a test's call
    assert "a skip that ALLOWED_SKIPS does not list: the whole file" in output
    assert "a skip that ALLOWED_SKIPS does not list: too slow" in output


def test_listed_skips_pass(tmp_path: Path) -> None:
    status, output = run_pytest(tmp_path, {"test_parts.py": [ALLOWED, PASSES]})
    assert status == pytest.ExitCode.OK, output
    assert all(ALLOWED_SKIPS.values()), "a skip without a reason"


def warn_in(module: str) -> None:
    exec("import warnings; warnings.warn('example', stacklevel=1)", {"__name__": module})


@pytest.mark.parametrize(
    "module", ["sim", "sim.core.state", "ui.shell", "gpu_backend.device", "pages.start", "app"]
)
def test_a_warning_of_our_own_modules_is_an_error(module: str) -> None:
    with pytest.raises(UserWarning, match="example"):
        warn_in(module)


@pytest.mark.parametrize("module", ["simplejson", "uuid", "numpy.sim", "torch.ui.parts"])
def test_a_warning_of_a_dependency_is_none(module: str) -> None:
    with warnings.catch_warnings(record=True) as shown:
        warn_in(module)
    assert [str(warning.message) for warning in shown] == ["example"]

"""A server that starts without compiled kernels: it compiles none, and every page has a picture."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sim.results.run import Result, simulate
from sim.scenario.load import Scenario
from tests.conftest import ROOT
from ui.disaggregation import setup
from ui.scenarios import presets
from ui.shell import kernels

# The process of a server whose kernels another one compiles, and which is never done.
SERVER = """
import sys
from numba.core import event
from tests.ui.opening import open_page
from ui.shell import kernels

class Compiling(kernels.Refuse):
    def is_being_compiled(self):
        return True

event.register("numba:compile", Compiling(None))
with kernels.lock():  # so that the server starts no process either
    for path in sys.argv[1:]:
        page, _, query = path.partition("?")
        at = open_page(page, **dict(pair.split("=") for pair in query.split("&") if pair))
        shown, drawn = at.get("progress"), at.get("bidi_component") or at.get("plotly_chart")
        print(path, "drawn" if drawn else "blank", shown[0].proto.text if shown else "")
"""


pytestmark = pytest.mark.slow  # the set-up takes a minute


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for compiled code after the set-up."""
    folder = tmp_path_factory.mktemp("cold")
    run("-m", "ui.prepare", folder=folder)
    return folder


def run(*arguments: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | {"NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_page_draws_what_it_opens_with(cold: Path) -> None:
    pages = ("start", "token_budget", "two_phases", "six_ways", "kv_memory", "disaggregation")
    lines = run("-c", SERVER, *pages, folder=cold)
    assert [line.split()[:2] for line in lines] == [[page, "drawn"] for page in pages]
    waiting = [line.split()[0] for line in lines if "is being compiled" in line]
    assert waiting == ["disaggregation"]  # for the figures below its lanes


def test_another_run_shows_how_far_the_compiling_is(cold: Path) -> None:
    lines = run("-c", SERVER, "token_budget?v=1&preset=burst", folder=cold)
    assert lines[0].startswith(
        "token_budget?v=1&preset=burst drawn The simulator is being compiled"
    )
    assert "of ? parts are done" in lines[0]


@pytest.mark.parametrize(
    ("name", "scenario"),
    [
        ("token budget", presets.scenario_of(presets.TOKEN_BUDGET[0].id)),
        ("disaggregation", setup.disaggregated(setup.PLAIN)),
        ("disaggregation", setup.co_located(setup.PLAIN)),
    ],
)
def test_the_first_runs_are_those_of_the_compiled_kernels(
    cold: Path, name: str, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Result:
        raise kernels.NotCompiled("run_slice")

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(cold))
    found = kernels.computed_first(name, scenario.digest, refuse)
    fresh = simulate(scenario)
    assert found.summary == fresh.summary
    assert found.recording.steps.tolist() == fresh.recording.steps.tolist()
    assert found.recording.requests.tolist() == fresh.recording.requests.tolist()


def test_a_compiling_process_that_died_does_not_lock_the_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing compiles and nothing is compiled: the serving process may do it itself."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    died = subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])
    died.wait()
    refuse = kernels.Refuse(died)
    assert not refuse.is_being_compiled()
    with kernels.lock() as free:
        assert free
        assert refuse.is_being_compiled()
    kernels.set_progress(kernels.Progress(done=2, total=2))
    assert kernels.are_compiled()


def test_a_job_waits_for_kernels_until_it_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernels, "POLL_S", 0.0)
    asked = []

    def cancelled() -> bool:
        asked.append(True)
        return len(asked) == 3

    kernels.wait_until_compiled(cancelled)  # no server runs here: nothing to wait for
    assert asked == []
    monkeypatch.setattr(kernels, "GUARD", [kernels.Refuse(None)])
    with kernels.lock():
        kernels.wait_until_compiled(cancelled)
        assert len(asked) == 3
        kernels.set_progress(kernels.Progress(done=1, total=1))
        kernels.wait_until_compiled(cancelled)
    assert len(asked) == 3


def test_progress_that_cannot_be_read_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert kernels.progress() == kernels.Progress()
    (kernels.folder() / "progress.json").write_text("{")
    assert kernels.progress() == kernels.Progress()
    assert not kernels.are_compiled()

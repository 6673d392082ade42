"""The runs of this browser session: the one that is under way, the finished ones it looks at."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sim.results.words import plural
from ui.real_engine.plan import Plan
from ui.real_engine.run_job import JobHandle, RunResult
from ui.shell.jobs import CANCELLED, FINISHED, BackgroundJob
from ui.shell.session import kept


@dataclass
class Finished:
    """Finished runs, and what they are compared with: a first guess, or a calibration.
    `first_guess`: before any calibration; `refused`: why the last calibration was refused."""

    plan: Plan
    runs: Sequence[RunResult]
    comparisons: list[Any] = field(default_factory=list)
    first_guess: list[Any] = field(default_factory=list)
    calibrated: Any = None
    refused: str | None = None

    def __post_init__(self) -> None:
        from gpu_backend.engine.run import compare

        self.comparisons = self.first_guess = [compare(one.run) for one in self.runs]

    def use(self, calibrated: Any, times_of: Callable[[Any], Any]) -> None:
        """Simulate again with what was fitted."""
        from gpu_backend.engine.run import compare

        self.calibrated, self.refused = calibrated, None
        self.comparisons = [compare(one.run, times_of(calibrated)) for one in self.runs]


@dataclass
class Runs:
    """What the page keeps. `asked`: the choices of the last run that was asked for; `problem`: why
    it gave no result; `saved`, `imported`: what came of the last click on a profile."""

    job: JobHandle | None = None
    finished: Finished | None = None
    asked: dict[str, str] | None = None
    problem: str | None = None
    download: BackgroundJob[tuple[str, float | None], None] | None = None
    server_check: BackgroundJob[tuple[int, int], dict[str, Any]] | None = None
    saved: tuple[bool, str] | None = None
    imported: tuple[bool, str] | None = None


def job() -> JobHandle | None:
    """The run that this session waits for."""
    return kept(Runs).job


def finished() -> Finished | None:
    """The last runs that came to an end."""
    return kept(Runs).finished


def problem() -> str | None:
    """Why the last run gave no result."""
    return kept(Runs).problem


def start(found: JobHandle) -> None:
    state = kept(Runs)
    state.job, state.problem = found, None


def end(handle: JobHandle) -> None:
    """A run has ended: keep its result, or why there is none."""
    state, job = kept(Runs), handle.job
    state.job = None
    runs: list[RunResult] = job.result or []
    good = [one for one in runs if one.run.output.error is None and len(one.run.recording.steps)]
    if job.error is not None:
        state.problem = f"The run did not start: {job.error}."
    elif runs and runs[-1].run.output.error is not None:
        state.problem = f"The run ended in an error: {runs[-1].run.output.error}."
    elif job.status == CANCELLED:
        steps = sum(len(one.run.recording.steps) for one in runs)
        state.problem = f"Cancelled after {plural(steps, 'step')}. Its results were dropped."
    elif runs and runs[-1].run.recording.status != "finished":
        state.problem = f"The run did not finish: {runs[-1].run.recording.reason}."
    if good and job.status == FINISHED:
        state.finished = Finished(handle.plan, good)

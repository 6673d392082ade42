"""Work that goes on behind a page: how it stands, what it reports, how it is cancelled."""

import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import streamlit as st

POLL_S = 0.5
WAITING, RUNNING, FINISHED, FAILED, CANCELLED = (
    "waiting", "running", "finished", "failed", "cancelled",
)  # fmt: skip
Progress = TypeVar("Progress")
Result = TypeVar("Result")


class Runner(Protocol):
    """What runs the work: a thread of its own, or the queue of gpu_backend.engine.jobs."""

    status: str
    progress: Any
    result: Any
    error: str | None

    def poll(self) -> str:
        """The status; a queue gives up a job that is not looked at for a while."""

    def cancel(self) -> None: ...

    def cancelled(self) -> bool: ...

    def wait(self, timeout_s: float | None = None) -> bool: ...


class BackgroundJob(Generic[Progress, Result]):
    """Work behind a page, typed by what it reports and what it results in."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner

    @classmethod
    def start(
        cls, work: Callable[["BackgroundJob[Progress, Result]"], Result]
    ) -> "BackgroundJob[Progress, Result]":
        """Start work on a thread of its own. It gets the job: it asks `cancelled` and sets
        `progress`."""
        runner = ThreadRunner()
        job = cls(runner)
        runner.run(lambda: work(job))
        return job

    @classmethod
    def refused(cls, error: str) -> "BackgroundJob[Progress, Result]":
        """A job that failed before it began."""
        runner = ThreadRunner()
        runner.end(FAILED, error)
        return cls(runner)

    @property
    def status(self) -> str:
        return self.runner.poll()

    @property
    def ended(self) -> bool:
        return self.status in (FINISHED, FAILED, CANCELLED)

    @property
    def progress(self) -> Progress | None:
        found: Progress | None = self.runner.progress
        return found

    @progress.setter
    def progress(self, value: Progress) -> None:
        self.runner.progress = value

    @property
    def result(self) -> Result | None:
        found: Result | None = self.runner.result
        return found

    @property
    def error(self) -> str | None:
        return self.runner.error

    def cancel(self) -> None:
        self.runner.cancel()

    def cancelled(self) -> bool:
        return self.runner.cancelled()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether it has ended within that time."""
        return self.runner.wait(timeout_s)


class ThreadRunner:
    """Work on a thread of its own."""

    def __init__(self) -> None:
        self.status = WAITING
        self.progress: Any = None
        self.result: Any = None
        self.error: str | None = None
        self._cancel, self._ended = threading.Event(), threading.Event()

    def run(self, work: Callable[[], Any]) -> None:
        self.status = RUNNING
        threading.Thread(target=self._work_off, args=(work,), daemon=True).start()

    def _work_off(self, work: Callable[[], Any]) -> None:
        try:
            self.result = work()
            self.end(CANCELLED if self.cancelled() else FINISHED)
        except ValueError as refused:
            self.end(FAILED, str(refused))
        except Exception as crash:
            self.end(FAILED, f"{type(crash).__name__}: {crash}")

    def end(self, status: str, error: str | None = None) -> None:
        self.status, self.error = status, error
        self._ended.set()

    def poll(self) -> str:
        return self.status

    def cancel(self) -> None:
        self._cancel.set()

    def cancelled(self) -> bool:
        return self._cancel.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        return self._ended.wait(timeout_s)


def watch(
    job: BackgroundJob[Any, Any],
    draw: Callable[[], None],
    ended: Callable[[], None] = lambda: None,
) -> None:
    """Draw how a job stands, again and again. When it ends, `ended` is called and the page runs
    again."""

    def body() -> None:
        if job.ended:
            ended()
            st.rerun()
        draw()

    st.fragment(body, run_every=POLL_S)()

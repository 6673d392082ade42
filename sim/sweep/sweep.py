"""A sweep: one scenario at every point of a grid, over any `concurrent.futures.Executor`.

Default: threads, since kernels release the GIL. A Dask cluster by its address, through
`Client.get_executor()`; `distributed` is imported only there. The command line and the pages call
`run_sweep`. Rows are in grid order.
"""

import os
import queue
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from sim.results.run import requests_of, run_resolved
from sim.scenario.load import Scenario, ScenarioError, resolve
from sim.sweep.grid import Axis, Setting, settings_of
from sim.workload.spec import WorkloadSpec
from sim.workload.workload import Workload

__all__ = ["NO_DASK", "Row", "Sweep", "open_executor", "run_sweep"]

POLL_S = 0.05  # interval of checking for a cancel
CONNECT_S = 10.0
DASK = "dask://"
DASK_ADDRESS = re.compile(r"dask://([\w.-]+|\[[0-9a-fA-F:.]+\]):\d{1,5}")
NO_DASK = "dask:// needs the package distributed, which is not installed: pip install distributed"


@dataclass(frozen=True)
class Row:
    """The result of one setting. `summary` (results/metrics.py) is None for a refused or failed
    one.

    status: that of the run; "refused" where the scenario or the engine refuses the setting;
    "failed" where the run raised an error. reason: why it is not "finished"."""

    index: int
    values: tuple[Any, ...]
    status: str
    reason: str | None
    summary: dict[str, Any] | None


@dataclass(frozen=True)
class Sweep:
    """A table in grid order. After a cancel it has fewer than `total` rows."""

    axes: tuple[Axis, ...]
    rows: tuple[Row, ...]
    total: int

    @property
    def complete(self) -> bool:
        return len(self.rows) == self.total


def run_sweep(
    base: Scenario,
    axes: Sequence[Axis],
    *,
    executor: Executor | None = None,
    deadline_s: float | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    cancelled: Callable[[], bool] = lambda: False,
    base_folder: Path | None = None,
    uploads: Mapping[str, bytes] | None = None,
) -> Sweep:
    """Run every setting of the grid. ScenarioError for an invalid grid. executor: shared and left
    open; None: one thread per processor. deadline_s: wall seconds after which one setting ends with
    status bounded. progress(done, total) and cancelled() are called in this thread; after a cancel,
    finished rows are returned. A file of the workload must be in `base_folder` on the machine that
    runs the setting, or among `uploads`."""
    settings = settings_of(base, axes)
    if executor is None:
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            rows = run_settings(
                settings, threads, deadline_s, progress, cancelled, base_folder, uploads
            )
    else:
        rows = run_settings(
            settings, executor, deadline_s, progress, cancelled, base_folder, uploads
        )
    return Sweep(tuple(axes), tuple(rows), len(settings))


def run_settings(
    settings: Sequence[Setting],
    executor: Executor,
    deadline_s: float | None,
    progress: Callable[[int, int], None],
    cancelled: Callable[[], bool],
    base_folder: Path | None,
    uploads: Mapping[str, bytes] | None,
) -> list[Row]:
    """The rows of the settings that ended, in grid order."""
    rows = {k.index: refusal(k, k.refused) for k in settings if k.refused is not None}
    progress(len(rows), len(settings))
    stop = Stop()
    files = Files(base_folder, uploads or {})
    done: queue.SimpleQueue[Future[Row | None]] = queue.SimpleQueue()
    pending: dict[Future[Row | None], Setting] = {}
    try:
        for setting in by_workload(settings):
            future = executor.submit(run_setting, setting, files, deadline_s, stop)
            pending[future] = setting
            future.add_done_callback(done.put)
        while pending:
            over = cancelled()
            try:
                future = done.get(block=not over, timeout=POLL_S)
            except queue.Empty:
                if over:
                    break
                continue
            setting = pending.pop(future)
            row = outcome(future, setting)
            if row is not None:
                rows[setting.index] = row
            progress(len(rows), len(settings))
    finally:
        stop.ask()
        for future in pending:
            future.cancel()
        built.cache_clear()
    return [rows[index] for index in sorted(rows)]


def by_workload(settings: Sequence[Setting]) -> list[Setting]:
    """Settings that can run, grouped by equal requests, so that a workload is built once and
    dropped early."""
    groups: dict[tuple[WorkloadSpec, int], list[Setting]] = {}
    for setting in settings:
        if setting.scenario is not None:
            key = setting.scenario.workload, setting.scenario.seed
            groups.setdefault(key, []).append(setting)
    return [setting for group in groups.values() for setting in group]


def outcome(future: Future[Row | None], setting: Setting) -> Row | None:
    """The row of a finished future; an exception becomes a row too."""
    try:
        return future.result()
    except CancelledError:
        return failure(setting, "the executor dropped it")
    except Exception as error:  # an error of a worker or of its connection belongs to one setting
        return failure(setting, f"{type(error).__name__}: {error}")


def refusal(setting: Setting, reason: str | None) -> Row:
    return Row(setting.index, setting.values, "refused", reason, None)


def failure(setting: Setting, reason: str) -> Row:
    return Row(setting.index, setting.values, "failed", reason, None)


# --- on the worker --------------------------------------------------------------------------------


class Stop:
    """A stop flag for threads of this process. On other machines futures are cancelled, and running
    settings end by their own limits."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def __reduce__(self) -> tuple[Any, ...]:
        return Stop, ()

    def ask(self) -> None:
        self.event.set()

    def asked(self) -> bool:
        return self.event.is_set()


@dataclass(frozen=True)
class Files:
    """The sources of a workload's file."""

    base_folder: Path | None
    uploads: Mapping[str, bytes] = field(hash=False)


def run_setting(setting: Setting, files: Files, deadline_s: float | None, stop: Stop) -> Row | None:
    """Run one setting without item records; None where it was stopped."""
    assert setting.scenario is not None
    if stop.asked():
        return None
    try:
        resolved = resolve(setting.scenario)
        with BUILDING:
            workload = built(setting.scenario.workload, setting.scenario.seed, files)
        result = run_resolved(
            resolved, workload, deadline_s=deadline_s, cancelled=stop.asked, record_items=False
        )
    except ScenarioError as error:
        return refusal(setting, str(error))
    summary = result.summary
    if summary["status"] == "cancelled":
        return None
    return Row(setting.index, setting.values, summary["status"], summary["reason"], summary)


BUILDING = threading.Lock()


@lru_cache(maxsize=2)
def built(spec: WorkloadSpec, seed: int, files: Files) -> Workload:
    """The requests of a scenario, built once for the settings that share them."""
    return requests_of(spec, seed, files.base_folder, files.uploads)[0]


# --- executors ------------------------------------------------------------------------------------


@contextmanager
def open_executor(address: str) -> Iterator[Executor]:
    """The executor named by `threads` or `dask://HOST:PORT`. ValueError for another name."""
    if address == "threads":
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            yield threads
    elif DASK_ADDRESS.fullmatch(address):
        with dask_client(address) as client:
            yield client.get_executor()
    else:
        raise ValueError(f"found {address!r}; an executor is threads or {DASK}HOST:PORT")


def dask_client(address: str) -> Any:
    """A client of the Dask scheduler at dask://HOST:PORT."""
    try:
        from distributed import Client
    except ImportError:
        raise ValueError(NO_DASK) from None
    try:
        place = f"tcp://{address.removeprefix(DASK)}"
        connect: Any = Client  # distributed has no types
        return connect(place, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"no Dask scheduler answers at {address}: {error}") from None

"""One run at a time on a device, a queue for the others.

A job runs in the thread of the queue. The caller holds a `Job`: its position, its progress, its
result or error, and a way to cancel it. Exceptions of a job stay in the thread, so a failed run
leaves the process and the queue intact. A job whose browser session has ended is dropped, and so is
a waiting job that was not polled for a while.

When the process exits, the queues end first: otherwise Python unwinds a thread inside torch, and
C++ aborts with "terminate called without an active exception"."""

import atexit
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from gpu_backend.device import Device, OutOfMemory

__all__ = ["MOST_WAITING", "Job", "QueueFull", "RunQueue", "queue_for"]

MOST_WAITING = 32
ABANDONED_S = 120.0
LEAVE_S = 2.0  # for the running jobs, when the process exits

WAITING, RUNNING, FINISHED, FAILED, CANCELLED = (
    "waiting",
    "running",
    "finished",
    "failed",
    "cancelled",
)


class QueueFull(RuntimeError):
    """Too many jobs are waiting."""


def never_gone() -> bool:
    return False


class Job:
    """A requested run. `work` receives the job, polls `cancelled()` and sets `progress`. `gone`:
    whether the session that requested it has ended."""

    def __init__(self, work: Callable[["Job"], Any], gone: Callable[[], bool] = never_gone) -> None:
        self.work, self.gone = work, gone
        self.status = WAITING
        self.progress: Any = None
        self.result: Any = None
        self.error: str | None = None
        self.last_polled_s = time.monotonic()
        self._cancel, self._ended = threading.Event(), threading.Event()

    def cancelled(self) -> bool:
        return self._cancel.is_set() or self.gone()

    def cancel(self) -> None:
        """A waiting job does not start; a running one ends before its next layer."""
        self._cancel.set()

    def poll(self) -> str:
        """The status; polling keeps a waiting job in the queue."""
        self.last_polled_s = time.monotonic()
        return self.status

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether it has ended within that time."""
        return self._ended.wait(timeout_s)

    def run(self) -> None:
        self.status = RUNNING
        try:
            self.result = self.work(self)
            self.status = CANCELLED if self.cancelled() else FINISHED
        except (OutOfMemory, MemoryError, torch.OutOfMemoryError) as lack:
            self.fail(f"out of memory: {first_line(lack)}")
        except ValueError as refused:
            self.fail(str(refused))
        except Exception as crash:
            self.fail(f"the run failed: {type(crash).__name__}: {first_line(crash)}")
        finally:
            self._ended.set()

    def fail(self, words: str) -> None:
        self.status, self.error = FAILED, words

    def drop(self) -> None:
        """End it before it starts."""
        self.status = CANCELLED
        self._ended.set()


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class RunQueue:
    """Jobs of one device, first come, first served. Its thread ends when the queue is empty."""

    def __init__(self, abandoned_s: float = ABANDONED_S) -> None:
        self.abandoned_s = abandoned_s
        self.lock = threading.Lock()
        self.waiting: list[Job] = []
        self.running: Job | None = None
        self.thread: threading.Thread | None = None

    def submit(self, work: Callable[[Job], Any], gone: Callable[[], bool] = never_gone) -> Job:
        """Submit a run. QueueFull when MOST_WAITING are waiting."""
        job = Job(work, gone)
        with self.lock:
            self.drop_abandoned()
            if len(self.waiting) >= MOST_WAITING:
                raise QueueFull(f"{MOST_WAITING} runs wait for this device already; try later")
            self.waiting.append(job)
            if self.running is None:
                self.running = self.waiting.pop(0)
                self.thread = threading.Thread(
                    target=self.run_until_empty, name="real engine", daemon=True
                )
                self.thread.start()
        return job

    def position(self, job: Job) -> int:
        """The number of jobs that run or wait before this one; 0 once it runs or has ended."""
        with self.lock:
            self.drop_abandoned()
            if job not in self.waiting:
                return 0
            return self.waiting.index(job) + (self.running is not None)

    def drop_abandoned(self) -> None:
        """Drop waiting jobs without a session; called with the lock."""
        for job in [job for job in self.waiting if job.cancelled()]:
            self.waiting.remove(job)
            job.drop()

    def run_until_empty(self) -> None:
        """Run jobs until the queue is empty."""
        while self.running is not None:
            if self.running.cancelled():
                self.running.drop()
            else:
                self.running.run()
            with self.lock:
                self.running = self.next_wanted()

    def next_wanted(self) -> Job | None:
        """The next job whose session still exists."""
        while self.waiting:
            job = self.waiting.pop(0)
            if not job.cancelled() and time.monotonic() - job.last_polled_s <= self.abandoned_s:
                return job
            job.drop()
        return None

    def cancel_all(self) -> None:
        """Drop all waiting jobs; the running one ends before its next layer."""
        with self.lock:
            for job in (*self.waiting, *([self.running] if self.running else [])):
                job.cancel()


QUEUES: dict[torch.device, RunQueue] = {}
QUEUES_LOCK = threading.Lock()


def queue_for(device: Device) -> RunQueue:
    """The queue of this device, one per process."""
    with QUEUES_LOCK:
        return QUEUES.setdefault(device.torch_device, RunQueue())


@atexit.register
def stop_queues() -> None:
    """End the queues of all devices, and give their threads a moment to leave torch."""
    give_up = time.monotonic() + LEAVE_S
    for queue in QUEUES.values():
        queue.cancel_all()
    for queue in QUEUES.values():
        if queue.thread is not None:
            queue.thread.join(max(give_up - time.monotonic(), 0.0))

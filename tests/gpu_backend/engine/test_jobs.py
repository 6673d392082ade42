"""One run at a time on a device, the others in line, and nothing that brings the process down."""

import subprocess
import sys
import threading
from typing import Any

import pytest

from gpu_backend.device import OutOfMemory
from gpu_backend.engine.jobs import MOST_WAITING, Job, QueueFull, RunQueue, queue_for
from tests.gpu_backend.conftest import CPU

LONG = 30.0  # seconds to wait for what takes none


class Gate:
    """Work that continues when it is released."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, job: Job) -> str:
        self.begun.set()
        assert self.go.wait(LONG)
        return "done"


def test_one_runs_the_others_wait_in_line() -> None:
    queue, first, second = RunQueue(), Gate(), Gate()
    one, two, three = queue.submit(first), queue.submit(second), queue.submit(lambda job: 3)
    assert first.begun.wait(LONG)
    assert [job.poll() for job in (one, two, three)] == ["running", "waiting", "waiting"]
    assert [queue.position(job) for job in (one, two, three)] == [0, 1, 2]
    assert not second.begun.is_set()
    first.go.set()
    assert second.begun.wait(LONG)
    second.go.set()
    assert three.wait(LONG)
    assert [job.result for job in (one, two, three)] == ["done", "done", 3]
    assert three.status == "finished"


def test_cancel_while_waiting_and_while_running() -> None:
    queue, first = RunQueue(), Gate()
    one, two, three = queue.submit(first), queue.submit(Gate()), queue.submit(lambda job: 3)
    assert first.begun.wait(LONG)
    two.cancel()
    one.cancel()
    assert one.cancelled()
    first.go.set()
    assert three.wait(LONG)
    assert [job.status for job in (one, two, three)] == ["cancelled", "cancelled", "finished"]


def test_who_has_gone_is_not_waited_for() -> None:
    queue, first, left = RunQueue(), Gate(), threading.Event()
    one = queue.submit(first, left.is_set)
    two, three = queue.submit(Gate(), left.is_set), queue.submit(lambda job: 3)
    assert first.begun.wait(LONG)
    assert [queue.position(job) for job in (two, three)] == [1, 2]
    left.set()
    assert one.cancelled()
    assert queue.position(three) == 1  # the run that goes on ends before its next layer
    assert two.poll() == "cancelled"
    first.go.set()
    assert three.wait(LONG)
    assert [job.status for job in (one, two, three)] == ["cancelled", "cancelled", "finished"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("bad kernel\nlong story"), "the run failed: RuntimeError: bad kernel"),
        (OutOfMemory("9 GB of 4"), "out of memory: 9 GB of 4"),
        (MemoryError(), "out of memory: MemoryError"),
        (ValueError("no such model"), "no such model"),
    ],
)
def test_a_job_that_fails_leaves_the_line_alive(error: Exception, words: str) -> None:
    def fail(job: Job) -> Any:
        raise error

    queue = RunQueue()
    failed, after = queue.submit(fail), queue.submit(lambda job: "whole")
    assert after.wait(LONG)
    assert (failed.status, failed.error) == ("failed", words)
    assert after.result == "whole"


def test_the_line_has_an_end() -> None:
    queue, first = RunQueue(), Gate()
    queue.submit(first)
    jobs = [queue.submit(lambda job: None) for _ in range(MOST_WAITING)]
    with pytest.raises(QueueFull, match="try later"):
        queue.submit(lambda job: None)
    first.go.set()
    assert jobs[-1].wait(LONG)


def test_a_waiting_job_whose_reader_has_gone_is_dropped() -> None:
    queue, first = RunQueue(abandoned_s=0.0), Gate()
    queue.submit(first)
    forgotten = queue.submit(lambda job: "never")
    assert first.begun.wait(LONG)
    first.go.set()
    assert forgotten.wait(LONG)
    assert (forgotten.status, forgotten.result) == ("cancelled", None)


def test_a_device_has_one_line() -> None:
    assert queue_for(CPU) is queue_for(CPU)


LEAVING = """
import threading, torch
from gpu_backend.device import choose
from gpu_backend.engine.jobs import queue_for

begun = threading.Event()

def multiply(job):
    a = torch.randn(40, 40)
    while not job.cancelled():
        a = (a @ a).tanh()
        begun.set()

queue_for(choose(threads=1)).submit(multiply)
begun.wait()
"""


def test_a_process_that_ends_waits_until_its_run_is_out_of_torch() -> None:
    """Without that C++ ends it: "terminate called without an active exception"."""
    command = [sys.executable, "-c", LEAVING]
    ended = subprocess.run(command, capture_output=True, check=False, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, b"")

"""Compiled kernels in the serving process: loaded from the disk cache, never compiled.

Compiling takes tens of seconds and holds the interpreter lock, so another process does it
(`ui.prepare`). Until it is done, a page shows the runs that the set-up computed for its first
picture, with the same kernels run as plain Python; any other run waits, with its progress shown.
"""

import atexit
import fcntl
import hashlib
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba
import streamlit as st
from numba.core import event
from pydantic import BaseModel, ValidationError

import sim.core.compiled  # noqa: F401  (sets NUMBA_CACHE_DIR)

__all__ = [
    "NotCompiled",
    "Progress",
    "are_compiled",
    "computed_first",
    "end_of_first_picture",
    "lock",
    "progress",
    "serve_without_compiling",
    "set_progress",
    "show_progress",
    "wait_until_compiled",
]

STORE = "BATCHSCOPE_STORE_FIRST_RUNS"  # set by the set-up: keep what is computed
POLL_S = 1.0
UNREADABLE = (OSError, EOFError, ImportError, AttributeError, pickle.UnpicklingError)  # or absent
Value = TypeVar("Value")


class NotCompiled(RuntimeError):
    """A kernel that the serving process would have to compile."""


class Progress(BaseModel):
    """Parts compiled so far, of how many, and the last of them."""

    done: int = 0
    total: int = 0
    part: str = ""

    @property
    def complete(self) -> bool:
        return 0 < self.total <= self.done


# --- files beside the compiled code ---------------------------------------------------------------


def folder() -> Path:
    """Beside the compiled code, one per version of numba, which may not read another's."""
    path = Path(os.environ["NUMBA_CACHE_DIR"]) / f"prepared-{numba.__version__}"
    path.mkdir(parents=True, exist_ok=True)
    return path


def write(file: Path, content: bytes) -> None:
    """All of it or nothing."""
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as part:
        part.write(content)
    os.replace(part.name, file)


def progress() -> Progress:
    """How far the compiling process is; nothing done where none has started."""
    try:
        return Progress.model_validate_json((folder() / "progress.json").read_bytes())
    except (OSError, ValidationError):
        return Progress()


def set_progress(now: Progress) -> None:
    write(folder() / "progress.json", now.model_dump_json().encode())


def are_compiled() -> bool:
    return progress().complete


@contextmanager
def lock(*, wait: bool = False) -> Iterator[bool]:
    """Whether this process is the one that compiles. `wait`: until no other process does."""
    with open(folder() / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            yield False
            return
        yield True


# --- the serving process --------------------------------------------------------------------------


class Refuse(event.Listener):
    """Refuse to compile as long as another process does; `started` is the one of this server."""

    def __init__(self, started: subprocess.Popen[bytes] | None) -> None:
        self.started = started

    def on_start(self, event: Any) -> None:
        if not are_compiled() and self.is_being_compiled():
            raise NotCompiled(str(event.data["dispatcher"].py_func.__qualname__))

    def on_end(self, event: Any) -> None:
        """Nothing to do."""

    def is_being_compiled(self) -> bool:
        if self.started is not None and self.started.poll() is None:
            return True
        with lock() as free:
            return not free


GUARD: list[Refuse] = []  # the one of this process, once it serves


def serve_without_compiling() -> None:
    """From now on a kernel that is not on disk raises NotCompiled until the compiling process,
    which is started here where there is none, has ended."""
    if are_compiled() or getattr(numba.config, "DISABLE_JIT"):  # noqa: B009 (it is untyped)
        return
    with lock() as free:
        pass
    started = None
    if free:
        started = subprocess.Popen(
            [sys.executable, "-m", "ui.prepare", "--compile"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        atexit.register(started.terminate)
    GUARD.append(Refuse(started))
    event.register("numba:compile", GUARD[0])  # type: ignore[no-untyped-call]


def wait_until_compiled(cancelled: Callable[[], bool]) -> None:
    """Wait on the thread of a job, which cannot show a run of the set-up, until kernels are
    compiled, or the job is cancelled."""
    while GUARD and not are_compiled() and GUARD[0].is_being_compiled() and not cancelled():
        time.sleep(POLL_S)


def computed_first(name: str, key: str, compute: Callable[[], Value]) -> Value:
    """`compute()`. While kernels are compiled: what the set-up computed for this name and key;
    NotCompiled where it computed nothing for them."""
    digest = hashlib.sha256(f"{name}\0{key}".encode()).hexdigest()[:32]
    file = folder() / f"{digest}.pickle"
    if os.environ.get(STORE):
        value = compute()
        write(file, pickle.dumps(value))
        return value
    try:
        return compute()
    except NotCompiled as refused:
        try:
            found: Value = pickle.loads(file.read_bytes())  # written by the set-up
        except UNREADABLE:
            raise refused from None
        return found


def end_of_first_picture() -> None:
    """What a page runs from here on is not part of its first picture: the set-up stops here."""
    if os.environ.get(STORE):
        raise NotCompiled("not part of the first picture")


@st.fragment(run_every=POLL_S)
def show_progress() -> None:
    """In the place of a picture: what is compiled, how far it is. Runs the page again with each
    part."""
    now = progress()
    key = "parts compiled"
    if st.session_state.setdefault(key, now.done) != now.done:
        st.session_state[key] = now.done
        st.rerun()
    share = now.done / now.total if now.total else 0.0
    st.progress(
        share,
        f"The simulator is being compiled, once after an update: {now.done} of {now.total or '?'} "
        "parts are done. The presets that pages open with are ready; this run appears as soon as "
        "its part is.",
    )

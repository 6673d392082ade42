"""The compiled choice of the engine whose `schedule` plans a step.

Every file of this folder without a leading underscore, beside this one and the registry, is an
engine: its name is the engine's id, its place among the sorted names the engine's number. Numbers
are not stored; scenario files contain ids. Everything else about an engine is in registry.py, which
compiled code never reads."""

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from numba.extending import overload

from sim.core import scheduler_ops as ops
from sim.core.compiled import INNER, OPTIONS, njit, njit_inner
from sim.core.state import State

NO_ENGINES = ("dispatch", "registry")
KERNELS = tuple(
    file.stem
    for file in sorted(Path(__file__).parent.glob("*.py"))
    if not file.stem.startswith("_") and file.stem not in NO_ENGINES
)
SCHEDULES: tuple[Callable[[State, int], None], ...] = tuple(
    import_module(f"{__package__}.{name}").schedule for name in KERNELS
)

ANY = ()


def number_of(engine: str) -> int:
    """The number of an engine in `state.POLICY`."""
    return KERNELS.index(engine)


def only(engine: int) -> tuple[int, ...]:
    """The argument that tells `schedule_for` at compile time that every replica runs this
    engine."""
    return (0,) * (engine + 1)


def used(engines: Iterable[int]) -> tuple[int, ...]:
    """The same for a table of replicas: ANY if they run different engines."""
    kinds = {int(engine) for engine in engines}
    return only(kinds.pop()) if len(kinds) == 1 else ANY


@njit
def schedule(state: State, replica: int) -> None:
    """Plan one step of a replica into `plan`, `counters.num_scheduled`, `counters.stop_reason`."""
    schedule_for(state, replica, ANY)


@njit_inner
def schedule_for(state: State, replica: int, engines: tuple[int, ...]) -> None:
    """The same, compiled for one engine alone when `engines` is `only(engine)`."""
    ops.begin_step(state, replica)
    schedule_engine(state, replica, engines)


def schedule_engine(state: State, replica: int, engines: tuple[int, ...]) -> None:
    """Call the `schedule` of the replica's engine. Plain Python; compiled code has the overload."""
    SCHEDULES[state.policy[replica].engine](state, replica)


@overload(schedule_engine, jit_options=OPTIONS | INNER | {"cache": False})
def compile_schedule_engine(state, replica, engines):
    """Choose when a loop is compiled: the length of `engines` is part of its type.

    A loop over one engine calls that engine's kernel and compiles in a third of the time; a loop
    over any engine compares numbers. The choice is stored with the code that calls it, which numba
    keeps on disk; code that gets a function as an argument is never kept."""
    lines = ["def choose(state, replica, engines):", "    engine = state.policy[replica].engine"]
    if engines.count > 0:
        lines = [lines[0], f"    {KERNELS[engines.count - 1]}(state, replica)"]
    else:
        for number, name in enumerate(KERNELS):
            lines += [f"    if engine == {number}:", f"        {name}(state, replica)"]
    namespace: dict[str, Any] = dict(zip(KERNELS, SCHEDULES, strict=True))
    exec("\n".join(lines), namespace)
    return namespace["choose"]

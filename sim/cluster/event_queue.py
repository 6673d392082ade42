"""What happens next: a binary heap of timers.

At one instant steps end first, then whatever comes from outside happens, then steps begin: a
policy plans with all that is known by then."""

import numpy as np

from sim.cluster.cluster_state import STEP_BEGINS, STEP_ENDS, World
from sim.core.compiled import njit_inline, njit_inner


@njit_inline
def _rank(kind: int) -> int:
    if kind == STEP_ENDS:
        return 0
    return 2 if kind == STEP_BEGINS else 1


@njit_inner
def _earlier(one, other) -> bool:
    if one.time_s != other.time_s:
        return one.time_s < other.time_s
    if one.kind != other.kind:
        first, second = _rank(one.kind), _rank(other.kind)
        if first != second:
            return first < second
    if one.since_s != other.since_s:
        return one.since_s < other.since_s
    return one.subject < other.subject


@njit_inner
def _swap(timers, a: int, b: int) -> None:
    time_s, since_s = timers[a].time_s, timers[a].since_s
    subject, kind = timers[a].subject, timers[a].kind
    timers[a] = timers[b]
    timers[b].time_s, timers[b].since_s = time_s, since_s
    timers[b].subject, timers[b].kind = subject, kind


@njit_inner
def set_timer(world: World, time_s: float, since_s: float, subject: int, kind: int) -> None:
    timers, clock = world.timers, world.clock[0]
    place = clock.num_timers
    clock.num_timers += 1
    timer = timers[place]
    timer.time_s, timer.since_s, timer.subject, timer.kind = time_s, since_s, subject, kind
    while place > 0 and _earlier(timers[place], timers[(place - 1) // 2]):
        _swap(timers, place, (place - 1) // 2)
        place = (place - 1) // 2


@njit_inner
def drop_first_timer(world: World) -> None:
    timers, clock = world.timers, world.clock[0]
    clock.num_timers -= 1
    length = clock.num_timers
    timers[0] = timers[length]
    place = 0
    while 2 * place + 1 < length:
        child = 2 * place + 1
        if child + 1 < length and _earlier(timers[child + 1], timers[child]):
            child += 1
        if not _earlier(timers[child], timers[place]):
            break
        _swap(timers, child, place)
        place = child


@njit_inline
def first_timer_s(world: World) -> float:
    """Time of the first timer, inf without one."""
    return world.timers[0].time_s if world.clock[0].num_timers > 0 else np.inf

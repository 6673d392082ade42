"""What happens to a server from outside, and when: arrivals, closed loops, clients that go away.

Requests that arrive on their own stand in the table in order of time; all else is a timer in a
binary heap by (time, request).
"""

from typing import NamedTuple

import numpy as np

from sim import kv_cache as kv
from sim import moves, reasons
from sim.compiled import njit_inner
from sim.requests import Table
from sim.state import State

# Something that will happen at a time: a binary heap by (time, request).
TIMER = np.dtype([("time_s", np.float64), ("request", np.int64), ("kind", np.int64)], align=True)
ARRIVAL_TIMER, ABORT_TIMER = range(2)

# A closed loop: requests next .. end-1 are yet to be released, one whenever another one ends.
LOOP = np.dtype([("next", np.int64), ("end", np.int64), ("think_s", np.float64)], align=True)

CLOCK = np.dtype(
    [
        ("horizon_s", np.float64),
        ("max_steps", np.int64),
        ("next_arrival", np.int64),  # next row of the request table to arrive on its own
        ("num_arrivals", np.int64),  # rows that do; those behind them are released by loops
        ("num_timers", np.int32),
        ("stuck_request", np.int32),
        ("record_items", np.int32),
        ("replica", np.int64),  # whose turn it is; a constant would compile every callee once more
    ],
    align=True,
)


class World(NamedTuple):
    """What the loop knows beyond the scheduler's state: clocks, timers, and how long a step
    takes.
    """

    clock: Table  # (1,)
    latency: Table  # (R,) latency.LATENCY rows
    timers: Table
    loops: Table
    flags: np.ndarray  # (S,) zeros: a simulated executor ends no request on its own


# --- timers --------------------------------------------------------------------------------------


@njit_inner
def _earlier(one, other) -> bool:
    if one.time_s != other.time_s:
        return one.time_s < other.time_s
    return one.request < other.request


@njit_inner
def set_timer(world: World, time_s: float, r: int, kind: int) -> None:
    timers, clock = world.timers, world.clock[0]
    place = clock.num_timers
    clock.num_timers += 1
    timers[place].time_s, timers[place].request, timers[place].kind = time_s, r, kind
    while place > 0 and _earlier(timers[place], timers[(place - 1) // 2]):
        _swap(timers, place, (place - 1) // 2)
        place = (place - 1) // 2


@njit_inner
def _swap(timers, a: int, b: int) -> None:
    time_s, r, kind = timers[a].time_s, timers[a].request, timers[a].kind
    timers[a] = timers[b]
    timers[b].time_s, timers[b].request, timers[b].kind = time_s, r, kind


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


# --- arrivals ------------------------------------------------------------------------------------


@njit_inner
def next_happening(state: State, world: World) -> float:
    """Time of the next arrival or abort; inf when nothing is to come."""
    clock = world.clock[0]
    soonest = np.inf
    if clock.next_arrival < clock.num_arrivals:
        soonest = state.requests[clock.next_arrival].arrival_s
    if clock.num_timers > 0:
        soonest = min(soonest, world.timers[0].time_s)
    return soonest


@njit_inner
def deliver(state: State, world: World, replica: int, now_s: float) -> None:
    """Let everything happen that is due by `now_s`: arrivals in order of time, aborts."""
    clock = world.clock[0]
    while True:
        arrival_s = np.inf
        if clock.next_arrival < clock.num_arrivals:
            arrival_s = state.requests[clock.next_arrival].arrival_s
        timer_s = world.timers[0].time_s if clock.num_timers > 0 else np.inf
        if min(arrival_s, timer_s) > now_s:
            return
        if arrival_s <= timer_s:
            clock.next_arrival += 1
            arrive(state, world, replica, clock.next_arrival - 1)
            continue
        r, kind = world.timers[0].request, world.timers[0].kind
        drop_first_timer(world)
        if kind == ARRIVAL_TIMER:
            arrive(state, world, replica, r)
        elif moves.abort(state, r, now_s):
            release_next(state, world, r, now_s)


@njit_inner
def arrive(state: State, world: World, replica: int, r: int) -> None:
    """The front end takes a request, or refuses one that can never run, as the engine's does."""
    request = state.requests[r]
    request.rejection = refusal(state, replica, r)
    if request.rejection == reasons.NOT_REJECTED:
        moves.add(state, replica, r)
        if request.abort_after_s < np.inf:
            set_timer(world, request.arrival_s + request.abort_after_s, r, ABORT_TIMER)
        return
    request.status = reasons.REJECTED
    request.end_s = request.arrival_s
    release_next(state, world, r, request.arrival_s)


@njit_inner
def refusal(state: State, replica: int, r: int) -> int:
    """Why `r` can never run, NOT_REJECTED if it can. Limits of 0 are off."""
    request, policy = state.requests[r], state.policy[replica]
    usable = policy.num_gpu_blocks - 1
    if policy.watermark_always:
        usable -= policy.watermark_blocks
    most_outputs = min(request.max_tokens, policy.max_model_len - request.prompt_len)
    if request.prompt_len >= policy.max_model_len:
        return reasons.REJECT_MODEL_LEN
    if 0 < policy.max_prompt_len < request.prompt_len:
        return reasons.REJECT_TOKEN_BUDGET
    if kv.blocks_for(request.prompt_len, policy.block_size) > usable:
        return reasons.REJECT_KV_POOL
    if 0 < policy.max_request_len < request.prompt_len + most_outputs:
        return reasons.REJECT_REQUEST_KV
    return reasons.NOT_REJECTED


@njit_inner
def release_next(state: State, world: World, r: int, now_s: float) -> None:
    """In a closed loop the user whose request `r` ended thinks, then sends the next one."""
    if state.requests[r].loop < 0:
        return
    loop = world.loops[state.requests[r].loop]
    if loop.next < loop.end:
        state.requests[loop.next].arrival_s = now_s + loop.think_s
        set_timer(world, now_s + loop.think_s, loop.next, ARRIVAL_TIMER)
        loop.next += 1

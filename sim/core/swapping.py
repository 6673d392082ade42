"""Requests whose KV lies in host memory: a stack, and how many host blocks are free.

Victims are the last to have arrived and nobody is admitted while somebody is swapped out, so the
last one out is the one that arrived first: returning it first is first come, first served.
"""

from sim.core import reasons
from sim.core.compiled import njit_inner
from sim.core.state import State


@njit_inner
def push(state: State, replica: int, r: int, blocks: int) -> None:
    """The KV of `r` moves to `blocks` blocks of host memory."""
    request, counters = state.requests[r], state.counters[replica]
    request.num_host_blocks = blocks
    request.status = reasons.SWAPPED
    counters.num_free_host_blocks -= blocks
    state.swapped[replica, counters.num_swapped] = r
    counters.num_swapped += 1


@njit_inner
def remove(state: State, replica: int, r: int) -> None:
    """`r` leaves host memory: it returns, or its client went away."""
    counters, swapped = state.counters[replica], state.swapped[replica]
    place = counters.num_swapped - 1
    while swapped[place] != r:
        place -= 1
    for k in range(place, counters.num_swapped - 1):
        swapped[k] = swapped[k + 1]
    counters.num_swapped -= 1
    counters.num_free_host_blocks += state.requests[r].num_host_blocks

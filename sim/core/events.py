"""The two records that kernels write in many places: an event, and a gap between two tokens."""

from sim.core.compiled import njit_inline
from sim.core.state import State


@njit_inline
def note(state: State, r: int, kind: int, value: int, limit: int) -> None:
    """Write down what happened to `r` in the step at hand (see reasons.EVENTS)."""
    log = state.log[0]
    event = state.events[log.num_events]
    event.step = log.num_steps
    event.request = r
    event.kind = kind
    event.value = value
    event.limit = limit
    log.num_events += 1


@njit_inline
def write_gap(gaps, log, step: int, r: int, seconds: float) -> None:
    """Write down a gap that `r` had in the step in row `step`."""
    gap = gaps[log.num_gaps]
    gap.step = step
    gap.request = r
    gap.count = 1
    gap.seconds = seconds
    log.num_gaps += 1

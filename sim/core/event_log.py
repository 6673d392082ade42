"""The records that kernels write one by one: events of requests, and gaps between two tokens."""

from sim.core.compiled import njit_inline
from sim.core.state import State


@njit_inline
def record_event(state: State, r: int, kind: int, value: int, limit: int) -> None:
    """Record what happened to `r` in the current step; see reasons.EVENTS for the numbers."""
    log = state.log[0]
    event = state.events[log.num_events]
    event.step = log.num_steps
    event.request = r
    event.kind = kind
    event.value = value
    event.limit = limit
    log.num_events += 1


@njit_inline
def record_refusal(state: State, r: int, kind: int, needed: int, available: int) -> None:
    """Record why `r` gets no tokens in the current step: it needed more than was available."""
    record_event(state, r, kind, needed, available)


@njit_inline
def record_gap(gaps, log, step: int, r: int, seconds: float) -> None:
    """Record a gap between two tokens of `r` that the step in row `step` ended."""
    gap = gaps[log.num_gaps]
    gap.step = step
    gap.request = r
    gap.count = 1
    gap.seconds = seconds
    log.num_gaps += 1

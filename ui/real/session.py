"""What this browser session has of the engine: the run it waits for, the runs it looks at."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from sim.results.words import plural
from ui.real.plan import Plan
from ui.real.work import Ran, Ticket

TICKET, DONE, PROBLEM = "real_ticket", "real_done", "real_problem"


@dataclass
class Done:
    """Runs that ended, and what they are compared with: a first guess, or a calibration."""

    plan: Plan
    ran: Sequence[Ran]
    comparisons: list[Any] = field(default_factory=list)
    first_guess: list[Any] = field(default_factory=list)  # before any calibration
    calibrated: Any = None
    refused: str | None = None  # why the last calibration was

    def __post_init__(self) -> None:
        from gpu_backend.run import compare

        self.comparisons = self.first_guess = [compare(one.run) for one in self.ran]

    def use(self, calibrated: Any, times_of: Callable[[Any], Any]) -> None:
        """Simulate again with what was fitted."""
        from gpu_backend.run import compare

        self.calibrated, self.refused = calibrated, None
        self.comparisons = [compare(one.run, times_of(calibrated)) for one in self.ran]


def ticket() -> Ticket | None:
    """The run that this session waits for."""
    found: Ticket | None = st.session_state.get(TICKET)
    return found


def done() -> Done | None:
    """The last runs that came to an end."""
    found: Done | None = st.session_state.get(DONE)
    return found


def problem() -> str | None:
    """Why the last run gave nothing to look at."""
    found: str | None = st.session_state.get(PROBLEM)
    return found


def start(found: Ticket) -> None:
    st.session_state[TICKET] = found
    st.session_state[PROBLEM] = None


def end(found: Ticket) -> None:
    """A run has ended: what it left, or why it left nothing."""
    st.session_state[TICKET] = None
    job = found.job
    ran: list[Ran] = job.result or []
    good = [one for one in ran if one.run.served.error is None and len(one.run.recording.steps)]
    if job.error is not None:
        st.session_state[PROBLEM] = f"The run did not start: {job.error}."
    elif ran and ran[-1].run.served.error is not None:
        st.session_state[PROBLEM] = f"The run ended in an error: {ran[-1].run.served.error}."
    elif job.status == "cancelled":
        steps = sum(len(one.run.recording.steps) for one in ran)
        after = plural(steps, "step")
        st.session_state[PROBLEM] = f"Cancelled after {after}. Nothing is kept of it."
    elif ran and ran[-1].run.recording.status != "finished":
        st.session_state[PROBLEM] = f"The run did not finish: {ran[-1].run.recording.reason}."
    if good and job.status == "finished":
        st.session_state[DONE] = Done(found.plan, good)

"""Predict first: one question before the first drag, one click, then the answer. Never twice."""

from dataclasses import replace

import streamlit as st

from ui import state
from ui.choice import Run, other_budget
from ui.timeline import Button, Question
from ui.timeline.dials import Dials
from ui.units import count, seconds

PREFIX = "predict:"
SAME = 0.02  # relative; a gap that changes by less stays
ANSWERS = (
    Button(PREFIX + "rises", "It rises"),
    Button(PREFIX + "falls", "It falls"),
    Button(PREFIX + "stays", "It stays"),
    Button(PREFIX + "skip", "Skip"),
)
ASK, ANSWERED, DONE = "ask", "answered", "done"


def question(run: Run, worst_gap_s: float | None, can_ask: bool) -> Question | None:
    """What to show now, None once it is over. `can_ask`: a picture stands and nothing is pinned."""
    stage, answer, before = st.session_state.get("prediction", (ASK, "", 0.0))
    if stage == ASK and can_ask:
        budget, now = count(other_budget(run.dials.budget)), count(run.dials.budget)
        text = f" With a budget of {budget} tokens instead of {now}, the longest wait for a token:"
        return Question([("Predict first.", True), (text, "")], ANSWERS)
    if stage == ANSWERED and worst_gap_s is not None:
        return Question(verdict(answer, before, worst_gap_s), (Button(PREFIX + "skip", "Done"),))
    return None


def verdict(answer: str, before: float, now: float) -> list[tuple[str, str | bool]]:
    """Whether the prediction held, with the figures."""
    fact = "stays" if abs(now - before) <= SAME * before else "rises" if now > before else "falls"
    figures = f"from {seconds(before)} to {seconds(now)}"
    tone = {"falls": "decode", "rises": "stall", "stays": ""}[fact]
    said = "As you predicted: it" if answer == fact else f"You said it {answer}. It"
    return [(f"{said} ", ""), (f"{fact}, {figures}", tone), (". Both runs stand below.", "")]


def take(action: str, worst_gap_s: float | None) -> None:
    """A click on an answer pins the run and moves the dial: the picture is the answer."""
    answer = action.removeprefix(PREFIX)
    if answer == "skip" or worst_gap_s is None:
        st.session_state["prediction"] = (DONE, "", 0.0)
        return
    current = state.run()
    state.change(
        replace(current, dials=Dials(other_budget(current.dials.budget), current.dials.cap))
    )
    state.pin(current)
    st.session_state["prediction"] = (ANSWERED, answer, worst_gap_s)


def over() -> None:
    """The reader moved on: no question any more."""
    st.session_state["prediction"] = (DONE, "", 0.0)


def asking() -> bool:
    """Is the question still open?"""
    return bool(st.session_state.get("prediction", (ASK,))[0] == ASK)

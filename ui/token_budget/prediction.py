"""Predict first: one question before the first drag, one click, then the answer. Asked once."""

from dataclasses import dataclass, replace

from ui.scenarios.run import Dials, Run
from ui.shell import session
from ui.shell.session import kept
from ui.text.suggested_fixes import Button
from ui.text.units import count, seconds
from ui.timeline import Question
from ui.token_budget.variants import other_budget

PREFIX = "predict:"
SAME = 0.02  # relative; a gap that changes by less counts as the same
ANSWERS = (
    Button(PREFIX + "rises", "It rises"),
    Button(PREFIX + "falls", "It falls"),
    Button(PREFIX + "stays", "It stays"),
    Button(PREFIX + "skip", "Skip"),
)
ASK, ANSWERED, DONE = "ask", "answered", "done"


@dataclass
class Prediction:
    """`before_s`: the longest gap before the answer."""

    stage: str = ASK
    answer: str = ""
    before_s: float = 0.0


def question(run: Run, worst_gap_s: float | None, can_ask: bool) -> Question | None:
    """What to show now, None once it is over. `can_ask`: there is a picture and nothing pinned."""
    now = kept(Prediction)
    if now.stage == ASK and can_ask:
        other, budget = count(other_budget(run.dials.budget)), count(run.dials.budget)
        text = (
            f" With a budget of {other} tokens instead of {budget}, the longest wait for a token:"
        )
        return Question([("Predict first.", True), (text, "")], ANSWERS)
    if now.stage == ANSWERED and worst_gap_s is not None:
        answer = verdict(now.answer, now.before_s, worst_gap_s)
        return Question(answer, (Button(PREFIX + "skip", "Done"),))
    return None


def verdict(answer: str, before: float, now: float) -> list[tuple[str, str | bool]]:
    """Whether the prediction held, with the figures."""
    fact = "stays" if abs(now - before) <= SAME * before else "rises" if now > before else "falls"
    figures = f"from {seconds(before)} to {seconds(now)}"
    tone = {"falls": "decode", "rises": "stall", "stays": ""}[fact]
    start = "As you predicted, it" if answer == fact else f"You predicted that it {answer}. It"
    return [(f"{start} ", ""), (f"{fact}, {figures}", tone), (". Both runs are shown below.", "")]


def take(action: str, worst_gap_s: float | None) -> None:
    """A click on an answer pins the run and moves the dial: the picture is the answer."""
    answer = action.removeprefix(PREFIX)
    if answer == "skip" or worst_gap_s is None:
        end()
        return
    run, state = session.run(), kept(Prediction)
    session.change(replace(run, dials=Dials(other_budget(run.dials.budget), run.dials.cap)))
    session.pin(run)
    state.stage, state.answer, state.before_s = ANSWERED, answer, worst_gap_s


def end() -> None:
    """No question any more."""
    kept(Prediction).stage = DONE


def asking() -> bool:
    """Is the question still open?"""
    return kept(Prediction).stage == ASK

"""What a refused scenario says on a page, and the buttons that change it into one that runs."""

import re
from dataclasses import dataclass

from sim.scenario.load import ScenarioError
from ui.scenarios.settings import Settings
from ui.text.units import count

PRESET, SEQS_AUTO, CHUNKING_ON, LENGTH, BUDGET = (
    "preset", "seqs_auto", "chunking_on", "length", "budget",
)  # fmt: skip
PATH = re.compile(r"^replicas\[\d+\](\.policy)?(\.|: )")


@dataclass(frozen=True)
class Button:
    """A button of the timeline; its id comes back as the timeline's answer."""

    id: str
    label: str


@dataclass(frozen=True)
class Problem:
    """Why there is no new picture, in the engine's words, and the suggested fixes."""

    text: str
    cures: tuple[Button, ...] = ()


BACK_TO_PRESET = Button(PRESET, "Back to the preset")


def problem(error: ScenarioError, settings: Settings, budget: int, max_model_len: int) -> Problem:
    """The engine's sentence with suggested fixes. `max_model_len`: 0 where it is not known."""
    text = without_path(error.problems[0])
    fixes: list[Button] = []
    if "max_num_seqs" in text and settings.max_num_seqs is not None:
        fixes.append(Button(SEQS_AUTO, "Set max_num_seqs to auto"))
        if budget < settings.max_num_seqs:
            fixes.append(raise_budget(settings.max_num_seqs))
    elif "chunked prefill off" in text:
        fixes.append(Button(CHUNKING_ON, "Turn chunking on"))
        if max_model_len:
            fixes.append(raise_budget(max_model_len))
        fixes.append(lower_length(budget))
    elif room := re.search(r"max_model_len to at most ([1-9]\d*)", text):
        fixes.append(lower_length(int(room.group(1))))
    return Problem(text, (*fixes, BACK_TO_PRESET))


def raise_budget(least: int) -> Button:
    return Button(f"{BUDGET}:{least}", f"Raise the budget to {count(least)}")


def lower_length(most: int) -> Button:
    return Button(f"{LENGTH}:{most}", f"Lower max_model_len to {count(most)}")


def without_path(problem: str) -> str:
    """A problem of a scenario without the path to the replica's policy: a page has one server."""
    return PATH.sub("", problem)


def refusal(error: ScenarioError) -> str:
    """All problems of a scenario in one line."""
    return " ".join(map(without_path, error.problems))

"""What a refused scenario says on a page, and the buttons that change it into one that runs."""

import re
from dataclasses import dataclass

from sim.validation.errors import ScenarioError
from ui.scenarios.settings import Settings
from ui.text.units import count

PRESET, SEQS_AUTO, CHUNKING_ON, LENGTH, BUDGET = (
    "preset", "seqs_auto", "chunking_on", "length", "budget",
)  # fmt: skip
TOO_MANY_SEQS = ("budget_below_max_num_seqs", "block_table_too_large")
TOO_LONG = ("kv_cache_too_small", "max_model_len_above_model")
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
    fixes: tuple[Button, ...] = ()


BACK_TO_PRESET = Button(PRESET, "Back to the preset")


def problem(error: ScenarioError, settings: Settings, budget: int) -> Problem:
    """The engine's sentence with suggested fixes, chosen by the code of the refusal."""
    fixes: list[Button] = []
    limit = int(error.limit or 0)
    seqs = settings.max_num_seqs
    if seqs is not None and (error.code in TOO_MANY_SEQS or error.field.endswith("max_num_seqs")):
        fixes.append(Button(SEQS_AUTO, "Set max_num_seqs to auto"))
        if budget < seqs:
            fixes.append(raise_budget(seqs))
    elif error.code == "budget_below_max_model_len":
        fixes += [Button(CHUNKING_ON, "Turn chunking on"), raise_budget(limit)]
        fixes.append(lower_length(budget))
    elif error.code in TOO_LONG and limit >= 1:
        fixes.append(lower_length(limit))
    return Problem(without_path(error.problems[0]), (*fixes, BACK_TO_PRESET))


def raise_budget(least: int) -> Button:
    return Button(f"{BUDGET}:{least}", f"Raise the budget to {count(least)}")


def lower_length(most: int) -> Button:
    return Button(f"{LENGTH}:{most}", f"Lower max_model_len to {count(most)}")


def without_path(problem: str) -> str:
    """A problem of a scenario without the path to the replica's policy: a page has one server."""
    return PATH.sub("", problem)


def refusal(error: ValueError) -> str:
    """What is refused, in one line."""
    problems = error.problems if isinstance(error, ScenarioError) else (str(error),)
    return " ".join(map(without_path, problems))

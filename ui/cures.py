"""What a refused scenario says to the reader, and the buttons that mend it."""

import re

from sim.scenario.load import ScenarioError
from ui.settings import Settings
from ui.timeline import Button, Problem
from ui.units import count

PRESET = Button("preset", "Back to the preset")


def problem(error: ScenarioError, settings: Settings, budget: int, max_model_len: int) -> Problem:
    """The engine's sentence with the ways out of it. `max_model_len` as far as it is known."""
    text = re.sub(r"^replicas\[0\]\.(policy: )?", "", error.problems[0])
    cures: list[Button] = []
    if "max_num_seqs" in text and settings.max_num_seqs is not None:
        cures.append(Button("seqs_auto", "Set max_num_seqs to auto"))
        if budget < settings.max_num_seqs:
            cures.append(budget_cure(settings.max_num_seqs))
    elif "chunked prefill off" in text:
        cures.append(Button("chunking_on", "Turn chunking on"))
        if max_model_len:
            cures.append(budget_cure(max_model_len))
        cures.append(Button(f"length:{budget}", f"Lower max_model_len to {count(budget)}"))
    elif room := re.search(r"max_model_len to at most ([1-9]\d*)", text):
        length = int(room.group(1))
        cures.append(Button(f"length:{length}", f"Lower max_model_len to {count(length)}"))
    return Problem(text, (*cures, PRESET))


def budget_cure(least: int) -> Button:
    """Raise the budget to `least`."""
    return Button(f"budget:{least}", f"Raise the budget to {count(least)}")

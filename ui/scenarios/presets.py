"""The presets of the pages: a scenario file of examples/ each, and what its button says."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sim.scenario.load import Scenario, load_scenario

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Preset:
    """A button and the scenario behind it."""

    id: str
    label: str


TOKEN_BUDGET = (
    Preset("four_chats_one_document", "Chats + one long document"),
    Preset("four_chats_one_document_h100", "The same on an H100"),
    Preset("burst", "Burst"),
    Preset("rag", "Retrieval"),
    Preset("code_completion", "Code completion"),
    Preset("toy_16_requests", "16-request toy"),
    Preset("budget_16_four_decodes_48_prompt", "16 / 4 / 48"),
    Preset("one_long_four_short_2048", "2,048 against 8,192"),
)
BESIDE = {"one_long_four_short_2048": 8192}  # presets that come with a pinned run: its budget
YOUR_TRACE = Preset("your_trace", "Your trace…")


@cache
def scenario_of(preset_id: str) -> Scenario:
    """The scenario of a preset; an upload starts from the first preset's server."""
    if preset_id == YOUR_TRACE.id:
        preset_id = TOKEN_BUDGET[0].id
    return load_scenario(EXAMPLES / f"{preset_id}.json")

"""The choices of a session as frozen values: a run, the run pinned beside it, their file.

A run is a preset with changed settings. ui.shell.permalink writes a choice as an address,
ui.shell.session keeps it. This module does not import Streamlit.
"""

from dataclasses import dataclass

from sim.scenario.load import Scenario
from ui.scenarios import presets
from ui.scenarios.settings import Settings, apply, settings_of, vllm_v1, with_file

BUDGET_LEAST, BUDGET_MOST = 16, 16_384
CAP_LEAST, CAP_MOST = 16, 8_192
MOST_REQUESTS = 20_000  # of a file on a page; the command line takes every row


@dataclass(frozen=True)
class Dials:
    """The two dials: tokens per step, and tokens per request and step (0: off)."""

    budget: int
    cap: int


@dataclass(frozen=True)
class Run:
    """A preset, the settings and the two dials."""

    preset: str
    settings: Settings
    dials: Dials

    def scenario(self, base: Scenario) -> Scenario:
        """The scenario of this run. ScenarioError for an impossible value."""
        return apply(base, self.settings, self.dials.budget, self.dials.cap)


@dataclass(frozen=True)
class UploadRef:
    """A file by name and content, and the rate to draw arrivals with where it has no times."""

    name: str
    sha256: str
    rate_per_s: float | None = None


@dataclass(frozen=True)
class Upload:
    """A file of this browser session with its content."""

    name: str
    sha256: str
    content: bytes
    rate_per_s: float | None

    def scenario(self, server: Scenario) -> Scenario:
        """The requests of the file on the server of another scenario."""
        return with_file(server, self.name, self.sha256, MOST_REQUESTS, self.rate_per_s)


@dataclass(frozen=True)
class Choice:
    """All that a link carries of a run: the one looked at, the pinned one, the file of both."""

    run: Run
    pinned: Run | None = None
    upload: UploadRef | None = None


def start_of(preset_id: str, base: Scenario | None = None) -> Run:
    """A preset as it is."""
    scenario = base or presets.scenario_of(preset_id)
    policy = vllm_v1(scenario.replicas[0].policy)
    budget = policy.max_num_batched_tokens or BUDGET_MOST // 2
    dials = Dials(budget, policy.long_prefill_token_threshold)
    return Run(preset_id, settings_of(scenario), dials)

"""What a reader looks at, as frozen values: a run, the run pinned beside it, the file behind them.

A run is a preset and what was changed in it; ui.link writes a choice as an address, ui.state keeps
it in the session. Nothing here knows Streamlit's session.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sim.scenario.load import Scenario
from ui import presets
from ui.settings import Settings, apply, settings_of, with_file
from ui.timeline.dials import BUDGET_MOST, Dials
from ui.units import count

RANDOM_ARRIVALS = ("poisson", "gamma")
RANDOM_LENGTHS = ("uniform", "lognormal", "empirical")
MOST_REQUESTS = 20_000  # of a file on a page; the command line takes every row
SMALL, LARGE = 512, 8192  # the budgets that a click compares


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


@dataclass(frozen=True)
class Variant:
    """A run to compare with, one click away."""

    id: str
    label: str
    run: Run


def start_of(preset_id: str, base: Scenario | None = None) -> Run:
    """A preset as it is."""
    scenario = base or presets.scenario_of(preset_id)
    policy = scenario.replicas[0].policy
    budget = policy.max_num_batched_tokens or LARGE
    dials = Dials(budget, policy.long_prefill_token_threshold)
    return Run(preset_id, settings_of(scenario), dials)


def other_budget(budget: int) -> int:
    """The budget to compare one with: small for a large one, large for a small one."""
    if budget < 64:  # a toy's
        return budget * 4
    return SMALL if budget > SMALL else LARGE


def variants(run: Run, base: Scenario, max_model_len: int) -> Sequence[Variant]:
    """What one click compares the run with. `max_model_len`: of the run, 0 where unknown."""
    settings, dials = run.settings, run.dials
    found = []
    if settings.chunking:
        budget = max(dials.budget, max_model_len)
        if budget <= BUDGET_MOST:
            whole = replace(settings, chunking=False)
            found.append(
                Variant(
                    "chunking", "chunking off", replace(run, settings=whole, dials=Dials(budget, 0))
                )
            )
    else:
        found.append(
            Variant(
                "chunking", "chunking on", replace(run, settings=replace(settings, chunking=True))
            )
        )
    budget = other_budget(dials.budget)
    if budget >= (settings.max_num_seqs or 0) and (settings.chunking or budget >= max_model_len):
        found.append(
            Variant(
                "budget", f"budget {count(budget)}", replace(run, dials=Dials(budget, dials.cap))
            )
        )
    if is_drawn(base):
        seed = settings.seed + 1
        found.append(
            Variant("seed", f"seed {seed}", replace(run, settings=replace(settings, seed=seed)))
        )
    return found


def is_drawn(scenario: Scenario) -> bool:
    """Does another seed give other requests?"""
    workload = scenario.workload
    if workload.file is not None:
        return workload.rate_per_s is not None
    return any(
        spec.arrivals.kind in RANDOM_ARRIVALS
        or spec.prompt.kind in RANDOM_LENGTHS
        or spec.output.kind in RANDOM_LENGTHS
        for spec in workload.classes or ()
    )

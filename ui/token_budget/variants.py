"""Runs to compare with, one click away."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sim.scenario.load import Scenario
from ui.scenarios.run import BUDGET_MOST, Dials, Run
from ui.text.units import count

RANDOM_ARRIVALS = ("poisson", "gamma")
RANDOM_LENGTHS = ("uniform", "lognormal", "empirical")
SMALL, LARGE = 512, 8192  # the budgets that a click compares


@dataclass(frozen=True)
class Variant:
    """A run to compare with, one click away."""

    id: str
    label: str
    run: Run


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

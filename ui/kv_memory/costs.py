"""Recompute against swap, and what a generous max_tokens costs: computed, with the sentences about
them. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sim.engines.knobs.translation import knobs_under
from sim.engines.registry import DEFAULT_ENGINE, ENGINES, engine_spec
from sim.hardware import catalog
from sim.latency import inputs as latency_inputs
from sim.latency.efficiency import efficiency
from sim.latency.model import step_seconds
from sim.latency.roofline import decode_step, mixed_step, prefill_step
from sim.results.provenance import outside, provenance, step_times
from sim.results.run import simulate
from sim.scenario.load import Scenario, parse_scenario
from ui.text.units import count, seconds

LENGTHS = (16, 32, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288,
           16384, 24576, 32768)  # fmt: skip
CLAIMED = 4096  # "recompute is always cheaper below"
FACTORS = (1, 4, 16)
BLOCK = 16
BATCH, CONTEXT = 32, 1024  # of the decodes that a recomputation may share its step with


@dataclass(frozen=True)
class Curve:
    """Seconds for each of `lengths` tokens of a victim: to compute them again, to swap them out
    and in."""

    lengths: tuple[int, ...]
    recompute_s: tuple[float, ...]
    swap_s: tuple[float, ...]
    crossovers: tuple[int, ...]  # token counts at which the cheaper one changes

    def cheaper(self, k: int) -> str:
        return "recompute" if self.recompute_s[k] < self.swap_s[k] else "swap"


def curve(
    model: catalog.Model, gpu: catalog.Gpu, tp: int, link: catalog.Link, shared: bool
) -> Curve:
    """Both costs over the lengths. Each GPU moves its shard over its own host link, both ways."""
    row = latency_inputs.roofline(model, gpu, "bf16", tp, "auto")
    again = tuple(recompute_s(row, n, shared) for n in LENGTHS)
    moved = tuple(swap_s(row, link, n) for n in LENGTHS)
    return Curve(LENGTHS, again, moved, crossovers(row, link, shared))


def recompute_s(row: Any, tokens: int, shared: bool) -> float:
    """A step that computes nothing but these tokens; `shared`: by how much they lengthen a step
    that reads the weights for others anyway."""
    if not shared:
        return float(step_seconds(row, prefill_step(tokens)))
    together = step_seconds(row, mixed_step(tokens, BATCH, CONTEXT))
    return float(together - step_seconds(row, decode_step(BATCH, CONTEXT)))


def swap_s(row: Any, link: catalog.Link, tokens: int) -> float:
    """Whole blocks out, and in again."""
    size = -(-tokens // BLOCK) * BLOCK * float(row.kv_bytes_per_token)
    return 2 * (size / link.bandwidth + link.latency_s)


def crossovers(row: Any, link: catalog.Link, shared: bool) -> tuple[int, ...]:
    """Where the cheaper of both changes, found by halving between neighbouring lengths."""

    def recompute_wins(n: int) -> bool:
        return recompute_s(row, n, shared) < swap_s(row, link, n)

    found = []
    for left, right in pairwise(LENGTHS):
        first = recompute_wins(left)
        if first == recompute_wins(right):
            continue
        low, high = left, right
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if recompute_wins(middle) == first else (low, middle)
        found.append(high)
    return tuple(found)


def verdict(found: Curve, where: str) -> str:
    """Is recompute always cheaper below 4k tokens? With the numbers at 4,096."""
    below = [k for k, n in enumerate(found.lengths) if n <= CLAIMED]
    wins = [found.cheaper(k) == "recompute" for k in below]
    k = found.lengths.index(CLAIMED)
    numbers = (
        f"at {count(CLAIMED)} tokens recomputing takes "
        f":blue[**{seconds(found.recompute_s[k])}**], swapping out and in "
        f":orange[**{seconds(found.swap_s[k])}**]"
    )
    if all(wins):
        return f"**It holds here.** On {where}, {numbers}."
    if not any(wins):
        return (
            f"**It does not hold here.** On {where} swapping is cheaper at every length: {numbers}."
        )
    crossing = ", ".join(count(n) for n in found.crossovers)
    return f"**Only in part.** On {where} both cost the same at {crossing} tokens; {numbers}."


def confidence(gpu: catalog.Gpu, shared: bool) -> list[str]:
    """How sure the curve's milliseconds are: class and expected error, and what goes beyond the
    calibrated range. The swap's are bytes over a bandwidth."""
    known = efficiency(gpu.name, "bf16")
    beside = BATCH if shared else 0
    return [step_times(gpu, "bf16"), *outside(known, LENGTHS[-1] + beside, beside, LENGTHS[-1])]


# --- max_tokens -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Promise:
    """One engine at one max_tokens: how many ran at once on average, preemptions, when all was
    done."""

    engine: str
    factor: int
    running: float
    preemptions: int
    recomputed: int
    done_s: float
    rejected: int
    confidence: tuple[str, ...]  # how sure the seconds are


CAPACITY = "capacity_scheduler_policy"  # the knob that says whether max_tokens is reserved
RESERVING = next(spec for spec in ENGINES if CAPACITY in spec.memory_dials)
DEFAULT = engine_spec(DEFAULT_ENGINE)
NO_EVICT = f"{RESERVING.title}, no evict"
# name: the engine and its own knobs
COMPARED: dict[str, tuple[str, dict[str, str]]] = {
    NO_EVICT: (RESERVING.id, {CAPACITY: "GUARANTEED_NO_EVICT"}),
    f"{RESERVING.title}, max utilization": (RESERVING.id, {CAPACITY: "MAX_UTILIZATION"}),
    DEFAULT.title: (DEFAULT.id, {}),
}


def promises(base: Scenario) -> list[Promise]:
    """The same answers, asked for with ever more generous max_tokens."""
    return [promise(base, name, factor) for name in COMPARED for factor in FACTORS]


def with_promise(base: Scenario, name: str, factor: int) -> Scenario:
    data: dict[str, Any] = base.model_dump(mode="json")
    engine, own = COMPARED[name]
    policy = knobs_under(base.replicas[0].policy, engine, caching=False)
    data["replicas"][0]["policy"] = policy | own
    for spec in data["workload"]["classes"]:
        spec["max_tokens"] = {"kind": "factor", "factor": factor}
    return parse_scenario(data)


def promise(base: Scenario, engine: str, factor: int) -> Promise:
    result = simulate(with_promise(base, engine, factor))
    steps, summary = result.recording.steps, result.summary
    time = float(steps.duration_s.sum())
    return Promise(
        engine=engine,
        factor=factor,
        running=float((steps.num_running * steps.duration_s).sum()) / time if time else 0.0,
        preemptions=summary["preemptions"],
        recomputed=summary["recomputed_tokens"],
        done_s=summary["duration_s"],
        rejected=summary["rejected"],
        confidence=provenance(result.recording, result.resolved),
    )


def cost_of_promises(found: Sequence[Promise]) -> str:
    """What generosity costs the engine that reserves, and what it costs the others."""
    by = {(p.engine, p.factor): p for p in found}
    tight, wide = by[NO_EVICT, FACTORS[0]], by[NO_EVICT, FACTORS[-1]]
    other = by[DEFAULT.title, FACTORS[-1]]
    return (
        f"With max_tokens {FACTORS[-1]} times what is really generated, no-evict runs "
        f":orange[**{wide.running:.1f} at once**] instead of {tight.running:.1f} and needs "
        f":orange[**{seconds(wide.done_s)}**] instead of {seconds(tight.done_s)}; "
        f"{DEFAULT.title} does not reserve, runs {other.running:.1f} at once and needs "
        f":green[**{seconds(other.done_s)}**], with {count(other.preemptions)} preemptions."
    )

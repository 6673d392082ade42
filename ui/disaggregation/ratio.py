"""What a bad ratio looks like: the same load on every split of so many servers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd
import streamlit as st

from sim.results.run import Result
from sim.results.words import plural
from ui.disaggregation import captions, controller
from ui.disaggregation.setup import Setup, co_located, disaggregated
from ui.text.units import close, seconds

LEAST = 4  # servers: fewer have no ratio to choose
FACTORS = (1, 2, 4)  # of the load, tried until the ratios differ
TELLING = 0.8  # worst over best goodput: from here down they do


@dataclass(frozen=True)
class Split:
    """One ratio and what comes of it; nan-free: None where no request got a token."""

    prefill: int
    decode: int
    ttft_s: float | None
    queue_s: float | None
    gap_s: float | None
    running: float
    goodput: float

    @property
    def name(self) -> str:
        return f"{self.prefill}:{self.decode}"


@dataclass(frozen=True)
class Load:
    """What every ratio serves under `factor` times the load of a server in `asked`. `mixed`: as
    many co-located servers under the same load, and their goodput, requests/s."""

    asked: Setup
    factor: int
    splits: tuple[Split, ...]
    mixed: Setup
    goodput: float


def splits(setup: Setup) -> Load:
    """Every ratio of the chosen servers, of four where fewer are chosen, at the same load a server;
    doubled while all ratios serve about the same. Refused ratios are left out."""
    return _splits(repr(setup), setup)


@st.cache_data(max_entries=64, show_spinner=False)
def _splits(key: str, _setup: Setup) -> Load:
    for factor in FACTORS:
        load = at_load(_setup, factor)
        good = [split.goodput for split in load.splits]
        if not good or min(good) < TELLING * max(good):
            break
    return load


def at_load(setup: Setup, factor: int) -> Load:
    total = max(LEAST, setup.servers)
    more = factor * total / setup.servers
    base = replace(setup, rate=setup.rate * more, requests=round(setup.requests * more))
    found = []
    for prefill in range(1, total):
        here = replace(base, prefill=prefill, decode=total - prefill)
        result = controller.run(here, disaggregated)
        if isinstance(result, Result):
            found.append(split(result, here))
    half = replace(base, prefill=total // 2, decode=total - total // 2)
    mixed = controller.run(half, co_located)
    good = mixed.summary["goodput_rps"] or 0.0 if isinstance(mixed, Result) else 0.0
    return Load(setup, factor, tuple(found), half, good)


def split(result: Result, setup: Setup) -> Split:
    return Split(
        setup.prefill, setup.decode,
        captions.block(result, "ttft_s").get("p50"), captions.block(result, "queue_s").get("p50"),
        captions.block(result, "itl_s").get("max"), captions.decodes_a_step(result),
        result.summary["goodput_rps"] or 0.0,
    )  # fmt: skip


def per_second(rate: float) -> str:
    """A rate in about three digits: 0.05, 42.7, 128."""
    return f"{rate:.3g}" if rate < 99.95 else f"{rate:,.0f}"


def at(load: Load) -> str:
    """At which rate, and how that comes from the one that was asked for."""
    asked, servers = load.asked, load.mixed.servers
    alike = per_second(asked.rate * servers / asked.servers)
    words = ""
    if servers != asked.servers:
        words = (
            f"{per_second(asked.rate)} requests/s on {plural(asked.servers, 'server')}, as "
            f"above, correspond to {alike} on {servers}. "
        )
    if load.factor == 1:
        return f"{words}At {alike} requests/s"
    return (
        f"{words}At {alike} requests/s the ratios serve about the same. At {load.factor} times "
        f"that, {per_second(load.mixed.rate)} requests/s,"
    )


def sentence(load: Load, best_mixed: tuple[int, float]) -> str:
    """The best and the worst ratio of this load. `best_mixed`: the budget with which the co-located
    servers serve most within the limits, and how many requests/s."""
    best = max(load.splits, key=lambda s: s.goodput)
    worst = min(load.splits, key=lambda s: s.goodput)
    servers = best.prefill + best.decode
    if close(best.goodput, worst.goodput):
        return (
            f"{at(load)} every ratio of {servers} servers serves the same: "
            f"{best.goodput:.2f} requests/s within both limits."
        )
    lost = 1 - worst.goodput / best.goodput
    where = "prompts queue" if worst.prefill < best.prefill else "decode is short of servers"
    ttft = f", median TTFT {seconds(worst.ttft_s)}" if worst.ttft_s else ""
    return (
        f"{at(load)} the best ratio of {servers} servers is "
        f":green[**{best.name}**] with {best.goodput:.2f} requests/s within both limits. "
        f":orange[**{worst.name}**] loses {lost:.0%} of them: {where}{ttft}. Co-located on "
        f"as many servers: {load.goodput:.2f} requests/s with budget {load.mixed.budget:,}, "
        f"{best_mixed[1]:.2f} with the best budget, {best_mixed[0]:,}."
    )


def table(found: Sequence[Split]) -> pd.DataFrame:
    """One row per ratio."""

    def ms(value: float | None) -> str:
        return "none" if value is None else seconds(value)

    return pd.DataFrame(
        {
            "prefill : decode": [s.name for s in found],
            "TTFT p50": [ms(s.ttft_s) for s in found],
            "prefill queue p50": [ms(s.queue_s) for s in found],
            "worst gap": [ms(s.gap_s) for s in found],
            "requests in a decode step, mean": [f"{s.running:.1f}" for s in found],
            "goodput, requests/s": [f"{s.goodput:.2f}" for s in found],
        }
    )

"""What the page on KV memory shows: its presets, replays and tables, cached for all sessions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd
import streamlit as st

from sim.engines.registry import DEFAULT_ENGINE
from sim.results.provenance import provenance
from ui.block_map import packing
from ui.block_map.replay import Replay, replay
from ui.kv_memory import captions, costs, form
from ui.kv_memory.costs import Promise
from ui.kv_memory.engines import GATE, Rules, rules_of, scenario_of
from ui.scenarios import presets
from ui.shell.kernels import computed_first
from ui.text.units import count, seconds


@dataclass(frozen=True)
class Shown:
    """A replay as the page shows it."""

    packet: bytes
    sentence: str
    confidence: tuple[str, ...]  # how sure the milliseconds are


@st.cache_resource(max_entries=32, show_spinner=False)
def replay_of(preset: str, rules: Rules) -> Replay:
    scenario = scenario_of(preset, rules)
    return computed_first("kv memory", scenario.digest, lambda: replay(scenario))


@st.cache_data(max_entries=64, show_spinner=False)
def shown(preset: str, rules: Rules, prefixes_open: bool = False) -> Shown:
    found = replay_of(preset, rules)
    sentence = captions.memory_sentence(found, rules)
    if preset == form.THRASH.id and rules.has(GATE):
        off, on = (replay_of(preset, with_gate(rules, gate)) for gate in (False, True))
        sentence = captions.gate_sentence(off, on, bool(rules.value(GATE)))
    confidence = provenance(found.recording, found.resolved)
    return Shown(packing.pack(found, rules.words, prefixes_open), sentence, confidence)


def with_gate(rules: Rules, gate: bool) -> Rules:
    return replace(rules, knobs=tuple((dict(rules.knobs) | {GATE: gate}).items()))


def caching_rules(rules: Rules) -> Rules:
    """Rules under which prefixes are shared: those of the engine, of vLLM V1 where it cannot."""
    return rules_of(form.PREFIXES.id, rules.engine if rules.has_cache else DEFAULT_ENGINE)


def resumed_sentence() -> str:
    """What a preempted request finds of itself: the first preset with caching on."""
    rules = replace(rules_of(form.PREEMPTIONS.id), caching=True)
    requests = replay_of(form.PREEMPTIONS.id, rules).recording.requests
    own, others = int(requests.resumed_hit_tokens.sum()), int(requests.hit_tokens.sum())
    return (
        "A request that comes back after a preemption mostly finds its own blocks. That is no "
        "saving over not being preempted, so these hits are counted separately: in "
        f"“{form.PREEMPTIONS.label}” with caching on, {count(own)} resumed tokens and "
        f"{count(others)} others."
    )


@st.cache_data(max_entries=4, show_spinner=False)
def promises(preset: str) -> list[Promise]:
    base = presets.scenario_of(preset)
    return computed_first("promises", preset, lambda: costs.promises(base))


def promise_table(found: Sequence[Promise]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "engine": [p.engine for p in found],
            "max_tokens / output": [f"{p.factor} x" for p in found],
            "running at once, mean": [round(p.running, 1) for p in found],
            "preemptions": [p.preemptions for p in found],
            "tokens computed again": [p.recomputed for p in found],
            "all done": [seconds(p.done_s) for p in found],
        }
    )

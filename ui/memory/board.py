"""What the page on KV memory shows: its presets, replays and tables. Cached for everybody."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd
import streamlit as st

from sim.results.provenance import provenance
from sim.scenario.load import Scenario
from ui import presets
from ui.memory import costs, form, packing
from ui.memory.costs import Promise
from ui.memory.engines import (
    CAPACITY,
    PREEMPT_BY,
    TITLES,
    WATERMARKS,
    Rules,
    rules_of,
    scenario_of,
)
from ui.memory.replay import Replay, replay
from ui.units import count, seconds


@dataclass(frozen=True)
class Shown:
    """A replay as the page shows it."""

    packet: bytes
    sentence: str
    sure: tuple[str, ...]  # how sure the milliseconds are


def turn_rules(rules: Rules) -> None:
    """The knobs of the map that the chosen engine has; the form has given them their values."""
    if rules.engine == "vllm_v1":
        st.toggle("Full-prompt gate (scheduler_reserve_full_isl)", key=form.GATE.widget())
    if rules.has_cache:
        st.toggle("Prefix caching", key=form.CACHING.widget())
    if rules.engine in ("vllm_v1", "vllm_v0"):
        st.select_slider(
            "Watermark: blocks kept back at admission", WATERMARKS, format_func="{:.0%}".format,
            key=form.WATERMARK.widget(),
        )  # fmt: skip
    if rules.engine == "vllm_v0":
        st.selectbox("preemption_mode", PREEMPT_BY, key=form.PREEMPTION.widget())
    if rules.engine == "tensorrt_llm":
        st.selectbox("capacity_scheduler_policy", CAPACITY, key=form.KEEPING.widget())
    if rules.engine in ("sarathi", "orca"):
        st.caption(f"{TITLES[rules.engine]} has no knob for memory but its size.")


def turn_gate() -> None:
    st.session_state[form.GATE.key] = not st.session_state[form.GATE.key]


@st.cache_resource(max_entries=32, show_spinner=False)
def replay_of(preset: str, rules: Rules) -> Replay:
    return replay(scenario_of(preset, rules))


@st.cache_data(max_entries=64, show_spinner=False)
def shown(preset: str, rules: Rules, prefixes_open: bool = False) -> Shown:
    found = replay_of(preset, rules)
    sentence = memory_sentence(found, rules)
    if preset == "kv_thrash" and rules.engine == "vllm_v1":
        off, on = (replay_of(preset, replace(rules, gate=gate)) for gate in (False, True))
        sentence = gate_sentence(off, on, rules.gate)
    sure = provenance(found.recording, found.resolved)
    return Shown(packing.pack(found, rules, prefixes_open), sentence, sure)


def caching_rules(rules: Rules) -> Rules:
    """Rules under which prefixes are shared: those of the engine, of vLLM V1 where it cannot."""
    return rules_of("kv_prefix", rules.engine if rules.has_cache else "vllm_v1")


def resumed_sentence() -> str:
    """What a preempted request finds of itself: the first preset with caching on."""
    rules = replace(rules_of("kv_preemption"), caching=True)
    requests = replay_of("kv_preemption", rules).recording.requests
    own, others = int(requests.resumed_hit_tokens.sum()), int(requests.hit_tokens.sum())
    return (
        "A request that comes back after a preemption mostly finds its own blocks. That is no "
        "saving over not being preempted, so these hits are counted apart: in "
        f"“{form.PRESETS[0].label}” with caching on, {count(own)} resumed tokens and "
        f"{count(others)} others."
    )


def end_s(found: Replay) -> float:
    last = found.recording.steps[-1]
    return float(last.start_s + last.duration_s)


def lost(found: Replay) -> tuple[int, int]:
    """Preemptions, and tokens computed a second time."""
    requests = found.recording.requests
    return int(requests.num_preemptions.sum()), int(requests.recomputed_tokens.sum())


def memory_sentence(found: Replay, rules: Rules) -> str:
    """How full it gets and what that costs."""
    blocks = found.kinds.shape[1]
    peak = found.recording.peak_kv_blocks
    times, tokens = lost(found)
    full = f"At most {count(peak)} of {count(blocks)} blocks are held"
    if not times:
        hits = int(found.recording.requests.hit_tokens.sum())
        again = f"; {count(hits)} prompt tokens were found in the cache" if hits else ""
        return f"{full}, {'so' if peak < blocks else 'yet'} nobody is preempted{again}."
    plural = "s" if times > 1 else ""
    out = f"{full}: memory runs out :orange[**{times} time{plural}**], "
    if rules.engine == "vllm_v0" and rules.preempt_by == "swap":
        moved = int(found.recording.steps.swapped_out_blocks.sum())
        return f"{out}{rules.victim} goes to the host, :orange[**{count(moved)} blocks**] in all."
    return (
        f"{out}{rules.victim} loses its blocks, and :orange[**{count(tokens)} tokens**] are "
        "computed again."
    )


def gate_sentence(off: Replay, on: Replay, gate: bool) -> str:
    """The thrash and its cure, in numbers."""
    times, tokens = lost(off)
    cured, again = lost(on)
    now = "on" if gate else "off"
    return (
        f"Without the full-prompt gate a prompt is let in as soon as its first chunk fits, and "
        f"thrown out at the next: :orange[**{count(times)} preemptions**], "
        f":orange[**{count(tokens)} tokens**] computed again, done after {seconds(end_s(off))}. "
        f"With it: :green[**{count(cured)} preemptions**], {count(again)} tokens again, "
        f":green[**{seconds(end_s(on))}**]. Shown: gate {now}."
    )


def plain(markdown: str) -> str:
    """A sentence without its colours and its bold."""
    return re.sub(r":\w+\[|\]|\*\*", "", markdown)


@st.cache_data(max_entries=4, show_spinner=False)
def promises(preset: str) -> list[Promise]:
    return costs.promises(presets.scenario_of(preset))


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


def promise_note(base: Scenario) -> str:
    """The workload and the memory behind the table."""
    spec, policy = (base.workload.classes or ())[0], base.replicas[0].policy
    tokens = ((policy.num_gpu_blocks or 1) - 1) * policy.block_size
    return (
        f"{count(spec.count)} requests at once, 128 prompt and 64 output tokens each, "
        f"{count(tokens)} tokens of KV memory. No-evict promises prompt + max_tokens to everybody "
        "it lets in; max-utilization and vLLM V1 promise nothing and preempt when it gets tight."
    )

"""What the page on KV memory shows: its presets, replays and tables. Cached for everybody."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd
import streamlit as st

from sim import catalog
from sim.scenario import Scenario, parse_scenario
from ui import presets
from ui.memory import costs, packing
from ui.memory.costs import Promise
from ui.memory.replay import Replay, replay
from ui.presets import Preset
from ui.units import count, seconds

PRESETS = (
    Preset("kv_preemption", "Answers outgrow the memory"),
    Preset("kv_prefix", "Shared system prompts"),
    Preset("kv_thrash", "Thrash: too small, gate off"),
)
WATERMARKS = (0.0, 0.01, 0.05, 0.1)


@dataclass(frozen=True)
class Rules:
    """The knobs of the block map: the full-prompt gate, the watermark, prefix caching."""

    gate: bool
    watermark: float
    caching: bool


@dataclass(frozen=True)
class Shown:
    """A replay as the page shows it."""

    packet: bytes
    sentence: str


def rules_of(preset: str) -> Rules:
    """The rules as a preset has them."""
    policy = presets.scenario_of(preset).replicas[0].policy
    return Rules(policy.scheduler_reserve_full_isl, policy.watermark, policy.enable_prefix_caching)


def scenario_of(preset: str, rules: Rules) -> Scenario:
    """A preset's scenario under other rules."""
    data = presets.scenario_of(preset).model_dump(mode="json")
    data["replicas"][0]["policy"] |= {
        "scheduler_reserve_full_isl": rules.gate,
        "watermark": rules.watermark,
        "enable_prefix_caching": rules.caching,
    }
    return parse_scenario(data)


def follow_preset(preset: str) -> None:
    """A preset that was just chosen brings its own rules along."""
    if st.session_state.get("kv_rules_of") != preset or "kv_gate" not in st.session_state:
        rules = rules_of(preset)
        st.session_state["kv_rules_of"] = preset
        st.session_state["kv_gate"] = rules.gate
        st.session_state["kv_watermark"] = rules.watermark
        st.session_state["kv_caching"] = rules.caching


def turn_rules() -> Rules:
    """The knobs of the map."""
    gate = st.toggle("Full-prompt gate (scheduler_reserve_full_isl)", key="kv_gate")
    caching = st.toggle("Prefix caching", key="kv_caching")
    watermark = st.select_slider(
        "Watermark: blocks kept back at admission", WATERMARKS, format_func="{:.0%}".format,
        key="kv_watermark",
    )  # fmt: skip
    return Rules(bool(gate), float(watermark), bool(caching))


def turn_gate() -> None:
    st.session_state["kv_gate"] = not st.session_state["kv_gate"]


@st.cache_resource(max_entries=32, show_spinner=False)
def replay_of(preset: str, rules: Rules) -> Replay:
    return replay(scenario_of(preset, rules))


@st.cache_data(max_entries=32, show_spinner=False)
def shown(preset: str, rules: Rules) -> Shown:
    found = replay_of(preset, rules)
    sentence = memory_sentence(found)
    if preset == "kv_thrash":
        off, on = (replay_of(preset, replace(rules, gate=gate)) for gate in (False, True))
        sentence = gate_sentence(off, on, rules.gate)
    return Shown(packing.pack(found), sentence)


def resumed_sentence() -> str:
    """What a preempted request finds of itself: the first preset with caching on."""
    rules = replace(rules_of("kv_preemption"), caching=True)
    requests = replay_of("kv_preemption", rules).trace.requests
    return (
        "A request that comes back after a preemption mostly finds its own blocks. That is no "
        "saving over not being preempted, so these hits are counted apart: in "
        f"“{PRESETS[0].label}” with caching on, {count(int(requests.resumed_hit_tokens.sum()))} "
        f"resumed tokens and {count(int(requests.hit_tokens.sum()))} others."
    )


def end_s(found: Replay) -> float:
    last = found.trace.steps[-1]
    return float(last.start_s + last.duration_s)


def lost(found: Replay) -> tuple[int, int]:
    """Preemptions, and tokens computed a second time."""
    requests = found.trace.requests
    return int(requests.num_preemptions.sum()), int(requests.recomputed_tokens.sum())


def memory_sentence(found: Replay) -> str:
    """How full it gets and what that costs."""
    blocks = found.kinds.shape[1]
    peak = found.trace.peak_kv_blocks
    times, tokens = lost(found)
    full = f"At most {count(peak)} of {count(blocks)} blocks are held"
    if not times:
        hits = int(found.trace.requests.hit_tokens.sum())
        again = f"; {count(hits)} prompt tokens were found in the cache" if hits else ""
        return f"{full}, {'so' if peak < blocks else 'yet'} nobody is preempted{again}."
    plural = "s" if times > 1 else ""
    return (
        f"{full}: memory runs out :orange[**{times} time{plural}**], the last in line loses its "
        f"blocks, and :orange[**{count(tokens)} tokens**] are computed again."
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


def host_links(gpu: catalog.Gpu) -> tuple[str, ...]:
    """The GPU's own link to the host first, then the other kinds."""
    own = gpu.host_link
    kinds = [name for name in catalog.link_names() if name.endswith("_x16")]
    return (own, *(name for name in kinds if name != own)) if own else tuple(kinds)


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

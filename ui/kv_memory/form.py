"""The choices of the page: what the block map shows under which rules, and what a swap is set
against."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from sim.engines.registry import DEFAULT_ENGINE, engine_spec
from sim.hardware import catalog
from ui.kv_memory.engines import (
    GATE,
    MEMORY_KNOBS,
    PREEMPTION,
    TITLES,
    WATERMARK,
    WATERMARKS,
    Rules,
    start_of,
    starts_with_caching,
)
from ui.scenarios.presets import Preset
from ui.shell import query_values
from ui.shell.forms import Field, Form
from ui.widgets import model_choice

PREEMPTIONS = Preset("kv_preemption", "Answers outgrow the memory")
PREFIXES = Preset("kv_prefix", "Shared system prompts")
THRASH = Preset("kv_thrash", "Thrash: too small, gate off")
PRESETS = (PREEMPTIONS, PREFIXES, THRASH)
MODEL, GPU = "Llama-2-13B", "h100_sxm"
PARALLEL = (1, 2, 4, 8)


def host_links(gpu: catalog.Gpu) -> tuple[str, ...]:
    """The GPU's own link to the host first, then the other kinds."""
    own = gpu.host_link
    kinds = [name for name in catalog.link_names() if name.endswith("_x16")]
    return (own, *(name for name in kinds if name != own)) if own else tuple(kinds)


def all_links() -> tuple[str, ...]:
    return tuple(dict.fromkeys(n for g in catalog.gpu_names() for n in host_links(catalog.gpu(g))))


PRESET = Field(
    "kv_preset", "memory", PRESETS[0].id,
    query_values.name(lambda: tuple(preset.id for preset in PRESETS), "scenario"),
)  # fmt: skip
ENGINE = Field(
    "kv_engine", "engine", DEFAULT_ENGINE, query_values.name(lambda: tuple(TITLES), "engine")
)


def read_knob(knob: str) -> Callable[[str], Any]:
    """How a value of a memory knob is read from an address."""
    if knob == WATERMARK:
        return query_values.one_of(WATERMARKS)
    options = MEMORY_KNOBS[knob].options(knob)
    if options:
        return query_values.name(lambda: options, "value")
    if isinstance(getattr(MEMORY_KNOBS[knob].defaults, knob), bool):
        return query_values.switch
    return query_values.whole(MEMORY_KNOBS[knob].least(knob), 1_000_000)


# Names in an address that are older than the names of the knobs, and stay.
NAMES = {GATE: "gate", PREEMPTION: "preempt_by", "capacity_scheduler_policy": "capacity"}
CACHING = Field(
    "kv_caching", "reuse", lambda: starts_with_caching(PRESET.value), query_values.switch,
    belongs_to=PRESET.key,
)  # fmt: skip
KNOBS = {
    knob: Field(
        f"kv_{NAMES.get(knob, knob)}", NAMES.get(knob, knob),
        lambda knob=knob: start_of(PRESET.value, knob), read_knob(knob), belongs_to=PRESET.key,
    )
    for knob in MEMORY_KNOBS
}  # fmt: skip
SWAP_MODEL = Field(
    "kv_model", "swap_model", MODEL, query_values.model, no_choice=model_choice.PASTE
)
SWAP_GPU = Field("kv_gpu", "swap_gpu", GPU, query_values.name(catalog.gpu_names, "GPU"))
SWAP_TP = Field("kv_tp", "swap_tp", 1, query_values.one_of(PARALLEL))
SWAP_LINK = Field(
    "kv_link", "swap_link", lambda: host_links(catalog.gpu(SWAP_GPU.value))[0],
    query_values.name(all_links, "link"),
)  # fmt: skip
BESIDE = Field("kv_shared", "beside_decodes", True, query_values.switch)
KV_MEMORY = Form(
    "kv_memory",
    (
        PRESET, ENGINE, CACHING, *KNOBS.values(),
        SWAP_MODEL, SWAP_GPU, SWAP_TP, SWAP_LINK, BESIDE,
    ),
)  # fmt: skip


def rules() -> Rules:
    """The rules as they stand."""
    names = engine_spec(ENGINE.value).memory_dials
    return Rules(
        ENGINE.value, bool(CACHING.value), tuple((name, KNOBS[name].value) for name in names)
    )


def toggle_gate() -> None:
    st.session_state[KNOBS[GATE].key] = not st.session_state[KNOBS[GATE].key]

"""The choices of the page: what the block map shows under which rules, and what a swap is set
against."""

from functools import partial
from typing import Any

import streamlit as st

from sim.hardware import catalog
from ui.kv_memory.engines import CAPACITY, PREEMPT_BY, TITLES, WATERMARKS, Rules, rules_of
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
    "kv_engine", "engine", "vllm_v1", query_values.name(lambda: tuple(TITLES), "engine")
)  # fmt: skip


def as_preset(name: str) -> Any:
    """A rule as the chosen preset has it."""
    return getattr(rules_of(PRESET.value), name)


def rule(name: str, read: Any, in_address: str) -> Field:
    return Field(f"kv_{name}", in_address, partial(as_preset, name), read, belongs_to=PRESET.key)


GATE = rule("gate", query_values.switch, "gate")
CACHING = rule("caching", query_values.switch, "reuse")
WATERMARK = rule("watermark", query_values.one_of(WATERMARKS), "watermark")
PREEMPTION = rule("preempt_by", query_values.name(lambda: PREEMPT_BY, "way"), "preempt_by")
CAPACITY_POLICY = rule("capacity", query_values.name(lambda: CAPACITY, "policy"), "capacity")
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
        PRESET, ENGINE, GATE, CACHING, WATERMARK, PREEMPTION, CAPACITY_POLICY,
        SWAP_MODEL, SWAP_GPU, SWAP_TP, SWAP_LINK, BESIDE,
    ),
)  # fmt: skip


def rules() -> Rules:
    """The rules as they stand."""
    return Rules(
        ENGINE.value, bool(GATE.value), float(WATERMARK.value), bool(CACHING.value),
        PREEMPTION.value, CAPACITY_POLICY.value,
    )  # fmt: skip


def toggle_gate() -> None:
    st.session_state[GATE.key] = not st.session_state[GATE.key]

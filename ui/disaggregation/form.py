"""The choices of the page: a preset, and every value of its setup."""

from dataclasses import fields
from functools import partial
from typing import Any

from sim.hardware import catalog
from ui.disaggregation.setup import BY_ID, PRESETS, Setup
from ui.shell import query_values
from ui.shell.forms import Field, Form
from ui.widgets import model_choice

PARALLEL = (1, 2, 4, 8)
MOST_SERVERS, MOST_REQUESTS = 16, 400
FIRST_TOKENS = ("decode", "prefill")
MAPS = ("prompt", "ratio")


def network_links() -> tuple[str, ...]:
    """The links that join servers: networks first, then those within a machine."""
    names = [name for name in catalog.link_names() if not name.endswith("_peer")]
    return tuple(sorted(names, key=lambda name: not name.startswith(("rdma", "ethernet"))))


READ: dict[str, Any] = {
    "model": query_values.model,
    "prefill": query_values.whole(1, MOST_SERVERS),
    "decode": query_values.whole(1, MOST_SERVERS),
    "prefill_gpu": query_values.name(catalog.gpu_names, "GPU"),
    "decode_gpu": query_values.name(catalog.gpu_names, "GPU"),
    "prefill_tp": query_values.one_of(PARALLEL),
    "decode_tp": query_values.one_of(PARALLEL),
    "prefill_budget": query_values.whole(16, 1_000_000),
    "budget": query_values.whole(16, 1_000_000),
    "kv_tokens": query_values.whole(0, 100_000_000),
    "link": query_values.name(network_links, "link"),
    "bandwidth_gb": query_values.number(0, 10_000),
    "latency_us": query_values.number(0, 1e6),
    "descriptor_us": query_values.number(0, 1e4),
    "handover_ms": query_values.number(0, 1e4),
    "streaming": query_values.switch,
    "first_token": query_values.name(lambda: FIRST_TOKENS, "pool"),
    "rate": query_values.number(0.05, 1000),
    "prompt": query_values.whole(1, 200_000),
    "output": query_values.whole(1, 20_000),
    "requests": query_values.whole(1, MOST_REQUESTS),
    "shared": query_values.whole(0, 200_000),
    "store_gb": query_values.number(0, 10_000),
    "early_rejection": query_values.switch,
    "unused": query_values.number(0, 1),
    "failures": query_values.number(0, 1),
    "recompute": query_values.switch,
    "ttft_ms": query_values.number(1, 600_000),
    "itl_ms": query_values.number(1, 60_000),
}
PRESET = Field(
    "pd_preset", "pools", PRESETS[0].id, query_values.name(lambda: tuple(BY_ID), "preset")
)


def as_preset(name: str) -> Any:
    """A choice as the chosen preset has it."""
    return getattr(BY_ID[PRESET.value].setup, name)


CHOICES = {
    field.name: Field(
        f"pd_{field.name}", f"pd.{field.name}", partial(as_preset, field.name), READ[field.name],
        belongs_to=PRESET.key, no_choice=model_choice.PASTE if field.name == "model" else None,
    )
    for field in fields(Setup)
}  # fmt: skip
MAP = Field("pd_map", "map", MAPS[0], query_values.name(lambda: MAPS, "map"))
DISAGGREGATION = Form("disaggregation", (PRESET, *CHOICES.values(), MAP))


def setup(model: Any) -> Setup:
    """The choices as they stand; a number box that was emptied counts as its start."""
    found = {name: field.value for name, field in CHOICES.items()} | {"model": model}
    return Setup(
        **{name: CHOICES[name].usual if value is None else value for name, value in found.items()}
    )

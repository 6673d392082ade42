"""How much KV a prompt leaves, and how long a link takes for it: the formula with its numbers."""

from dataclasses import dataclass

from sim.hardware import catalog
from sim.results.words import plural
from sim.scenario.model_config import DescribedModel, model_of
from ui.disaggregation.setup import Setup
from ui.text.units import count, seconds

KNOWN_MODEL, KNOWN_TOKENS, KNOWN_LINK = "Llama-3.1-70B", 4096, "rdma_100g"


@dataclass(frozen=True)
class Moved:
    """The KV of a prompt. `seconds_alone`: over an idle link, bytes and latency."""

    layers: int
    kv_heads: int
    head_dim: int
    element_bytes: float
    tokens: int
    bandwidth: float
    latency_s: float

    @property
    def bytes(self) -> float:
        return 2 * self.layers * self.kv_heads * self.head_dim * self.element_bytes * self.tokens

    @property
    def seconds_alone(self) -> float:
        return self.latency_s + self.bytes / self.bandwidth


def moved(
    ref: str | DescribedModel,
    tokens: int,
    link: str,
    bandwidth: float = 0.0,
    latency_s: float = 0.0,
) -> Moved:
    """Of a prompt of so many tokens. bytes/s and s 0: the link's own."""
    model, known = model_of(ref), catalog.link(link)
    return Moved(
        model.num_layers, model.num_kv_heads, model.head_dim,
        catalog.kv_element_bytes("auto"),
        tokens, bandwidth or known.bandwidth, latency_s or known.latency_s,
    )  # fmt: skip


def of(setup: Setup) -> Moved:
    return moved(
        setup.model, setup.prompt, setup.link, 1e9 * setup.bandwidth_gb, 1e-6 * setup.latency_us
    )


def formula(found: Moved, travels: bool = True) -> str:
    """2 x layers x KV heads x head dim x bytes x tokens, with its numbers, and the link's time
    where it travels."""
    way = (
        f"over {found.bandwidth / 1e9:g} GB/s alone :orange[**{seconds(found.seconds_alone)}**]"
        if travels
        else "none of it is moved here"
    )
    return (
        f"2 x {found.layers} layers x {found.kv_heads} KV heads x {found.head_dim} x "
        f"{found.element_bytes:g} bytes x {plural(found.tokens, 'token')} = "
        f":orange[**{gigabytes(found.bytes)}**]; {way}."
    )


def gigabytes(size: float) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"


def known() -> str:
    """The same for the case that is often quoted."""
    found = moved(KNOWN_MODEL, KNOWN_TOKENS, KNOWN_LINK)
    return (
        f"For comparison: {KNOWN_MODEL} (grouped-query attention), {count(KNOWN_TOKENS)} tokens: "
        f"{gigabytes(found.bytes)}, {seconds(found.bytes / found.bandwidth)} at 100 Gb/s and "
        f"{seconds(found.bytes / catalog.link('rdma_800g').bandwidth)} at 800 Gb/s."
    )

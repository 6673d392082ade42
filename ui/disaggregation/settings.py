"""The widgets of the page: what is asked most stands open, the rest behind three buttons."""

from typing import Any

import streamlit as st

from sim.hardware import catalog
from ui.disaggregation.form import (
    CHOICES,
    FIRST_TOKENS,
    MOST_REQUESTS,
    MOST_SERVERS,
    PARALLEL,
    network_links,
)
from ui.text import hardware
from ui.widgets import model_choice

Number = int | float


def main() -> None:
    """The numbers that one plays with."""
    with st.container(horizontal=True, key="pd_main"):
        number("Prefill servers", "prefill", 1, MOST_SERVERS)
        number("Decode servers", "decode", 1, MOST_SERVERS)
        number("Requests/s", "rate", 0.05, 1000.0, 1.0)
        number("Prompt, tokens", "prompt", 1, 200_000, 512)
        number("Output, tokens", "output", 1, 20_000, 32)
        st.selectbox(
            "Link", network_links(), format_func=hardware.link_title, key=key("link"), width=190
        )


def servers(usual: Any) -> Any:
    """Model, GPUs, budgets, memory. Returns the model."""
    model = model_choice.choose(st, key("model"), usual)
    left, right = st.columns(2)
    for place, pool in ((left, "prefill"), (right, "decode")):
        with place:
            st.selectbox(
                f"GPU of the {pool} pool", catalog.gpu_names(), key=key(f"{pool}_gpu"),
                format_func=hardware.gpu_title,
            )  # fmt: skip
            st.selectbox(f"GPUs of a {pool} server (TP)", PARALLEL, key=key(f"{pool}_tp"))
    with left:
        number("Prefill budget, tokens per step", "prefill_budget", 16, 1_000_000, 512)
        number(
            "KV memory of a decode server, tokens", "kv_tokens", 0, 100_000_000, 1024,
            help="0: what fits the GPU.",
        )  # fmt: skip
    with right:
        number("Co-located budget, tokens per step", "budget", 16, 1_000_000, 256)
    return model


def links() -> None:
    """The numbers of the link and how KV goes over it."""
    number("Bandwidth, GB/s each way", "bandwidth_gb", 0.0, 10_000.0, 1.0, help="0: the link's own")
    number("Latency of a transfer, µs", "latency_us", 0.0, 1e6, 1.0, help="0: the link's own")
    number("Cost of a descriptor, µs", "descriptor_us", 0.0, 1e4, 0.5)
    number(
        "Hand-over, ms",
        "handover_ms",
        0.0,
        1e4,
        5.0,
        help="Proxy and handshake, on top of the transfer.",
    )
    st.toggle("Stream KV chunk by chunk, while later chunks compute", key=key("streaming"))
    st.radio(
        "The first token comes from", FIRST_TOKENS, horizontal=True, key=key("first_token"),
        format_func={"decode": "decode (vLLM, NIXL)", "prefill": "prefill (DistServe)"}.get,
    )  # fmt: skip


def load() -> None:
    """The workload, the limits, and what goes wrong."""
    left, right = st.columns(2)
    with left:
        number("Requests", "requests", 1, MOST_REQUESTS)
        number("Limit of TTFT, ms", "ttft_ms", 1.0, 600_000.0, 50.0)
        number("Limit of a gap, ms", "itl_ms", 1.0, 60_000.0, 5.0)
        number(
            "Shared prompt, tokens", "shared", 0, 200_000, 512,
            help="Tokens at the start of a prompt that about four requests share. Prefix caching "
            "is on: their KV is computed once while it stays cached. 0: prompts share nothing.",
        )  # fmt: skip
        number(
            "KV store, GB", "store_gb", 0.0, 10_000.0, 10.0,
            help="A store beside the prefill servers keeps the KV of earlier prompts; what it has "
            "of a shared prompt is read over the link and not computed. 0: no store.",
        )  # fmt: skip
    with right:
        number(
            "KV never used, share", "unused", 0.0, 1.0, 0.25,
            help="Share of the requests, 0 to 1, that the proxy hands over without "
            "kv_transfer_params: the decode server computes their prompts again.",
        )  # fmt: skip
        number("Transfers that fail, share", "failures", 0.0, 1.0, 0.1)
    st.toggle(
        "Recompute after a failed load", key=key("recompute"),
        help="When a transfer fails, the decode server computes the prompt again. Off: the "
        "request fails.",
    )  # fmt: skip
    st.toggle(
        "Reject early requests that would miss a limit", key=key("early_rejection"),
        help="A request that would miss the limit of TTFT or of a gap under the present load is "
        "rejected before anything is computed.",
    )  # fmt: skip


def number(
    label: str, name: str, least: Number, most: Number, step: Number = 1, help: str | None = None
) -> None:
    """A number box; on the main row all are as wide as a phone takes two."""
    st.number_input(
        label, min_value=least, max_value=most, step=step, key=key(name), help=help,
        width=140 if name in ("prefill", "decode", "rate", "prompt", "output") else "stretch",
    )  # fmt: skip


def key(name: str) -> str:
    return CHOICES[name].widget()

"""Figures below the board, behind a heading that one opens: computed only while it is open."""

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from ui import figures, runs
from ui.figures.look import Named
from ui.runs import Asked

CONFIG = {"displaylogo": False, "displayModeBar": False, "showSendToCloud": False}
FIGURES: Mapping[str, tuple[str, Callable[..., object]]] = {
    "Gaps between tokens": (
        "Each dot is one gap between two tokens of one request, at the moment it ended.",
        figures.itl_over_time,
    ),
    "First tokens": (
        "From arrival to the first output token, waiting included, of each request.",
        figures.ttft_per_request,
    ),
    "KV memory": ("KV blocks in use while each step runs.", figures.kv_use),
    "Queue": ("Requests that wait after each step was planned.", figures.queue_length),
}


def show(asked: Asked, beside: Asked | None, uploads: Mapping[str, bytes]) -> None:
    """An expander with a figure a tab; nothing is computed while it is closed."""
    box = st.expander("Figures", key="figures", on_change="rerun")
    if not box.open:
        return
    lanes = [Named("now", runs.result_of(asked.scenario, uploads, runs.NOW))]
    if beside is not None:
        lanes.append(Named("pinned", runs.result_of(beside.scenario, uploads, runs.PINNED)))
    with box:
        for tab, (name, (words, draw)) in zip(
            st.tabs(list(FIGURES), key="figure", on_change="rerun"), FIGURES.items(), strict=True
        ):
            if tab.open:
                with tab:
                    _figure(name, words, draw, lanes)


def _figure(name: str, words: str, draw: Callable[..., object], lanes: Sequence[Named]) -> None:
    st.caption(words + (" Grey: the pinned run." if len(lanes) > 1 else ""))
    plot = draw(lanes, dark=st.context.theme.type == "dark")
    st.plotly_chart(plot, theme=None, config=CONFIG, alt=f"{name}. {words}")

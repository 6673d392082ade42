"""Figures of the lesson on KV memory: pure functions from curves to Plotly."""

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from ui.charts.look import figure, palette

__all__ = ["swap_figure"]


def swap_figure(
    lengths: Sequence[int],
    recompute_s: Sequence[float],
    swap_s: Sequence[float],
    crossovers: Sequence[int],
    claimed: int,
    dark: bool,
) -> go.Figure:
    """Recompute and swap over the victim's tokens, with the crossovers and a claimed one marked."""
    colors = palette(dark)
    plot = figure("tokens of the victim", "ms", colors, height=340)
    for name, times, color, dash in (
        ("recompute", recompute_s, colors.prefill, "solid"),
        ("swap out and in", swap_s, colors.stall, "dash"),
    ):
        plot.add_scatter(
            x=lengths,
            y=[1e3 * t for t in times],
            mode="lines+markers",
            marker={"size": 5},
            line={"color": color, "width": 2, "dash": dash},
            name=name,
            hovertemplate=f"{name}, %{{x:,}} tokens: %{{y:.2f}} ms<extra></extra>",
        )
    plot.add_vline(x=claimed, line={"color": colors.other, "width": 1, "dash": "dot"})
    mark(plot, claimed, f"claimed: {claimed:,}", colors.ink, 0.02)
    for n in crossovers:
        plot.add_vline(x=n, line={"color": colors.ink, "width": 1})
        mark(plot, n, f"crossover: {n:,}", colors.ink, 0.97)
    plot.update_xaxes(type="log", tickvals=[16, 64, 256, 1024, 4096, 16384], tickformat=",")
    plot.update_yaxes(type="log", rangemode="normal", dtick=1)
    return plot


def mark(plot: go.Figure, x: int, text: str, color: str, y: float) -> None:
    plot.add_annotation(
        x=math.log10(x), y=y, yref="paper", text=text, showarrow=False, xanchor="right", xshift=-6,
        font={"color": color},
    )  # fmt: skip

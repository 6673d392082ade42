"""Figures of the lesson on the two phases: pure functions from operating points to Plotly."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from sim.latency.roofline import Point
from ui.charts.look import FONT, Palette, palette

__all__ = ["parts_figure", "per_token_figure", "roofline_figure"]

LABELS = {"prefill": "middle right", "decode": "bottom center", "together": "bottom left"}
CACHED, PREEMPTED = ("#e69f00", "#f0c14b"), ("#cc79a7", "#e5a3c8")  # light, dark


def colours(colors: Palette) -> dict[str, str]:
    """The colour of each kind of step."""
    return {"prefill": colors.prefill, "decode": colors.decode, "together": colors.ink}


def parts_of(colors: Palette, dark: bool) -> dict[str, tuple[str, str, float]]:
    """What the parts of a step are called, their colours and opacities."""
    return {
        "linear_layers": ("linear layers", colors.prefill, 1.0),
        "prefill_attention": ("attention, prompt", colors.prefill, 0.5),
        "decode_attention": ("attention, decodes", colors.decode, 1.0),
        "lm_head": ("LM head", CACHED[dark], 1.0),
        "activations": ("activations", PREEMPTED[dark], 1.0),
        "all_reduce": ("all-reduce", colors.stall, 1.0),
        "launch": ("launch", colors.other, 1.0),
        "host": ("host", colors.ink, 0.7),
    }


def layout(figure: go.Figure, colors: Palette, *, x: str, y: str, height: int = 380) -> go.Figure:
    figure.update_layout(
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": colors.ink, "size": 13, "family": FONT},
        height=height,
        margin={"l": 64, "r": 16, "t": 16, "b": 48},
        legend={"orientation": "h", "y": 1.08, "x": 0},
        xaxis_title=x,
        yaxis_title=y,
        hoverlabel={"align": "left"},
    )
    figure.update_xaxes(gridcolor=colors.line, linecolor=colors.line, automargin=True)
    figure.update_yaxes(gridcolor=colors.line, linecolor=colors.line, automargin=True)
    return figure


def roofline_figure(row: Any, points: Sequence[Point], dark: bool = False) -> go.Figure:
    """Peak compute and peak bandwidth of the replica, and where each step lands under them."""
    colors = palette(dark)
    peak, bandwidth = row.num_gpus * row.peak_flops, row.num_gpus * row.bandwidth
    ridge = peak / bandwidth
    intensities = np.array([0.25, ridge, max(8192.0, 8 * ridge)])
    roof = np.minimum(intensities * bandwidth, peak)
    figure = go.Figure()
    figure.add_scatter(
        x=intensities,
        y=roof / 1e12,
        mode="lines",
        line={"color": colors.other, "width": 2},
        name="roof of the spec sheet",
        hoverinfo="skip",
    )
    for point in points:
        figure.add_scatter(
            x=[point.intensity],
            y=[point.flop_per_s / 1e12],
            mode="markers+text",
            marker={"size": 14, "color": colours(colors)[point.name]},
            text=[point.name],
            textposition=LABELS[point.name],
            name=point.name,
            showlegend=False,
            hovertemplate=f"{point.name}<br>%{{x:.1f}} FLOP/byte<br>%{{y:.1f}} TFLOP/s"
            f"<br>{1e3 * point.seconds:.1f} ms<extra></extra>",
        )
    figure.add_vline(x=ridge, line={"color": colors.other, "width": 1, "dash": "dot"})
    figure.add_annotation(
        x=np.log10(ridge),
        y=np.log10(peak / 1e12),
        text=f"ridge: {ridge:,.0f} FLOP/byte",
        showarrow=False,
        yshift=14,
        xanchor="right",
        xshift=-6,
    )
    figure.update_xaxes(type="log", dtick=1)
    figure.update_yaxes(type="log", dtick=1)
    return layout(figure, colors, x="arithmetic intensity, FLOP per byte moved", y="TFLOP/s")


def parts_figure(points: Sequence[Point], dark: bool = False) -> go.Figure:
    """Where the time of each step goes, as stacked bars in ms."""
    colors = palette(dark)
    figure = go.Figure()
    names = [point.name for point in points]
    for part, (label, colour, opacity) in parts_of(colors, dark).items():
        ms = [1e3 * point.parts.seconds[part] for point in points]
        if max(ms) > 0:
            figure.add_bar(
                y=names,
                x=ms,
                name=label,
                orientation="h",
                marker={"color": colour, "opacity": opacity},
                hovertemplate=f"{label}: %{{x:.2f}} ms<extra>%{{y}}</extra>",
            )
    figure.update_layout(barmode="stack")
    figure.update_yaxes(autorange="reversed")
    layout(figure, colors, x="ms", y="", height=150 + 60 * len(points))
    figure.update_layout(legend={"y": -0.35, "x": 0, "traceorder": "normal"})
    return figure


def per_token_figure(
    decode: Sequence[tuple[int, float]],
    prefill: Sequence[tuple[int, float]],
    knee: float,
    dark: bool = False,
) -> go.Figure:
    """Time per token against the tokens of a step: decode batches and prompts, and the knee."""
    colors = palette(dark)
    figure = go.Figure()
    for name, series in (("decode", decode), ("prefill", prefill)):
        figure.add_scatter(
            x=[tokens for tokens, _ in series],
            y=[1e3 * seconds for _, seconds in series],
            mode="lines+markers",
            marker={"size": 5},
            line={"color": colours(colors)[name], "width": 2},
            name={"decode": "decode batch", "prefill": "prompt"}[name],
            hovertemplate="%{x:,} tokens: %{y:.3f} ms each<extra></extra>",
        )
    figure.add_vline(x=knee, line={"color": colors.other, "width": 1, "dash": "dot"})
    figure.add_annotation(
        x=np.log10(knee), y=1, yref="paper", text=f"knee: {knee:,.0f} tokens", showarrow=False,
        xanchor="left", xshift=6,
    )  # fmt: skip
    figure.update_xaxes(type="log", dtick=1)
    figure.update_yaxes(type="log", dtick=1)
    return layout(figure, colors, x="tokens in the step", y="ms per token")

"""Measured over simulated time of each step."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from ui.charts.look import figure, palette

SYMBOLS = ("circle", "diamond-open")


@dataclass(frozen=True)
class Points:
    """Steps of one run for the scatter, ms."""

    title: str
    simulated_ms: np.ndarray
    measured_ms: np.ndarray
    has_prompt: np.ndarray


def scatter(parts: Sequence[Points], dark: bool = False) -> go.Figure:
    """Each step at its simulated and its measured time, both axes logarithmic; on the line they
    agree. One symbol per run, one colour for steps with and without a prompt in them."""
    colors = palette(dark)
    plot = figure("simulated step, ms", "measured step, ms", colors, height=380)
    plot.update_xaxes(type="log", dtick=1, minor={"showgrid": True, "gridcolor": colors.line})
    plot.update_yaxes(type="log", dtick=1, minor={"showgrid": True, "gridcolor": colors.line})
    for k, part in enumerate(parts):
        for has_prompt, words, color in (
            (False, "decodes alone", colors.decode),
            (True, "with a prompt", colors.prefill),
        ):
            mine = part.has_prompt == has_prompt
            plot.add_scatter(
                x=part.simulated_ms[mine].astype(np.float32),
                y=part.measured_ms[mine].astype(np.float32),
                mode="markers",
                name=f"{words}, run {k + 1}" if len(parts) > 1 else words,
                marker={"color": color, "size": 7, "opacity": 0.7, "symbol": SYMBOLS[k % 2]},
                hovertemplate="simulated %{x:.2f} ms, measured %{y:.2f} ms",
            )
    everything = np.concatenate([np.concatenate([p.simulated_ms, p.measured_ms]) for p in parts])
    ends = [0.8 * float(everything.min()), 1.25 * float(everything.max())]
    plot.add_scatter(
        x=ends, y=ends, mode="lines", name="measured = simulated", hoverinfo="skip",
        line={"color": colors.other, "width": 1.5, "dash": "dot"},
    )  # fmt: skip
    return plot

"""What the server holds: KV blocks in use, requests that wait."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from ui.charts.look import Floats, Named, extremes_of_bins, figure, palette, shares


def kv_use(lanes: Sequence[Named], dark: bool = False) -> go.Figure:
    """KV blocks in use while each step runs, as a share of all."""
    plot = figure("time, s", "KV blocks in use, %", palette(dark))
    for k, lane in reversed(list(enumerate(lanes))):
        recording = lane.result.recording
        _stairs(
            plot,
            lanes,
            k,
            recording.steps,
            100 * recording.steps.kv_blocks / recording.num_blocks,
            dark,
        )
    return plot


def queue_length(lanes: Sequence[Named], dark: bool = False) -> go.Figure:
    """Requests that wait after each step was planned."""
    plot = figure("time, s", "requests waiting", palette(dark))
    for k, lane in reversed(list(enumerate(lanes))):
        steps = lane.result.recording.steps
        _stairs(plot, lanes, k, steps, steps.num_waiting.astype(np.float64), dark)
    return plot


def _stairs(
    plot: go.Figure, lanes: Sequence[Named], k: int, steps: np.recarray, values: Floats, dark: bool
) -> None:
    colors = palette(dark)
    kept = extremes_of_bins(steps.start_s, values, shares(lanes))
    plot.add_scatter(
        x=steps.start_s[kept].astype(np.float32),
        y=values[kept].astype(np.float32),
        mode="lines",
        name=lanes[k].name,
        line={"shape": "hv", "width": 2 if k == 0 else 1.5, "dash": "solid" if k == 0 else "dot",
              "color": colors.prefill if k == 0 else colors.other},
        hovertemplate="%{x:.2f} s: %{y:.1f}",
    )  # fmt: skip

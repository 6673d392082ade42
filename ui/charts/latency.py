"""What readers wait for: every gap between tokens over time, the first token of each request."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from sim.results import metrics
from sim.results.run import Result
from ui.charts.look import Floats, Named, figure, largest_of_bins, palette, shares
from ui.scenarios.settings import itl_limit_s

FEW = 12  # requests that have a trace, or a bar, each


def gaps(result: Result) -> tuple[np.ndarray, Floats, Floats]:
    """(request, end in s, length in s) of every gap between two tokens of one request."""
    recording = result.recording
    step = np.repeat(np.arange(len(recording.steps)), recording.steps.num_items)
    emits = recording.items.num_tokens == recording.items.num_needed
    request = recording.items.request[emits].astype(np.int64)
    end = (recording.steps.start_s + recording.steps.duration_s)[step[emits]]
    order = np.lexsort((end, request))
    request, end = request[order], end[order]
    same = request[1:] == request[:-1]
    return request[1:][same], end[1:][same], np.diff(end)[same]


def itl_over_time(lanes: Sequence[Named], dark: bool = False) -> go.Figure:
    """Each gap between two tokens of one request at the moment it ended, with percentiles."""
    colors = palette(dark)
    plot = figure("time, s", "gap between tokens, ms", colors)
    for k, lane in reversed(list(enumerate(lanes))):
        request, end, length = gaps(lane.result)
        kept = largest_of_bins(end, length, shares(lanes))
        request, end, length = request[kept], end[kept], length[kept]
        limit = itl_limit_s(lane.result.scenario)
        if k > 0:
            _dots(plot, lane.name, end, length, colors.other, "x")
            continue
        few = len(lane.result.recording.requests) <= FEW
        for r in np.unique(request) if few else (-1,):
            mine = request == r if few else np.ones(len(request), bool)
            name = lane.result.workload.label(int(r)) if few else lane.name
            shade = np.where(length[mine] > limit, colors.stall, colors.decode)
            _dots(plot, name, end[mine], length[mine], shade.tolist(), "circle")
        _lines(plot, lane.result, colors.ink)
    return plot


def _dots(
    plot: go.Figure, name: str, end: Floats, length: Floats, color: str | list[str], symbol: str
) -> None:
    plot.add_scatter(
        x=end.astype(np.float32),
        y=(1e3 * length).astype(np.float32),
        mode="markers",
        name=name,
        marker={"color": color, "size": 5, "symbol": symbol, "opacity": 0.75},
        hovertemplate="%{x:.3f} s: %{y:.1f} ms",
    )


def _lines(plot: go.Figure, result: Result, ink: str) -> None:
    block = result.summary["itl_s"]
    for name in ("p50", "p99") if block else ():
        plot.add_hline(
            y=1e3 * block[name],
            line={"color": ink, "width": 1, "dash": "dot"},
            annotation={"text": f"{name} {1e3 * block[name]:.1f} ms", "font": {"size": 12}},
            annotation_position="top right" if name == "p99" else "bottom right",
        )


def ttft_per_request(lanes: Sequence[Named], dark: bool = False) -> go.Figure:
    """From arrival to the first token, of each request: bars for a few, dots over time for many."""
    colors = palette(dark)
    few = all(len(lane.result.recording.requests) <= FEW for lane in lanes)
    x = "request, in order of arrival" if few else "arrival, s"
    plot = figure(x, "time to first token, ms", colors)
    for k, lane in reversed(list(enumerate(lanes))):
        requests = lane.result.recording.requests
        ttft = metrics.ttft_s(requests)
        told = np.flatnonzero(np.isfinite(ttft))
        color = colors.prefill if k == 0 else colors.other
        if few:
            names = [lane.result.workload.label(int(r)) for r in told]
            plot.add_bar(x=names, y=1e3 * ttft[told], name=lane.name, marker={"color": color},
                         hovertemplate="%{x}: %{y:.1f} ms")  # fmt: skip
            continue
        arrival, values = requests.arrival_s[told], ttft[told]
        kept = largest_of_bins(arrival, values, shares(lanes))
        plot.add_scatter(
            x=arrival[kept], y=1e3 * values[kept], mode="markers", name=lane.name,
            marker={"color": color, "size": 5, "symbol": "circle" if k == 0 else "x"},
            hovertemplate="arrived at %{x:.2f} s: %{y:.0f} ms",
        )  # fmt: skip
    return plot

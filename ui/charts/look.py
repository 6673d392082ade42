"""What all figures share: the palette, the layout, thinning."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from sim.results.run import Result

FONT = '"Source Sans", "Source Sans Pro", sans-serif'
CONFIG = {"displaylogo": False, "displayModeBar": False, "showSendToCloud": False}  # of Plotly
MOST_POINTS = 4_000  # of one figure, all its traces together
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Named:
    """A run and what to call it; the first of several is the one looked at."""

    name: str
    result: Result


@dataclass(frozen=True)
class Palette:
    """One colour, one meaning: those of the timeline."""

    prefill: str
    decode: str
    stall: str
    other: str
    ink: str
    line: str


LIGHT = Palette("#0072b2", "#009e73", "#d55e00", "#98a2b3", "#16181d", "#e3e6eb")
DARK = Palette("#56b4e9", "#2fc79a", "#ff8a3d", "#667085", "#eceff4", "#2a3240")


def palette(dark: bool) -> Palette:
    return DARK if dark else LIGHT


def figure(x: str, y: str, colors: Palette, height: int = 300) -> go.Figure:
    """An empty figure with its axes named, units included."""
    axis = {
        "gridcolor": colors.line, "zeroline": False, "linecolor": colors.line, "automargin": True,
    }  # fmt: skip
    layout = go.Layout(
        height=height,
        margin={"l": 64, "r": 16, "t": 32, "b": 48},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": colors.ink, "size": 13, "family": FONT},
        xaxis={"title": {"text": x}, **axis},
        yaxis={"title": {"text": y}, "rangemode": "tozero", **axis},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        hovermode="closest",
    )
    return go.Figure(layout=layout)


def shares(lanes: Sequence[Named]) -> int:
    """How many points each run may have."""
    return MOST_POINTS // max(1, len(lanes))


def largest_of_bins(x: Floats, y: Floats, most: int) -> NDArray[np.int64]:
    """Indices of at most `most` points, in order of x: the largest y of each of as many bins."""
    if len(x) <= most:
        return np.argsort(x, kind="stable")
    span = max(float(x.max() - x.min()), 1e-12)
    bins = np.minimum(((x - x.min()) / span * most).astype(np.int64), most - 1)
    order = np.lexsort((-y, bins))
    first = np.ones(len(order), bool)
    first[1:] = bins[order][1:] != bins[order][:-1]
    return order[first]


def extremes_of_bins(x: Floats, y: Floats, most: int) -> NDArray[np.int64]:
    """Indices in order of x: the least and the largest y of each of most / 2 bins."""
    if len(x) <= most:
        return np.arange(len(x))
    high = largest_of_bins(x, y, most // 2)
    low = largest_of_bins(x, -y, most // 2)
    return np.unique(np.concatenate([low, high]))

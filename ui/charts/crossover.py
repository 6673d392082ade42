"""Where disaggregation pays: a map of two choices, coloured by the better side."""

from collections.abc import Sequence

import plotly.graph_objects as go

from ui.charts.look import figure, palette

__all__ = ["crossover_figure"]

# Colours of their own, since they mean no phase: dark blue-violet against brown, safe for colour
# blindness, with a plain middle.
LIGHT = ("#8a5a00", "#f2f3f5", "#4a3aa7")
DARK = ("#d9a441", "#222a36", "#a99bff")
MOST = 0.5  # relative difference at which the colours end


def crossover_figure(
    across: Sequence[str],
    down: Sequence[str],
    gains: Sequence[Sequence[float | None]],
    texts: Sequence[Sequence[str]],
    titles: tuple[str, str],
    dark: bool,
) -> go.Figure:
    """`gains[j][i]`: (disaggregated - co-located) / larger of both, None where neither serves a
    request within the limits; `texts`: the same in a few characters, so colour is never alone."""
    colors = palette(dark)
    low, middle, high = DARK if dark else LIGHT
    plot = figure(titles[0], titles[1], colors, height=420)
    plot.add_heatmap(
        x=list(range(len(across))), y=list(range(len(down))), z=[list(row) for row in gains],
        zmin=-MOST, zmax=MOST, zmid=0, xgap=2, ygap=2,
        colorscale=[[0.0, low], [0.5, middle], [1.0, high]],
        showscale=False,
        hovertemplate="%{customdata}<extra></extra>", customdata=said(across, down, texts, titles),
        hoverongaps=False,
    )  # fmt: skip
    for j, row in enumerate(texts):
        for i, text in enumerate(row):
            gain = gains[j][i]
            strong = gain is not None and abs(gain) > MOST / 2
            plot.add_annotation(
                x=i, y=j, text=text, showarrow=False,
                font={"color": ("#0e1117" if dark else "#ffffff") if strong else colors.ink,
                      "size": 11},
            )  # fmt: skip
    places = {"tickmode": "array", "showgrid": False}
    plot.update_xaxes(tickvals=list(range(len(across))), ticktext=list(across), **places)
    plot.update_yaxes(
        tickvals=list(range(len(down))), ticktext=list(down), rangemode="normal", title_standoff=12,
        **places
    )  # fmt: skip
    return plot


def said(
    across: Sequence[str],
    down: Sequence[str],
    texts: Sequence[Sequence[str]],
    titles: Sequence[str],
) -> list[list[str]]:
    """What a cell says under the pointer."""
    return [
        [f"{titles[1]}: {down[j]}, {titles[0]}: {across[i]}: {text}" for i, text in enumerate(row)]
        for j, row in enumerate(texts)
    ]

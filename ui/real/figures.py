"""The scatter of step times and the table of figures."""

import html
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from ui.figures.look import figure, palette
from ui.real.results import Points, Row
from ui.six_ways.table import wrapped

SYMBOLS = ("circle", "diamond-open")


def scatter(parts: Sequence[Points], dark: bool = False) -> go.Figure:
    """Each step at its simulated and its measured time, both axes logarithmic; on the line they
    agree. One symbol a run, one colour for steps with and without a prompt in them."""
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


def table(title: str, rows: Sequence[Row]) -> str:
    """Measured, simulated and the difference between them, a row a figure."""
    body = "".join(
        f'<tr><th scope="row">{row.label}, {row.unit}</th><td>{shown(row.measured)}</td>'
        f"<td>{shown(row.simulated)}</td><td>{off(row.difference)}</td></tr>"
        for row in rows
    )
    names = ("", "Measured", "Simulated", "Difference")
    heads = "".join(f'<th scope="col">{name}</th>' if name else "<td></td>" for name in names)
    return wrapped(html.escape(title), heads, body, f"Figures of {html.escape(title, quote=True)}")


def shown(value: float | None) -> str:
    return "none" if value is None else f"{value:,.2f}"


def off(share: float | None) -> str:
    return "none" if share is None else f"{share:+.1%}"


TEXT_STYLE = """<style>
dl.bs-texts { display: grid; grid-template-columns: fit-content(9rem) minmax(0, 1fr);
  gap: 4px 16px; margin: 0; padding: 0; font-size: .875rem; line-height: 1.45; }
.bs-texts dt { margin: 0; padding: 0; font-weight: 600; }
.bs-texts dd { margin: 0; overflow-wrap: anywhere; }
</style>"""
MOST_SHOWN, MOST_TEXT = 40, 400


def texts(told: Sequence[tuple[str, str]], tail: bool = False) -> str:
    """What requests generated, as a list; `tail` shows the end of long ones."""
    items = []
    for label, text in told[:MOST_SHOWN]:
        clean = "".join(c if c.isprintable() else " " for c in text)
        if len(clean) > MOST_TEXT:
            clean = f"… {clean[-MOST_TEXT:]}" if tail else f"{clean[:MOST_TEXT]} …"
        items.append(f"<dt>{html.escape(label)}</dt><dd>{html.escape(clean)}</dd>")
    return f'{TEXT_STYLE}<dl class="bs-texts">{"".join(items)}</dl>'

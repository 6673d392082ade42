"""The table of figures, measured beside simulated, and the list of generated texts, as HTML."""

import html
from collections.abc import Sequence

from ui.charts.html_table import wrapped
from ui.real_engine.results import Row


def table(title: str, rows: Sequence[Row]) -> str:
    """Measured, simulated and the difference between them, one row per figure."""
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

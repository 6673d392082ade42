"""The trade-off matrix and the wastes as HTML: best and worst of each column in words and
colour."""

import html
from collections.abc import Sequence

from ui.six_ways.figures_of import COLUMNS, Outcome, marks, row, wastes
from ui.units import count, seconds

STYLE = """<style>
.bs-matrix { overflow-x: auto; }
.bs-matrix table { border-collapse: collapse; width: 100%; font-size: .9rem;
  font-variant-numeric: tabular-nums; }
.bs-matrix caption { text-align: left; padding: 0 0 6px; font-size: .875rem; color: MUTED; }
.bs-matrix th, .bs-matrix td { padding: 6px 6px; border-bottom: 1px solid LINE; text-align: right;
  vertical-align: top; border-width: 0 0 1px; }
.bs-matrix thead th { color: MUTED; font-weight: 600; font-size: .8125rem; line-height: 1.25; }
.bs-matrix th:first-child { text-align: left; white-space: nowrap; }
.bs-matrix tbody th { font-weight: 600; }
.bs-matrix small { display: block; font-size: .75rem; line-height: 1.1; }
.bs-matrix .best { color: BEST; font-weight: 600; }
.bs-matrix .worst { color: WORST; font-weight: 600; }
.bs-matrix .words { text-align: left; min-width: 12rem; }
.bs-ways p { margin: 0 0 10px; line-height: 1.5; max-width: 60rem; }
</style>"""
LIGHT = {"MUTED": "#5b6472", "LINE": "#e3e6eb", "BEST": "#007a59", "WORST": "#a84300"}
DARK = {"MUTED": "#98a2b3", "LINE": "#2a3240", "BEST": "#2fc79a", "WORST": "#ff9a55"}


def style(dark: bool) -> str:
    text = STYLE
    for name, color in (DARK if dark else LIGHT).items():
        text = text.replace(name, color)
    return text


def matrix(outcomes: Sequence[Outcome], where: str) -> str:
    """The matrix. `where`: the model and the GPU, for its caption."""
    rows = [row(outcome) for outcome in outcomes]
    marked = [
        marks([values[k] for values in rows], column.less) for k, column in enumerate(COLUMNS)
    ]
    heads = "".join(
        f'<th scope="col">{column.name}<small>{column.unit}</small></th>' for column in COLUMNS
    )
    body = []
    for i, outcome in enumerate(outcomes):
        cells = "".join(
            cell(rows[i][k], column.digits, marked[k][i]) for k, column in enumerate(COLUMNS)
        )
        body.append(
            f'<tr><th scope="row">{outcome.way.title}</th>{cells}'
            f'<td class="words">{outcome.way.complexity}<small>{outcome.way.because}</small></td>'
            "</tr>"
        )
    return wrapped(
        f"Computed for this workload on {html.escape(where)}",
        f'<th scope="col">Way</th>{heads}'
        '<th scope="col" class="words">Operational complexity<small>our judgement</small></th>',
        "".join(body),
        "Trade-offs",
    )


def cell(value: float | None, digits: int, mark: str) -> str:
    if value is None:
        return "<td>none</td>"
    words = f"<small>{mark}</small>" if mark else ""
    return f'<td class="{mark}">{value:,.{digits}f}{words}</td>'


def wasted(outcomes: Sequence[Outcome]) -> str:
    """What each way wastes."""
    body = []
    for outcome in outcomes:
        lost = wastes(outcome)
        unused = "has no budget" if lost.unused is None else f"{lost.unused:.0%}"
        stalls = f"{count(lost.stalls)}, {seconds(lost.stalled_s)}" if lost.stalls else "none"
        body.append(
            f'<tr><th scope="row">{outcome.way.title}</th><td>{lost.padding:.0%}</td>'
            f"<td>{stalls}</td><td>{unused}</td><td>{lost.idle:.0%}</td></tr>"
        )
    limit = seconds(outcomes[0].limit_s) if outcomes else ""
    heads = (
        ("Padding", "of all computed tokens"),
        (f"Gaps above {limit}", "how many, and all together"),
        ("Budget unused", "in steps that run prompts"),
        ("Idle", "no step runs"),
    )
    columns = "".join(f'<th scope="col">{name}<small>{what}</small></th>' for name, what in heads)
    return wrapped(
        "What each way wastes",
        f'<th scope="col">Way</th>{columns}',
        "".join(body),
        "Wastes",
    )


def wrapped(caption: str, heads: str, body: str, label: str) -> str:
    return (
        f'<div class="bs-matrix" tabindex="0" role="region" aria-label="{label}"><table>'
        f"<caption>{caption}</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody>"
        "</table></div>"
    )


def verdicts(told: Sequence[tuple[str, str]]) -> str:
    """A sentence for each way."""
    rows = (
        f"<p><b>{html.escape(name)}</b><br>{html.escape(sentence)}</p>" for name, sentence in told
    )
    return f'<div class="bs-ways">{"".join(rows)}</div>'

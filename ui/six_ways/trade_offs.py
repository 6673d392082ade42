"""The trade-off matrix and the wastes as HTML: best and worst of each column in words and
colour."""

import html
from collections.abc import Sequence

from ui.charts.html_table import wrapped
from ui.six_ways.outcomes import COLUMNS, Outcome, marks, row, wastes
from ui.text.units import count, seconds


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
        way = outcome.way
        body.append(
            f'<tr><th scope="row">{way.title}</th>{cells}'
            f'<td class="words">{way.complexity}<small>{way.complexity_reason}</small></td>'
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


def verdicts(told: Sequence[tuple[str, str]]) -> str:
    """A sentence for each way."""
    rows = (
        f"<p><b>{html.escape(name)}</b><br>{html.escape(sentence)}</p>" for name, sentence in told
    )
    return f'<div class="bs-ways">{"".join(rows)}</div>'

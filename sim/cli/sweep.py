"""`python -m sim sweep`: a grid of settings as a table, on this machine or on a Dask cluster."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from sim.cli.commands import Refused, cancel_on_interrupt
from sim.cli.exit_status import INTERRUPTED
from sim.cli.report import BLOCKS, POINTS, number
from sim.results.export import write_csv
from sim.scenario.load import ScenarioError, load_scenario
from sim.sweep.grid import parse_axis
from sim.sweep.sweep import Row, Sweep, open_executor, run_sweep

__all__ = ["sweep_command", "sweep_csv", "sweep_table"]

PERCENTILE_BLOCKS = (*BLOCKS, "kv_transfer_s")
NOT_SCALAR = ("status", "reason", "rejected_reasons", "stop_reasons", "replicas")
SHOWN_ROWS = 40
# The columns of the table on the screen: key of the summary, heading, factor.
SHOWN = (
    ("ttft_s_p50", "TTFT p50 ms", 1e3),
    ("ttft_s_p95", "TTFT p95 ms", 1e3),
    ("itl_s_p99", "ITL p99 ms", 1e3),
    ("output_tokens_per_s", "tokens/s", 1.0),
    ("goodput_rps", "goodput req/s", 1.0),
)


@click.command("sweep")
@click.argument("scenario", type=click.Path(path_type=Path))
@click.option(
    "--grid",
    "grids",
    multiple=True,
    required=True,
    metavar="NAME=V,V,...",
    help="A knob, or a path such as workload.classes[0].arrivals.rate_per_s, and its values.",
)
@click.option(
    "--executor",
    "address",
    default="threads",
    show_default=True,
    metavar="threads|dask://HOST:PORT",
    help="A Dask cluster needs `pip install distributed`; its workers must be able to import sim "
    "and to read the workload's file where there is one.",
)
@click.option("--csv", "csv_file", type=click.Path(path_type=Path), help="Write the table here.")
@click.option(
    "--deadline",
    "deadline_s",
    type=click.FloatRange(min=0, min_open=True),
    help="Wall seconds after which one setting ends with status bounded.",
)
def sweep_command(
    scenario: Path,
    grids: tuple[str, ...],
    address: str,
    csv_file: Path | None,
    deadline_s: float | None,
) -> None:
    """Run SCENARIO at every point of a grid and print a table in grid order.

    The last --grid varies fastest. A setting that the engine refuses is a row with status "refused"
    and the reason. Ctrl-C ends the sweep; finished rows are written."""
    base = load_scenario(scenario)
    try:
        axes = [parse_axis(base, text) for text in grids]
        check_writable(csv_file)
        with open_executor(address) as executor:
            sweep = run_sweep(
                base,
                axes,
                executor=executor,
                deadline_s=deadline_s,
                progress=progress_on_stderr(),
                cancelled=cancel_on_interrupt(),
                base_folder=scenario.parent.absolute(),
            )
    except ScenarioError as error:
        raise Refused(f"--grid {error}") from None
    except ValueError as error:
        raise Refused(f"--executor {error}") from None
    click.echo(sweep_table(sweep))
    if csv_file is not None:
        with csv_file.open("w", encoding="utf-8", newline="") as stream:
            write_csv(stream, *sweep_csv(sweep))
        click.echo(f"wrote {csv_file}", err=True)
    if not sweep.complete:
        words = f"cancelled: {len(sweep.rows):,} of {sweep.total:,} settings are done"
        click.echo(words, err=True)
        raise click.exceptions.Exit(INTERRUPTED)
    if all(row.summary is None for row in sweep.rows):
        first = sweep.rows[0]
        raise Refused(f"no setting could run; the first was {first.status}: {first.reason}")


def check_writable(path: Path | None) -> None:
    """Check before the sweep that the file can be written."""
    if path is None:
        return
    try:
        path.open("a", encoding="utf-8").close()
    except OSError as error:
        raise Refused(f"--csv {path}: {(error.strerror or str(error)).lower()}") from None


def progress_on_stderr() -> Callable[[int, int], None]:
    """A counter on a terminal; one line per tenth elsewhere."""
    last = [-1]
    terminal = sys.stderr.isatty()

    def show(done: int, total: int) -> None:
        tenth = 10 * done // total
        words = f"{done:,} of {total:,} settings"
        if terminal:
            click.echo(f"\r{words}", err=True, nl=done == total)
        elif tenth > last[0]:
            click.echo(words, err=True)
        last[0] = tenth

    return show


# --- tables ---------------------------------------------------------------------------------------


def sweep_csv(sweep: Sweep) -> tuple[list[str], Iterator[list[Any]]]:
    """Header and rows: the columns of the grid, status, reason, then the summary. Units are in the
    names: _s seconds, _bytes, _rps and _per_s per second, else counts or shares."""
    ran = next((row.summary for row in sweep.rows if row.summary is not None), None)
    figures = list(flat(ran)) if ran is not None else []
    header = [*(axis.name for axis in sweep.axes), "status", "reason", *figures]

    def rows() -> Iterator[list[Any]]:
        for row in sweep.rows:
            values = flat(row.summary) if row.summary is not None else {}
            cells = [values.get(name) for name in figures]
            yield [*map(value_text, row.values), row.status, row.reason, *cells]

    return header, rows()


def flat(summary: dict[str, Any]) -> dict[str, Any]:
    """The scalar figures of a summary; ttft_s.p50 as ttft_s_p50."""
    figures: dict[str, Any] = {}
    for name, value in summary.items():
        if name in PERCENTILE_BLOCKS:
            block = value or {}
            figures |= {f"{name}_{point}": block.get(point) for point in POINTS}
        elif name not in NOT_SCALAR:
            figures[name] = value
    return figures


def value_text(value: Any) -> str:
    """A value of the grid as written on the command line."""
    return value if isinstance(value, str) else json.dumps(value)


def sweep_table(sweep: Sweep) -> str:
    """The first rows with a few figures, in columns."""
    header = [*(axis.name.rpartition(".")[2] for axis in sweep.axes), "status"]
    table = [[*header, *(heading for _, heading, _ in SHOWN)]]
    notes = []
    for row in sweep.rows[:SHOWN_ROWS]:
        table.append([*map(value_text, row.values), row.status, *shown_figures(row)])
        if row.summary is None:
            notes.append(f"{', '.join(map(value_text, row.values))}: {row.status}: {row.reason}")
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        for cells in table
    ]
    if len(sweep.rows) > SHOWN_ROWS:
        lines.append(f"... {len(sweep.rows) - SHOWN_ROWS:,} more rows; --csv FILE has all")
    return "\n".join([*lines, *notes])


def shown_figures(row: Row) -> list[str]:
    values = flat(row.summary) if row.summary is not None else {}
    figures = ((values.get(name), factor) for name, _, factor in SHOWN)
    return [number(None if value is None else value * factor) for value, factor in figures]

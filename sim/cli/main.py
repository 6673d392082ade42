"""`python -m sim`: the simulator on the command line.

Exit 0 on success; 1 where a check finds a difference; 2 with one sentence on stderr for bad input.
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path

import click

from sim import replay
from sim.cli import bench
from sim.cli.commands import Refused, cancel_on_interrupt
from sim.cli.exit_status import INTERRUPTED
from sim.cli.report import summary_table, workload_table
from sim.cli.sweep import sweep_command
from sim.latency import table
from sim.results.export import write_trace
from sim.results.perfetto import write_perfetto
from sim.results.run import Result, simulate
from sim.scenario.load import Scenario, ScenarioError, load_scenario
from sim.workload.trace_reader import FORMATS, Imported, read_trace
from sim.workload.workload import describe

__all__ = ["main", "sim"]

SHOWN_REFUSALS = 20


@click.group(name="sim", context_settings={"help_option_names": ["-h", "--help"]})
def sim() -> None:
    """Batchscope: how an LLM server decides, step by step, which tokens run on the GPU."""


# --- run ------------------------------------------------------------------------------------------


@sim.command("run")
@click.argument("scenario", required=False, type=click.Path(path_type=Path))
@click.option("--summary", type=click.Choice(["json", "table"]), default="table")
@click.option("--trace", type=click.Path(path_type=Path), help="Write the tables to this folder.")
@click.option("--perfetto", type=click.Path(path_type=Path), help="Write a Chrome trace here.")
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), help="Overrides the seed of the scenario."
)
@click.option("--schema", is_flag=True, help="Print the JSON schema of a scenario file.")
def run_command(
    scenario: Path | None,
    summary: str,
    trace: Path | None,
    perfetto: Path | None,
    seed: int | None,
    schema: bool,
) -> None:
    """Run SCENARIO (.json or .toml) and print its metrics.

    --trace writes steps.csv, requests.csv and scenario.json, --perfetto a trace for
    ui.perfetto.dev. Ctrl-C ends the run as cancelled.
    """
    if schema:
        click.echo(json.dumps(Scenario.model_json_schema(), indent=2))
        return
    if scenario is None:
        raise Refused("SCENARIO is missing: a .json or .toml file; examples/ holds some")
    wanted = load_scenario(scenario)
    if trace is not None:
        check_folder("--trace", trace)
    if perfetto is not None:
        check_file("--perfetto", perfetto)
    if seed is not None:
        wanted = wanted.model_copy(update={"seed": seed})
    try:
        result = simulate(wanted, base_folder=scenario.parent, cancelled=cancel_on_interrupt())
    except ScenarioError as error:
        raise Refused(f"{scenario}: {error}") from None
    if summary == "json":
        click.echo(json.dumps(result.summary, indent=2, allow_nan=False))
    else:
        click.echo(summary_table(result.summary, result.findings))
    for note in result.notes:
        click.echo(f"note: {note}", err=True)
    if trace is not None:
        write_tables(trace, result, scenario.parent)
    if perfetto is not None:
        write_chrome_trace(perfetto, result)
    if result.all_rejected:
        raise Refused(f"{scenario}: {'; '.join(result.rejections)}")


def check_folder(option: str, folder: Path) -> None:
    """Refuse an output folder that cannot be written to, before a long run."""
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not above.is_dir():
        raise Refused(f"{option} {folder}: {above} is a file, not a folder")
    if not os.access(above, os.W_OK):
        raise Refused(f"{option} {folder}: {above} may not be written to")


def check_file(option: str, path: Path) -> None:
    """The same for a file, whose folder must exist."""
    if path.is_dir():
        raise Refused(f"{option} {path}: is a folder, not a file")
    if not path.parent.is_dir():
        raise Refused(f"{option} {path}: no such file or directory")
    check_folder(option, path.parent)


def write_tables(folder: Path, result: Result, base_folder: Path) -> None:
    workload = result.workload
    try:
        paths = write_trace(
            folder,
            result.recording,
            result.resolved,
            workload.label,
            workload.class_names,
            base_folder,
        )
    except OSError as error:
        raise Refused(f"--trace {folder}: {(error.strerror or str(error)).lower()}") from None
    click.echo(f"wrote {', '.join(map(str, paths))}", err=True)


def write_chrome_trace(path: Path, result: Result) -> None:
    try:
        with path.open("w", encoding="utf-8") as stream:
            write_perfetto(stream, result.recording, result.resolved, result.workload.label)
    except OSError as error:
        raise Refused(f"--perfetto {path}: {(error.strerror or str(error)).lower()}") from None
    click.echo(f"wrote {path}", err=True)


# --- sweep ----------------------------------------------------------------------------------------

sim.add_command(sweep_command)


# --- latency --------------------------------------------------------------------------------------


@sim.command("latency")
@click.argument("rows", type=click.Path(path_type=Path))
def latency_command(rows: Path) -> None:
    """Predict the step times of ROWS.csv: the same table with a column predicted_ms."""
    try:
        with rows.open(encoding="utf-8-sig", newline="") as stream:
            notes, compared = table.predict_table(stream, sys.stdout)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Refused(f"{rows}: {(error.strerror or str(error)).lower()}") from None
    except ValueError as error:
        raise Refused(f"{rows}: {error}") from None
    for line in (*notes, *table.errors_by_group(compared)):
        click.echo(line, err=True)


# --- import ---------------------------------------------------------------------------------------


@sim.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--as", "form", type=click.Choice(list(FORMATS)), help="Default: by the columns.")
@click.option("--rate", type=float, help="Requests per second, for a file without a time column.")
def import_command(file: Path, form: str | None, rate: float | None) -> None:
    """Read FILE as a workload: format, rows taken and refused, percentiles."""
    try:
        imported = read_trace(file, form, rate_per_s=rate)
    except ValueError as error:
        raise Refused(str(error)) from None
    click.echo(f"{file}: {imported.format}")
    click.echo(f"rows {imported.num_rows:,}, taken {imported.taken:,}, ", nl=False)
    click.echo(f"refused {len(imported.refused):,}")
    for role, column in imported.columns.items():
        click.echo(f"  {role}: {column}")
    for note in imported.notes:
        click.echo(f"note: {note}")
    show_refused(imported)
    click.echo(workload_table(describe(imported.workload)))


def show_refused(imported: Imported) -> None:
    """Line and reason of the first refused rows, then the count of each reason."""
    for line, reason in imported.refused[:SHOWN_REFUSALS]:
        click.echo(f"refused line {line}: {reason}")
    rest = imported.refused[SHOWN_REFUSALS:]
    if rest:
        click.echo(f"refused {len(rest):,} more, up to line {rest[-1][0]}:")
        for reason, count in Counter(reason for _, reason in rest).most_common(SHOWN_REFUSALS):
            click.echo(f"  {count:,} x {reason}")


# --- replay ---------------------------------------------------------------------------------------


@sim.command("replay")
@click.argument("cases", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Compare with the trace that each file records.")
def replay_command(cases: tuple[Path, ...], check: bool) -> None:
    """Replay recorded scheduler CASES step by step, one JSON line per case."""
    outcomes: Counter[str] = Counter()
    for path in cases:
        try:
            outcomes[replay_one(path, check)] += 1
        except UNREADABLE as error:
            words = (
                str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            )
            where = "" if str(path) in words else f"{path}: not a case that can be replayed: "
            click.echo(f"error: {where}{words}", err=True)
            outcomes["unreadable"] += 1
    if check:
        counts = ", ".join(f"{outcomes[name]} {name}" for name in ("equal", "differ", "skipped"))
        click.echo(f"replayed {len(cases)} cases: {counts}")
    raise click.exceptions.Exit(2 if outcomes["unreadable"] else 1 if outcomes["differ"] else 0)


# Exceptions that a malformed case may raise.
UNREADABLE = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    OverflowError,
    MemoryError,
)


def replay_one(path: Path, check: bool) -> str:
    """Replay one file; returns "equal", "differ", "skipped", or "" where nothing is compared."""
    case, document = replay.read_case(path)
    if case.engine not in replay.SCHEMAS:
        click.echo(f"{path}: skipped: policy not built ({case.engine})", err=True)
        return "skipped"
    if not check:
        click.echo(json.dumps(replay.replay(case)))
        return ""
    engine = replay.SCHEMAS[case.engine]
    if reason := engine.skip(document):
        click.echo(f"{path}: skipped: {reason}")
        return "skipped"
    if found := replay.difference(replay.replay(case), engine.recorded(document)):
        click.echo(f"{path}: differs: {found}")
        return "differ"
    return "equal"


# --- bench ----------------------------------------------------------------------------------------


@sim.command("bench")
@click.option("--list", "only_list", is_flag=True, help="Print the engines and workloads and exit.")
def bench_command(only_list: bool) -> None:
    """Time the core on this machine: a table, then one JSON line."""
    if only_list:
        bench.list_rows(click.echo)
    else:
        bench.run(click.echo)


# --- errors ---------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; exceptions become an exit status and a message."""
    try:
        status = sim.main(args=arguments, prog_name="python -m sim", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        click.echo(f"error: {error.format_message()}", err=True)
        return 2
    except ValueError as error:
        click.echo(f"error: {error}", err=True)
        return 2

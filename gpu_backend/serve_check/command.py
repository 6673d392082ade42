"""`python -m gpu_backend serve-check`: measure a server under a workload, beside the simulation."""

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from gpu_backend.serve_check.client import Client, measure
from gpu_backend.serve_check.endpoint_policy import ENDPOINTS, KEY, endpoint_of
from gpu_backend.serve_check.figures import BLOCKS, compare
from gpu_backend.terminal import cancel_once_begun, progress_line
from sim.cli.commands import Refused
from sim.cli.exit_status import INTERRUPTED
from sim.results.run import workload_of
from sim.scenario.load import Scenario, load_scenario, parse_scenario
from sim.workload.workload import Workload

__all__ = ["SMALL_WORKLOAD", "report_table", "serve_check_command"]

# Without a scenario: four chats and one long prompt, small enough for a laptop's server.
SMALL_WORKLOAD: dict[str, Any] = {
    "classes": [
        {
            "name": "chat",
            "arrivals": {"kind": "at", "times_s": [0.0, 0.2, 0.4, 0.6]},
            "prompt": {"kind": "fixed", "tokens": 64},
            "output": {"kind": "fixed", "tokens": 32},
        },
        {
            "name": "document",
            "arrivals": {"kind": "at", "times_s": [0.5]},
            "prompt": {"kind": "fixed", "tokens": 512},
            "output": {"kind": "fixed", "tokens": 16},
        },
    ]
}

LABEL = 24


@click.command(
    "serve-check",
    epilog=f"Hosts other than this machine must be listed in ${ENDPOINTS}: host or host:port, "
    f"separated by commas. A key comes from ${KEY} only.",
)
@click.argument("url")
@click.option("--model", help="Default: the first one that the server lists.")
@click.option("--scenario", "file", type=click.Path(path_type=Path), help="Whose requests to send.")
@click.option("--no-ignore-eos", is_flag=True, help="For servers that do not know ignore_eos.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def serve_check_command(
    url: str, model: str | None, file: Path | None, no_ignore_eos: bool, as_json: bool
) -> None:
    """Send a workload to the OpenAI-compatible server at URL and time its streams.

    URL is its root or /v1 (then /v1/completions is used, with prompts of exact length), or one that
    ends in /completions or /chat/completions. With --scenario the report has the simulation of that
    server beside the measurement. Ctrl-C ends it with the results so far."""
    endpoint = endpoint_of(url)
    scenario = None if file is None else load_scenario(file)
    workload = requests_of(scenario, file)
    client = Client(endpoint, model, ignore_eos=not no_ignore_eos)
    cancelled = cancel_once_begun()
    with progress_line() as show:
        name, outcomes = asyncio.run(
            measure(
                client,
                workload,
                progress=lambda done, total: show(f"{done} of {total} requests"),
                cancelled=cancelled,
            )
        )
    report = compare(name, outcomes, workload, scenario)
    click.echo(json.dumps(report, indent=2, allow_nan=False) if as_json else report_table(report))
    if cancelled():
        begun = sum(bool(outcome.chunk_s) for outcome in outcomes)
        click.echo(f"cancelled: {begun} of {len(outcomes)} answers had begun", err=True)
        raise click.exceptions.Exit(0 if begun else INTERRUPTED)
    if report["finished"] == 0:
        first = next(iter(report["errors"]), "no request ended")
        raise Refused(f"{endpoint.url}: no request was answered; the first reason: {first}")


def requests_of(scenario: Scenario | None, file: Path | None) -> Workload:
    """The requests to send."""
    if scenario is None or file is None:
        toy = {"policy": {"engine": "vllm_v1"}, "latency": {"kind": "linear"}}
        return workload_of(parse_scenario({"workload": SMALL_WORKLOAD, "replicas": [toy]}))[0]
    return workload_of(scenario, base_folder=file.parent)[0]


def report_table(report: dict[str, Any]) -> str:
    """The report as text, times in ms."""
    lines = [
        f"model {report['model']}",
        f"{'':<{LABEL}}{'measured':>12}{'simulated':>12}{'difference':>12}",
    ]
    measured, simulated = report["measured"], report["simulated"] or {}
    difference = report["difference"] or {}
    for name in (*BLOCKS, "inter_chunk_s"):
        for point in ("p50", "p95"):
            sides = (figures.get(name) or {} for figures in (measured, simulated, difference))
            real, ours, off = (side.get(point) for side in sides)
            lines.append(line(f"{name[:-2]} {point}, ms", real, ours, off, 1e3))
    name = "output_tokens_per_s"
    figures = measured[name], simulated.get(name), difference.get(name)
    lines.append(line("output tokens/s", *figures, 1.0))
    others = [name for name in ("failed", "aborted", "cancelled") if report[name]]
    counts = [f"{name} {report[name]}" for name in ("requests", "finished", *others)]
    lines.append(", ".join(counts))
    lines += [f"  {count} not finished: {error}" for error, count in report["errors"].items()]
    if report["contaminated"]:
        lines.append(f"not an open loop: {report['contaminated_why']}")
    lines += [f"note: {note}" for note in report["notes"]]
    return "\n".join([*lines, f"TPOT: {report['tpot_definition']}"])


def line(
    label: str, measured: float | None, simulated: float | None, off: float | None, factor: float
) -> str:
    cells = ["-" if value is None else f"{value * factor:,.2f}" for value in (measured, simulated)]
    share = "-" if off is None else f"{off:+.1%}"
    return f"{label:<{LABEL}}" + "".join(f"{cell:>12}" for cell in (*cells, share))

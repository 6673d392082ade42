"""`python -m gpu_backend`: the real engine on the command line.

Exit 0 on success; 2 with one sentence on stderr for bad input or a run that failed; 130 when
interrupted before there was a result.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from sim.cli.exit_status import INTERRUPTED

# torch takes seconds to load; an exception from Ctrl-C would be lost in an import
before = signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
try:
    import click

    from gpu_backend.calibration.command import calibrate_command
    from gpu_backend.device import OutOfMemory, choose
    from gpu_backend.engine import presets
    from gpu_backend.engine.presets import TEMPERATURES
    from gpu_backend.engine.run import BLOCKS, POINTS, Comparison, RealRun, compare, run_scenario
    from gpu_backend.engine.sampling import Sampling
    from gpu_backend.models import smollm2, zoo
    from gpu_backend.serve_check.command import serve_check_command
    from gpu_backend.terminal import cancel_once_begun, device_options, progress_line
    from sim.results.run import workload_of
    from sim.scenario.load import Scenario, load_scenario
finally:
    signal.signal(signal.SIGINT, before)

__all__ = ["gpu_backend", "main"]

LABEL = 24
TITLE = 48
SHOWN_TEXT = 60


@click.group(name="gpu_backend", context_settings={"help_option_names": ["-h", "--help"]})
def gpu_backend() -> None:
    """Batchscope's real engine: the simulator's scheduler, steps run by PyTorch."""


@gpu_backend.command("models")
def models_command() -> None:
    """List the models that can run here and where they are stored."""
    device = choose()
    where = f"{device.title}, {device.dtype_name}, {device.threads} CPU threads"
    click.echo(f"runs on {where}")
    for offer in zoo.offers(device):
        click.echo(f"{offer.name:<{LABEL}}{offer.title:<{TITLE}}{offer.state}")
    click.echo("or the path of a folder with config.json and safetensors: Llama, Qwen2, Qwen3")


@gpu_backend.command("fetch")
@click.argument("name", type=click.Choice(["smollm2"]))
def fetch_command(name: str) -> None:
    """Download SmolLM2-135M-Instruct (93 MB), check its sha256, and convert it."""
    try:
        with progress_line() as show:
            folder = smollm2.fetch(lambda stage, share: show(stage_words(stage, share)))
    except smollm2.FetchError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{name}: {folder}")


def stage_words(stage: str, share: float | None) -> str:
    return stage if share is None else f"{stage} {share:4.0%}"


# --- run ------------------------------------------------------------------------------------------


@gpu_backend.command("run")
@click.option("--model", default=zoo.DEFAULT, show_default=True, help="See `models`.")
@click.option("--scenario", type=click.Path(path_type=Path), help="Default: chats, a long prompt.")
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), help="Overrides the seed of the scenario."
)
@click.option(
    "--temperature", type=click.FloatRange(*TEMPERATURES), default=0.0, help="0 is greedy."
)
@device_options
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def run_command(
    model: str,
    scenario: Path | None,
    seed: int | None,
    temperature: float,
    kind: str,
    dtype: str,
    threads: int | None,
    as_json: bool,
) -> None:
    """Run the requests of a scenario on the real engine, then simulate the same requests.

    Ctrl-C ends the run and keeps what was measured so far.
    """
    wanted = presets.scenario() if scenario is None else load_scenario(scenario)
    if seed is not None:
        wanted = wanted.model_copy(update={"seed": seed})
    workload, notes = workload_of(wanted, base_folder=scenario.parent if scenario else None)
    with progress_line() as show:
        run = run_scenario(
            wanted,
            workload,
            choose(kind, dtype, threads),
            model=model,
            sampling=Sampling(temperature, wanted.seed),
            cancelled=cancel_once_begun(),
            on_update=lambda update: show(update.words),
        )
    for note in (*notes, *run.job.notes, *notes_of(wanted, run)):
        click.echo(f"note: {note}", err=True)
    if run.output.error is not None:
        raise click.ClickException(run.output.error)
    comparison = compare(run)
    if as_json:
        click.echo(json.dumps(comparison.report(), indent=2, allow_nan=False))
    else:
        click.echo(table(comparison))


def notes_of(scenario: Scenario, run: RealRun) -> list[str]:
    """Notes: how a run ended, and whether its times are reliable."""
    notes = []
    if run.recording.status != "finished":
        status = run.recording.status
        reason = run.recording.reason or status
        notes.append(reason if reason.startswith(status) else f"{status}: {reason}")
    if run.output.contaminated_why is not None:
        why = run.output.contaminated_why
        notes.append(f"the machine was not quiet, so the times are not reliable: {why}")
    if scenario.replicas[0].latency.kind in ("linear", "roofline"):
        notes.append("simulated with a first guess: this machine's bandwidth and GEMM peak")
    return notes


def table(comparison: Comparison) -> str:
    """The metrics as text, times in ms."""
    run = comparison.run
    lines = [
        f"{run.device.title}, {run.device.dtype_name}, {run.device.threads} threads; {run.backend}",
        f"{run.loaded.title}: {len(run.recording.requests)} requests, "
        f"{len(run.recording.steps)} steps",
        f"{'':<{LABEL}}{'measured':>12}{'simulated':>12}{'difference':>12}",
    ]
    sides = (comparison.measured, comparison.simulated, comparison.difference)
    for name in BLOCKS:
        for point in POINTS:
            cells = [side[name] and side[name][point] for side in sides]
            lines.append(row(f"{name[:-2]} {point}, ms", cells, 1e3))
    for name, unit in (("duration_s", "duration, s"), ("output_tokens_per_s", "output tokens/s")):
        lines.append(row(unit, [side[name] for side in sides], 1.0))
    if comparison.step_error is not None:
        lines.append(
            f"step time, mean absolute error of the simulation: {comparison.step_error:.1%}"
        )
    for r in range(len(run.recording.requests)):
        text = " ".join(run.text(r).split())[:SHOWN_TEXT]
        lines.append(f"{run.job.workload.label(r):<{LABEL}}{text}")
    return "\n".join(lines)


def row(label: str, cells: list[Any], factor: float) -> str:
    real, ours, off = cells
    shown = ["-" if value is None else f"{value * factor:,.2f}" for value in (real, ours)]
    shown.append("-" if off is None else f"{off:+.1%}")
    return f"{label:<{LABEL}}" + "".join(f"{cell:>12}" for cell in shown)


gpu_backend.add_command(calibrate_command)
gpu_backend.add_command(serve_check_command)


# --- errors ---------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; exceptions become an exit status and a message."""
    try:
        status = gpu_backend.main(
            args=arguments, prog_name="python -m gpu_backend", standalone_mode=False
        )
        return status if isinstance(status, int) else 0
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        click.echo(f"error: {error.format_message()}", err=True)
        return 2
    except (ValueError, OutOfMemory) as error:
        click.echo(f"error: {error}", err=True)
        return 2


if __name__ == "__main__":
    sys.exit(main())

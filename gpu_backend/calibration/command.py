"""`python -m gpu_backend calibrate`: fit step times of this machine to steps of the real engine.

Requests of many lengths arrive at random under one scheduler, so that prefill chunks and decodes
meet in batches of all sizes, with sampling and copies to the host. The arrival rate follows the
first guess of the machine's speed, so that a laptop and a GPU both have short and long queues.
Rounds on a busy machine are dropped; without a quiet round there is no profile.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click
import numpy as np

from gpu_backend.calibration.fit import CalibrationError, Fit, fit
from gpu_backend.device import Device, choose
from gpu_backend.engine.machine_limits import first_guess, measure_limits
from gpu_backend.engine.run import RealRun, Update, run_scenario
from gpu_backend.models import zoo
from gpu_backend.terminal import cancel_once_begun, device_options, progress_line
from sim.cli.commands import Refused
from sim.cli.exit_status import INTERRUPTED
from sim.core.requests import Table
from sim.latency import profiles
from sim.results.run import workload_of
from sim.scenario.load import Scenario, parse_scenario

__all__ = ["Calibration", "calibrate", "calibrate_command", "mixed_scenario", "rate_of"]

ENOUGH_STEPS = 300
MOST_ROUNDS = 6
REQUESTS = 48
MEAN_OUTPUT = 40
BUSY = 3.0  # concurrent decodes that the rate aims at, by the first guess


@dataclass(frozen=True, eq=False)
class Calibration:
    """A fit, the quiet runs that it uses, and why other rounds were dropped."""

    fit: Fit
    runs: tuple[RealRun, ...]
    left_out: tuple[str, ...]

    def report(self) -> dict[str, Any]:
        """`calibrate --json`; the errors are those of held-out steps."""
        run, device = self.runs[0], self.runs[0].device
        return {
            "model": run.loaded.title,
            "device": device.title,
            "backend": run.backend,
            "dtype": device.dtype_name,
            "threads": device.threads,
            "coefficients": self.fit.coefficients.model_dump(),
            "r2": self.fit.r2,
            "mape": self.fit.mape,
            "p90_error": self.fit.p90_error,
            "num_steps": self.fit.num_steps,
            "contaminated": False,
            "rounds_left_out": list(self.left_out),
        }

    def profile(self, name: str) -> profiles.Profile:
        """The profile to save."""
        run, device = self.runs[0], self.runs[0].device
        return self.fit.profile(
            name,
            run.loaded.model.architecture.shape.name,
            device.title,
            device.dtype_name,
            backend=run.backend[:200],
            threads=device.threads,
            measured_on=f"{datetime.now(UTC):%Y-%m-%d}",
        )


def mixed_scenario(rate_per_s: float, seed: int, longest: int = 2048) -> Scenario:
    """Random requests: prompts of 8 to 384 tokens, outputs of 8 to 72, arriving in bursts.
    `longest`: the model's context."""
    prompt = min(384, longest // 2)
    policy = {
        "engine": "vllm_v1",
        "max_num_batched_tokens": 128,
        "max_num_seqs": 16,
        "max_model_len": min(2048, longest),
        "num_gpu_blocks": 513,
    }
    requests = {
        "name": "request",
        "count": REQUESTS,
        "arrivals": {"kind": "gamma", "rate_per_s": rate_per_s, "cv": 1.5},
        "prompt": {"kind": "uniform", "min": 8, "max": prompt},
        "output": {"kind": "uniform", "min": 8, "max": 2 * MEAN_OUTPUT - 8},
    }
    return parse_scenario(
        {
            "name": "random mixed steps",
            "seed": seed,
            "workload": {"classes": [requests]},
            "replicas": [{"latency": {"kind": "linear"}, "policy": policy}],
        }
    )


def rate_of(model: str, device: Device) -> float:
    """Requests per second that keep about BUSY of them decoding, by the first guess."""
    architecture = zoo.load(model, device).model.architecture
    guess = first_guess(architecture, device, measure_limits(device))
    return BUSY / (MEAN_OUTPUT * float(guess.step_s + BUSY * guess.decode_s))


def calibrate(
    model: str,
    device: Device,
    *,
    hinge: bool = False,
    seed: int = 0,
    rate_per_s: float | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    on_update: Callable[[Update], None] = lambda update: None,
) -> Calibration:
    """Measure rounds until there are ENOUGH_STEPS quiet steps, and fit. CalibrationError where the
    machine is not quiet, a run fails, or the steps do not follow their load."""
    rate = rate_of(model, device) if rate_per_s is None else rate_per_s
    longest = zoo.load(model, device).model.architecture.shape.max_model_len
    runs: list[RealRun] = []
    left_out: list[str] = []
    for k in range(MOST_ROUNDS):
        scenario = mixed_scenario(rate, seed + k, longest)
        workload, _ = workload_of(scenario)
        run = run_scenario(
            scenario, workload, device, model=model, cancelled=cancelled, on_update=on_update
        )
        if run.output.error is not None:
            raise CalibrationError(run.output.error, "run_failed")
        if run.recording.status == "cancelled":
            raise CalibrationError("cancelled", "cancelled")
        if run.output.contaminated_why is None:
            runs.append(run)
        else:
            left_out.append(run.output.contaminated_why)
        if sum(len(run.recording.steps) for run in runs) >= ENOUGH_STEPS:
            break
        if not runs and len(left_out) > MOST_ROUNDS // 2:
            break
    contaminated = None if runs else f"{left_out[-1]} (in {len(left_out)} of {len(left_out)} runs)"
    steps = steps_of(runs) if runs else run.recording.steps
    found = fit(
        steps,
        hinge=hinge,
        graph_decodes=run.graph_decodes,
        seed=seed,
        max_context=max(map(longest_of, runs), default=None),
        contaminated=contaminated,
    )
    return Calibration(found, tuple(runs), tuple(left_out))


def steps_of(runs: list[RealRun]) -> Table:
    """The steps of all runs, concatenated."""
    steps: Table = np.concatenate([run.recording.steps for run in runs]).view(np.recarray)
    return steps


def longest_of(run: RealRun) -> int:
    """The longest context that a run reached."""
    requests = run.recording.requests
    return int((requests.num_prompt_tokens + requests.num_output_tokens).max())


# --- the command ----------------------------------------------------------------------------------


@click.command("calibrate")
@click.option("--model", default=zoo.DEFAULT, show_default=True, help="See `models`.")
@click.option("--save", "name", help="Save the profile under this name; pages offer it as a GPU.")
@click.option("--hinge", is_flag=True, help="Allow a floor under the token cost of a step.")
@click.option("--seed", type=click.IntRange(0, 2**31), default=0, show_default=True)
@device_options
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def calibrate_command(
    model: str,
    name: str | None,
    hinge: bool,
    seed: int,
    kind: str,
    dtype: str,
    threads: int | None,
    as_json: bool,
) -> None:
    """Fit step times of this machine to at least 300 steps of the real engine.

    30% of the steps are held out, and all printed errors are on them. Refused (exit 2) when the
    machine is not quiet; --json then has `contaminated` true and no figures. Ctrl-C ends it without
    a profile."""
    if name is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}", name):
        raise Refused(
            f"--save: found {name!r}; a name has letters, digits, '.', '_' and '-', at most 60"
        )
    device, cancelled = choose(kind, dtype, threads), cancel_once_begun()
    try:
        with progress_line() as show:
            found = calibrate(
                model,
                device,
                hinge=hinge,
                seed=seed,
                cancelled=cancelled,
                on_update=lambda update: show(update.words),
            )
    except CalibrationError as error:
        if cancelled():
            click.echo("cancelled: there is no profile", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        if as_json:
            empty = dict.fromkeys(("coefficients", "r2", "mape", "p90_error"))
            why = {"contaminated": error.code == "contaminated", "refused": str(error)}
            click.echo(json.dumps(empty | why, indent=2))
        raise Refused(str(error)) from None
    if name is not None:
        click.echo(f"saved: {profiles.save(found.profile(name))}", err=True)
    report = found.report()
    click.echo(json.dumps(report, indent=2, allow_nan=False) if as_json else table(report))


def table(report: dict[str, Any]) -> str:
    """The report as text."""
    lines = [
        f"{report['model']} on {report['device']}, {report['dtype']}, {report['threads']} threads; "
        f"{report['backend']}",
        f"{report['num_steps']} steps; held-out steps: mean absolute error {report['mape']:.1%}, "
        f"90th percentile {report['p90_error']:.1%}, R2 {report['r2']:.3f}",
    ]
    lines += [f"{name:<24}{value:.4g}" for name, value in report["coefficients"].items()]
    lines += [f"left out, not quiet: {why}" for why in report["rounds_left_out"]]
    return "\n".join(lines)

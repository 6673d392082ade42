"""How well a profile measured on this machine predicts other workloads:

    python -m benchmarks.calibration [--model MODEL] [--repeats N]

Each round has random mixed steps to calibrate on, another seed at three rates, and one plan that is
the same each time. The kinds alternate, so that a slow period of the machine affects all of them.
Then one profile is fitted to all rounds, and every other run is simulated with it. Prints error and
bias of the step times, and the differences of TTFT, TPOT and E2E at p50 and p95, as median and
worst of the repeats.

No profile can be more accurate than the machine is repeatable. The fixed plan measures how far a
step is from its own median (the noise of the machine), and how far the profile is from that median.
Figures are valid on a quiet machine only; the report counts the runs that were not quiet."""

import sys

import click
import numpy as np

from gpu_backend.calibration.command import longest_of, mixed_scenario, rate_of, steps_of
from gpu_backend.calibration.fit import CalibrationError, fit
from gpu_backend.device import Device, choose
from gpu_backend.engine.run import POINTS, RealRun, compare, run_scenario
from gpu_backend.models import zoo
from gpu_backend.terminal import device_options
from sim.latency import model as latency_model
from sim.results.run import workload_of

RATES = (0.5, 1.0, 1.5)  # of the rate of the calibration runs
OTHER_SEED = 100
BLOCKS = ("ttft_s", "tpot_s", "e2e_s")
ALL_AT_ONCE_PER_S = 1e6  # a rate at which plans do not depend on step times
STEP_PROMISE, FIGURE_PROMISE = 0.08, 0.10


@click.command()
@click.option("--model", default="random:llama-15m", show_default=True)
@click.option("--repeats", type=click.IntRange(2, 100), default=5, show_default=True)
@device_options
def main(model: str, repeats: int, kind: str, dtype: str, threads: int | None) -> None:
    """Print how far the profile is from what was measured."""
    device = choose(kind, dtype, threads)
    print(f"{model} on {device.title}, {device.dtype_name}, {device.threads} threads")
    rate = rate_of(model, device)
    rounds, fixed = [], []
    others: dict[float, list[RealRun]] = {factor: [] for factor in RATES}
    for k in range(repeats):
        rounds.append(served(model, device, rate, k))
        for place, (factor, runs) in enumerate(others.items()):
            runs.append(served(model, device, factor * rate, OTHER_SEED + place))
        fixed.append(served(model, device, ALL_AT_ONCE_PER_S, OTHER_SEED))
    quiet = [run for run in rounds if run.output.contaminated_why is None]
    print(f"rounds to calibrate on: {repeats}, quiet {len(quiet)}")
    try:
        found = fit(
            steps_of(quiet or rounds),
            graph_decodes=rounds[0].graph_decodes,
            max_context=max(map(longest_of, rounds)),
        )
    except CalibrationError as error:
        sys.exit(f"no figures: {error}")
    print(
        f"calibrated on {found.num_steps} steps: held-out MAPE {found.mape:.1%}, "
        f"p90 {found.p90_error:.1%}, R2 {found.r2:.3f}"
    )
    times = latency_model.measured(found.coefficients.model_dump())
    step_error = one_plan(fixed, times)
    worst = max(told(factor, runs, times) for factor, runs in others.items())
    kept = step_error <= STEP_PROMISE and worst <= FIGURE_PROMISE
    print(
        f"steps {step_error:.1%} (promise {STEP_PROMISE:.0%}), worst figure {worst:.1%} (promise "
        f"{FIGURE_PROMISE:.0%}): {'kept' if kept else 'not kept'}"
    )


def served(model: str, device: Device, rate: float, seed: int) -> RealRun:
    """Random mixed requests."""
    longest = zoo.load(model, device).model.architecture.shape.max_model_len
    scenario = mixed_scenario(rate, seed, longest)
    workload, _ = workload_of(scenario)
    return run_scenario(scenario, workload, device, model=model)


def one_plan(runs: list[RealRun], times: np.void) -> float:
    """Print how far the same steps are from their median, and how far the profile is from it;
    returns the latter."""
    seconds = np.stack([run.output.times["whole_s"] for run in runs])
    median = np.median(seconds, axis=0)
    predicted = compare(runs[0], times).step_s
    noise, error = (float(np.abs(x / median - 1.0).mean()) for x in (seconds, predicted))
    print(
        f"the same {len(median)} steps {len(runs)} times: a step is {noise:.1%} off its own "
        f"median, the profile {error:.1%} (bias {float((predicted / median - 1.0).mean()):+.1%})"
    )
    return error


def told(factor: float, runs: list[RealRun], times: np.void) -> float:
    """Print the line of a rate; returns the largest median difference of a figure."""
    comparisons = [compare(run, times) for run in runs]
    relative = [c.step_s / c.run.output.times["whole_s"] - 1.0 for c in comparisons]
    differences = {
        f"{block[:-2]} {point}": [c.difference[block][point] for c in comparisons]
        for block in BLOCKS
        for point in POINTS
    }
    cells = ", ".join(
        f"{name} {np.median(values):+.1%} ({max(values, key=abs):+.1%})"
        for name, values in differences.items()
    )
    error, bias = (
        float(np.median([reckon(x) for x in relative])) for reckon in (absolute, np.mean)
    )
    quiet = sum(run.output.contaminated_why is None for run in runs)
    print(
        f"{factor:g} x the rate, {len(runs)} runs, {quiet} quiet: step MAPE {error:.1%}, bias "
        f"{bias:+.1%}; median (worst): {cells}"
    )
    return max(abs(float(np.median(values))) for values in differences.values())


def absolute(x: np.ndarray) -> float:
    return float(np.abs(x).mean())


if __name__ == "__main__":
    main()

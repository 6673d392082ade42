"""How well a calibration in situ foretells other requests on this machine:

    python -m benchmarks.calibration [MODEL]

Calibrates on random mixed steps, then serves another seed at three rates and simulates it with the
profile: error and bias of the step times, and the differences of TTFT, TPOT and E2E at p50 and p95.
Figures count on a quiet machine only; a run that was not quiet is named. How far a machine's steps
are from being a function of their load is measured too: the very same steps, taken again and again,
against their own median. No profile can be nearer than that.
"""

import sys

import numpy as np

from gpu_backend import model_zoo
from gpu_backend.calibrate import CalibrationError
from gpu_backend.calibrate_command import calibrate, mixed_scenario, rate_of
from gpu_backend.device import Device, choose
from gpu_backend.run import POINTS, Comparison, RealRun, compare, run_scenario
from sim import latency
from sim.run import workload_of

RATES = (0.5, 1.0, 1.5)  # of the rate that was calibrated at
OTHER_SEED = 100
BLOCKS = ("ttft_s", "tpot_s", "e2e_s")
TRIES = 3  # for a quiet run
REPEATS = 5
ALL_AT_ONCE_PER_S = 1e6  # a rate at which plans do not depend on how long steps take
STEP_PROMISE, FIGURE_PROMISE = 0.08, 0.10


def main(model: str = "random:llama-15m") -> int:
    device = choose()
    print(f"{model} on {device.title}, {device.dtype_name}, {device.threads} threads")
    rate = rate_of(model, device)
    try:
        found = calibrate(model, device, rate_per_s=rate)
    except CalibrationError as error:
        print(f"no figures: {error}")
        return 1
    fit = found.fit
    print(
        f"calibrated on {fit.num_steps} steps, {len(found.left_out)} noisy rounds left out: "
        f"held-out MAPE {fit.mape:.1%}, p90 {fit.p90_error:.1%}, R2 {fit.r2:.3f}"
    )
    print(f"the same steps {REPEATS} times: {noise(model, device):.1%} off their own median")
    times = latency.measured(fit.coefficients.model_dump())
    worst_step = worst_figure = 0.0
    for k, factor in enumerate(RATES):
        comparison = compare(served(model, device, factor * rate, OTHER_SEED + k), times)
        error, figures = told(comparison, factor)
        worst_step, worst_figure = max(worst_step, error), max(worst_figure, figures)
    kept = worst_step <= STEP_PROMISE and worst_figure <= FIGURE_PROMISE
    print(
        f"worst step MAPE {worst_step:.1%} (promise {STEP_PROMISE:.0%}), worst figure "
        f"{worst_figure:.1%} (promise {FIGURE_PROMISE:.0%}): {'kept' if kept else 'not kept'}"
    )
    return 0


def served(model: str, device: Device, rate: float, seed: int) -> RealRun:
    """Random mixed requests; the first quiet run, or the last try."""
    longest = model_zoo.load(model, device).model.architecture.shape.max_model_len
    scenario = mixed_scenario(rate, seed, longest)
    workload, _ = workload_of(scenario)
    for _ in range(TRIES):
        run = run_scenario(scenario, workload, device, model=model)
        if not run.served.contaminated:
            break
    return run


def noise(model: str, device: Device) -> float:
    """Mean absolute relative difference of a step's time to its median over the repeats."""
    runs = [served(model, device, ALL_AT_ONCE_PER_S, OTHER_SEED) for _ in range(REPEATS)]
    seconds = np.stack([run.served.times["whole_s"] for run in runs])
    return float(np.abs(seconds / np.median(seconds, axis=0) - 1.0).mean())


def told(comparison: Comparison, factor: float) -> tuple[float, float]:
    """Print a rate's line; (step MAPE, largest absolute difference of a figure)."""
    run = comparison.run
    relative = comparison.step_s / run.served.times["whole_s"] - 1.0
    error = float(np.abs(relative).mean())
    differences = {
        f"{block[:-2]} {point}": comparison.difference[block][point]
        for block in BLOCKS
        for point in POINTS
    }
    cells = ", ".join(f"{name} {value:+.1%}" for name, value in differences.items())
    noisy = f"  NOT QUIET: {run.served.contaminated_why}" if run.served.contaminated else ""
    print(
        f"{factor:g} x the rate, {len(relative)} steps: step MAPE {error:.1%}, bias "
        f"{float(relative.mean()):+.1%}; {cells}{noisy}"
    )
    return error, max(abs(value) for value in differences.values())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Calibration on steps of the real loop: what is measured, what is refused, what is kept."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpu_backend import __main__ as command_line
from gpu_backend.calibration import command
from gpu_backend.calibration.command import calibrate, mixed_scenario
from gpu_backend.calibration.fit import CalibrationError, predict, solved
from gpu_backend.engine.compiled_decode import MOST_ROWS
from gpu_backend.engine.run import RealRun, Update, compare, run_scenario
from sim.latency import model as latency_model
from sim.latency import profiles
from sim.latency.profiles import Coefficients
from sim.results.run import workload_of
from tests.gpu_backend.conftest import CPU

KNOWN = Coefficients(
    step_s=0.01,
    prefill_token_s=2e-4,
    decode_s=1e-3,
    decode_context_s=2e-6,
    prefill_pair_s=1e-7,
    graph_decodes=MOST_ROWS[torch.float32],
    eager_step_s=0.004,
)


@pytest.fixture(scope="module")
def model(tiny_folders: dict[str, Path]) -> str:
    return str(tiny_folders["qwen3"])


@pytest.fixture(scope="module")
def measured(model: str) -> RealRun:
    """A short real run of random mixed steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "REQUESTS", 12)
        scenario = mixed_scenario(100.0, seed=3, longest=512)
    run = run_scenario(scenario, workload_of(scenario)[0], CPU, model=model)
    assert run.recording.status == "finished"
    return run


def as_if(run: RealRun, why: str | None = None, **recording: Any) -> RealRun:
    """The run with the times that KNOWN gives, on a quiet machine or not."""
    steps = run.recording.steps.copy()
    steps.duration_s = predict(KNOWN, steps)
    served = replace(
        run.output, recording=replace(run.recording, steps=steps, **recording), contaminated_why=why
    )
    return replace(run, output=served)


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[RealRun]:
    """What the rounds of a calibration come to, in this order; the last one again and again."""
    found: list[RealRun] = []

    def next_round(*_: object, **__: object) -> RealRun:
        return found.pop(0) if len(found) > 1 else found[0]

    monkeypatch.setattr(command, "run_scenario", next_round)
    return found


# --- on real times --------------------------------------------------------------------------------


def test_the_workload_mixes_chunks_and_decodes_in_batches_of_many_sizes(measured: RealRun) -> None:
    steps = measured.recording.steps
    assert ((steps.num_prefill_tokens > 0) & (steps.num_decodes > 0)).sum() >= 5
    assert len(np.unique(steps.num_decodes)) >= 5


def test_a_fit_of_real_steps_beats_the_first_guess_on_steps_it_has_not_seen(
    measured: RealRun,
) -> None:
    """However noisy the machine is: the first guess knows no overhead at all."""
    steps = measured.recording.steps
    order = np.random.default_rng(1).permutation(len(steps))
    held_out, fitted = steps[order[::3]], np.delete(order, np.arange(0, len(order), 3))
    coefficients = solved(steps[fitted], np.zeros(0))
    guessed = np.zeros(len(held_out))
    latency_model.steps_seconds(measured.guess, held_out, guessed)

    def error(seconds: np.ndarray) -> float:
        return float(np.abs(seconds / held_out.duration_s - 1.0).mean())

    assert error(predict(coefficients, held_out)) < error(guessed)


# --- rounds ---------------------------------------------------------------------------------------


def test_known_times_come_back_and_close_the_gap(
    measured: RealRun, rounds: list[RealRun], model: str
) -> None:
    run = as_if(measured)
    rounds.append(run)
    found = calibrate(model, CPU, rate_per_s=100.0)
    assert found.fit.mape < 1e-6
    assert found.fit.r2 > 0.999
    for name, value in KNOWN.model_dump().items():
        assert getattr(found.fit.coefficients, name) == pytest.approx(value, rel=1e-3, abs=1e-9)
    real = run.recording.steps.duration_s
    after = compare(run, latency_model.measured(found.fit.coefficients.model_dump()))
    assert after.step_s == pytest.approx(real)
    assert np.abs(compare(run).step_s / real - 1.0).mean() > 0.1


def test_rounds_that_were_not_quiet_are_left_out(
    measured: RealRun, rounds: list[RealRun], model: str
) -> None:
    rounds += [as_if(measured, "a neighbour was busy"), as_if(measured)]
    found = calibrate(model, CPU, rate_per_s=100.0)
    assert found.left_out == ("a neighbour was busy",)
    assert found.fit.num_steps == len(found.runs) * len(measured.recording.steps)
    assert found.report()["rounds_left_out"] == ["a neighbour was busy"]


def test_a_noisy_machine_is_refused(measured: RealRun, rounds: list[RealRun], model: str) -> None:
    rounds.append(as_if(measured, "a neighbour was busy"))
    with pytest.raises(CalibrationError, match=r"not quiet: a neighbour was busy \(in 4 of 4 runs"):
        calibrate(model, CPU, rate_per_s=100.0)


def test_a_cancelled_and_a_failed_run_end_it(
    measured: RealRun, rounds: list[RealRun], model: str
) -> None:
    rounds.append(as_if(measured, status="cancelled"))
    with pytest.raises(CalibrationError, match="cancelled"):
        calibrate(model, CPU, rate_per_s=100.0)
    rounds[:] = [replace(measured, output=replace(measured.output, error="out of memory"))]
    with pytest.raises(CalibrationError, match="out of memory"):
        calibrate(model, CPU, rate_per_s=100.0)


# --- the command ----------------------------------------------------------------------------------


def run_command(*arguments: str) -> int:
    return command_line.main(["calibrate", *arguments, "--threads", "1", "--dtype", "fp32"])


def test_the_command_prints_and_saves(
    measured: RealRun,
    rounds: list[RealRun],
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("BATCHSCOPE_PROFILES", str(tmp_path))
    rounds.append(as_if(measured))
    assert run_command("--model", model, "--save", "laptop", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert {"coefficients", "r2", "mape", "p90_error", "contaminated"} <= report.keys()
    assert report["contaminated"] is False
    saved = profiles.load("laptop")
    assert saved.coefficients.model_dump() == report["coefficients"]
    assert (saved.dtype, saved.threads, saved.mape) == ("fp32", 1, report["mape"])
    assert run_command("--model", model) == 0
    assert "held-out steps: mean absolute error 0.0%" in capsys.readouterr().out


def test_the_command_refuses_a_noisy_machine(
    measured: RealRun, rounds: list[RealRun], model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rounds.append(as_if(measured, "a neighbour was busy"))
    assert run_command("--model", model, "--json") == 2
    said = capsys.readouterr()
    report = json.loads(said.out)
    assert (report["contaminated"], report["coefficients"], report["mape"]) == (True, None, None)
    assert "a neighbour was busy" in said.err


def test_ctrl_c_ends_the_command_without_a_profile(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes from the machine, after the first step of a round."""
    monkeypatch.setattr(command, "rate_of", lambda model, device: 100.0)
    first_round = command.run_scenario

    def interrupted(*arguments: Any, **options: Any) -> RealRun:
        def told(update: Update) -> None:
            if update.stage == "run" and update.steps == 1:
                os.kill(os.getpid(), signal.SIGINT)

        return first_round(*arguments, **options | {"on_update": told})

    monkeypatch.setattr(command, "run_scenario", interrupted)
    before = signal.getsignal(signal.SIGINT)
    try:
        assert run_command("--model", model, "--json") == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr() == ("", "cancelled: there is no profile\n")


def test_a_name_that_is_none_is_refused_before_anything_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command("--save", "../x") == 2
    assert "a name has letters" in capsys.readouterr().err

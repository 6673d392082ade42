"""Calibration: known coefficients come back, noise gives no negative ones, bad runs are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu_backend.calibration.fit import (
    CalibrationError,
    Fit,
    fit,
    floors,
    load_of,
    predict,
    weighted_nnls,
)
from sim.core.recording import STEP
from sim.core.requests import Table
from sim.latency import profiles
from sim.latency.profiles import Coefficients
from sim.results.run import simulate
from sim.scenario.load import Scenario, parse_scenario

# About those of SmolLM2-135M on two CPU cores.
KNOWN = {
    "step_s": 0.018,
    "prefill_token_s": 8e-4,
    "decode_s": 2e-3,
    "decode_context_s": 4e-6,
    "prefill_pair_s": 3e-7,
}


def mixed_steps(count: int = 300, seed: int = 0) -> Table:
    """Random steps: a chunk in half of them, 0 to 16 decodes at contexts of 32 to 2,048."""
    numbers = np.random.default_rng(seed)
    steps = np.zeros(count, STEP).view(np.recarray)
    chunk = numbers.integers(1, 257, count) * numbers.integers(0, 2, count)
    start = numbers.integers(0, 1024, count) * (chunk > 0)
    steps.num_prefill_tokens, steps.num_chunks = chunk, chunk > 0
    steps.prefill_context = (start + chunk) * (chunk > 0)
    steps.prefill_pairs = chunk * (start + chunk / 2)
    steps.num_decodes = np.maximum(numbers.integers(0, 17, count), chunk == 0)
    steps.decode_context = steps.num_decodes * numbers.integers(32, 2049, count)
    return steps


def timed(steps: Table, noise: float = 0.0, seed: int = 1, **coefficients: float) -> Table:
    """The steps with the times of these coefficients, times 1 + normal noise."""
    steps.duration_s = predict(Coefficients(**(KNOWN | coefficients)), steps)
    steps.duration_s *= 1 + noise * np.random.default_rng(seed).standard_normal(len(steps))
    return steps


def found(result: Fit) -> dict[str, float]:
    return {name: getattr(result.coefficients, name) for name in KNOWN}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_known_coefficients_come_back_exactly_without_noise(seed: int) -> None:
    result = fit(timed(mixed_steps(seed=seed)), seed=seed)
    assert found(result) == pytest.approx(KNOWN, rel=1e-8)
    assert result.r2 == pytest.approx(1.0, abs=1e-12)
    assert result.mape < 1e-9
    assert result.p90_error < 1e-9
    assert result.coefficients.hinge_token_s == 0.0


def test_a_floor_under_the_token_term_is_found_with_the_hinge_alone() -> None:
    """The floor lies on the grid of candidates, so nothing is left over."""
    steps = mixed_steps(400)
    floor = float(floors(steps)[12])
    timed(steps, prefill_token_s=0.0, decode_s=0.0, hinge_tokens=floor, hinge_token_s=1e-3)
    with_hinge, without = fit(steps, hinge=True), fit(steps)
    assert with_hinge.coefficients.hinge_tokens == floor
    assert with_hinge.coefficients.hinge_token_s == pytest.approx(1e-3, rel=1e-6)
    assert with_hinge.mape < 1e-8 < without.mape
    assert without.coefficients.hinge_token_s == 0.0


def test_the_hinge_is_not_taken_where_it_gains_nothing() -> None:
    result = fit(timed(mixed_steps()), hinge=True)
    assert predict(result.coefficients, mixed_steps(seed=9)) == pytest.approx(
        predict(Coefficients(**KNOWN), mixed_steps(seed=9)), rel=1e-7
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_an_eager_step_costs_more_is_found_where_decodes_run_as_a_whole(seed: int) -> None:
    times = {"graph_decodes": 8, "eager_step_s": 0.02}
    steps = timed(mixed_steps(seed=seed), **times)
    with_term, without = fit(steps, graph_decodes=8, seed=seed), fit(steps, seed=seed)
    assert with_term.coefficients.model_dump() == pytest.approx(
        KNOWN | times | {"hinge_tokens": 0.0, "hinge_token_s": 0.0}, rel=1e-8
    )
    assert with_term.mape < 1e-9
    assert without.mape > 0.02


def test_steps_that_are_all_eager_tell_nothing_of_it() -> None:
    steps = mixed_steps()
    steps.num_prefill_tokens = np.maximum(steps.num_prefill_tokens, 1)
    found_with = fit(timed(steps), graph_decodes=8).coefficients
    assert found_with.eager_step_s == 0.0
    assert found_with.step_s == pytest.approx(KNOWN["step_s"], rel=1e-8)


def test_noise_gives_no_negative_term_where_plain_least_squares_does() -> None:
    negative = 0
    for seed in range(20):
        steps = timed(mixed_steps(80, seed), 0.15, seed, prefill_pair_s=0.0, decode_context_s=0.0)
        plain = np.linalg.lstsq(load_of(steps), steps.duration_s, rcond=None)[0]
        negative += bool((plain < 0).any())
        assert min(found(fit(steps, seed=seed)).values()) >= 0
    assert negative > 0


def test_relative_errors_count_alike() -> None:
    """One coefficient, two sizes of steps that disagree about it: the relative errors are balanced,
    not the seconds, of which the large steps have a hundred times more."""
    load = np.array([[1.0], [100.0]])
    values, _ = weighted_nnls(load, np.array([1.0, 110.0]))
    # min (x - 1)^2 + (x / 1.1 - 1)^2: x = (1 + 1 / 1.1) / (1 + 1 / 1.21)
    assert values[0] == pytest.approx((1 + 1 / 1.1) / (1 + 1 / 1.21), rel=1e-12)


def test_errors_are_those_of_held_out_steps() -> None:
    """5% noise: the errors say so, and another seed holds other steps out."""
    steps = timed(mixed_steps(2000), noise=0.05)
    result = fit(steps)
    assert result.mape == pytest.approx(0.05 * np.sqrt(2 / np.pi), rel=0.1)  # mean of |normal|
    assert result.p90_error == pytest.approx(0.05 * 1.645, rel=0.1)
    assert 0.9 < result.r2 < 1.0
    assert fit(steps, seed=1).mape != result.mape
    assert fit(steps) == result


# --- refusals -------------------------------------------------------------------------------------


def test_a_contaminated_run_is_refused() -> None:
    with pytest.raises(CalibrationError, match=r"not quiet: other processes kept 1\.20 cores busy"):
        fit(timed(mixed_steps()), contaminated="other processes kept 1.20 cores busy")


def test_times_that_do_not_follow_the_load_are_refused() -> None:
    """Every third step took twenty times as long, as on a busy machine."""
    steps = timed(mixed_steps())
    steps.duration_s[::3] *= 20
    with pytest.raises(CalibrationError, match="their times do not follow their load"):
        fit(steps)


def no_prompts(steps: Table) -> Table:
    steps.num_prefill_tokens[9:] = 0
    return steps


def no_decodes(steps: Table) -> Table:
    steps.num_decodes[5:] = 0
    return steps


def no_time(steps: Table) -> Table:
    steps.duration_s[3] = 0.0
    return steps


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (timed(mixed_steps(59)), "59 steps were measured; at least 60 are needed"),
        (no_decodes(timed(mixed_steps())), "steps hold decodes; at least 10 are needed"),
        (no_prompts(timed(mixed_steps())), "steps hold a prompt; at least 10 are needed"),
        (no_time(timed(mixed_steps())), "a step has no measured time"),
    ],
)
def test_steps_that_cannot_tell_are_refused(steps: Table, words: str) -> None:
    with pytest.raises(CalibrationError, match=words):
        fit(steps)


# --- from a run to a profile ----------------------------------------------------------------------


def workload(seed: int, rate_per_s: float, latency: dict[str, Any]) -> Scenario:
    chat = {
        "name": "chat",
        "count": 60,
        "arrivals": {"kind": "poisson", "rate_per_s": rate_per_s},
        "prompt": {"kind": "uniform", "min": 20, "max": 700},
        "output": {"kind": "uniform", "min": 5, "max": 60},
    }
    policy = {"engine": "vllm_v1", "max_num_batched_tokens": 256, "max_num_seqs": 32}
    return parse_scenario(
        {
            "seed": seed,
            "workload": {"classes": [chat]},
            "replicas": [{"latency": latency, "policy": policy}],
        }
    )


def test_calibrated_on_one_run_a_profile_repeats_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is the linear toy, whose times lie in the model: fitted at 5 requests/s, run with
    another seed at three rates."""
    monkeypatch.setenv("BATCHSCOPE_PROFILES", str(tmp_path))
    toy = {"kind": "linear", "step_s": 0.02, "prefill_token_s": 3e-4, "decode_s": 1e-3}
    recording = simulate(workload(0, 5.0, toy)).recording
    result = fit(recording.steps, max_context=int(recording.requests.num_computed_tokens.max()))
    profiles.save(result.profile("toy", "none", "cpu", "fp32", threads=2))
    assert profiles.load("toy").num_steps == len(recording.steps)
    assert profiles.load("toy").max_context == recording.requests.num_computed_tokens.max()
    for rate in (2.0, 5.0, 8.0):
        real = simulate(workload(1, rate, toy)).summary
        ours = simulate(workload(1, rate, {"kind": "measured", "profile": "toy"})).summary
        for block in ("ttft_s", "tpot_s", "e2e_s", "itl_s"):
            assert ours[block] == pytest.approx(real[block], rel=1e-6)


def test_the_largest_step_batch_and_context_are_kept() -> None:
    steps = mixed_steps()
    result = fit(timed(steps))
    assert result.max_tokens == int((steps.num_prefill_tokens + steps.num_decodes).max())
    assert result.max_batch == 16
    lone = steps.decode_context // np.maximum(steps.num_decodes, 1)
    assert result.max_context == int(max(lone.max(), steps.prefill_context.max()))

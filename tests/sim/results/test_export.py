"""What is taken home: tables with units in their headers, flags that exist, a command line that
helps."""

import csv
import json
import random
import shlex
from pathlib import Path
from typing import Any

import pytest

from sim.cli import main as command_line
from sim.results.export import cell, vllm_serve_flags, write_trace
from sim.results.run import simulate
from sim.scenario.load import ScenarioError, load_scenario, parse_scenario, resolve
from tests.conftest import EXAMPLES
from tests.field.field import asked
from tests.tools.pools import one, pools, run_pools

FLAGS = {
    "--tensor-parallel-size",
    "--gpu-memory-utilization",
    "--max-num-batched-tokens",
    "--max-num-seqs",
    "--max-model-len",
    "--block-size",
    "--long-prefill-token-threshold",
    "--num-gpu-blocks-override",
    "--scheduling-policy",
    "--enable-chunked-prefill",
    "--no-enable-chunked-prefill",
    "--enable-prefix-caching",
    "--no-enable-prefix-caching",
    "--kv-cache-dtype",
    "--quantization",
}


def call(*arguments: str | Path, capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of `python -m sim ...`."""
    status = command_line.main([str(argument) for argument in arguments])
    out, err = capfd.readouterr()
    return status, out, err


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_tables(tmp_path: Path) -> None:
    result = simulate(load_scenario(EXAMPLES / "four_chats_one_document.json"))
    workload = result.workload
    write_trace(tmp_path, result.recording, result.resolved, workload.label, workload.class_names)
    steps, requests = rows(tmp_path / "steps.csv"), rows(tmp_path / "requests.csv")
    assert len(steps) == result.summary["steps"]
    assert [row["name"] for row in requests] == ["chat 1", "chat 2", "chat 3", "chat 4", "document"]
    longest = max(steps, key=lambda row: float(row["duration_s"]))
    assert int(longest["prefill_tokens"]) == 8000
    causes = [float(longest[name]) for name in longest if name.endswith("_s")][2:]
    assert sum(causes) == pytest.approx(float(longest["duration_s"]))
    assert sum(int(row["tokens_emitted"]) for row in steps) == result.summary["output_tokens"]
    assert float(requests[4]["ttft_s"]) == pytest.approx(result.summary["ttft_s"]["max"])
    assert {row["meets_slo"] for row in requests} <= {"true", "false"}
    again = simulate(load_scenario(tmp_path / "scenario.json"))
    assert again.summary == result.summary


def test_cells_never_run_as_a_formula() -> None:
    assert cell("=HYPERLINK(1)") == "'=HYPERLINK(1)"
    assert cell(0.1 + 0.2) == "0.3"
    assert cell(-2) == -2
    assert cell(True) == "true"


def test_flags() -> None:
    resolved = resolve(load_scenario(EXAMPLES / "four_chats_one_document.json"))
    command = vllm_serve_flags(resolved)
    words = command.replace("\\\n", " ").split()
    assert words[:3] == ["vllm", "serve", "Qwen2.5-7B"]
    assert {word for word in words if word.startswith("--")} <= FLAGS
    assert "--max-num-batched-tokens 8192" in command
    assert "--max-num-seqs 256" in command
    assert "--num-gpu-blocks-override" not in command


def test_flags_of_pools_are_a_block_for_each_kind() -> None:
    """NIXL's roles as vLLM 0.26.0 names them; the KV pool is left to the servers."""
    resolved = resolve(load_scenario(EXAMPLES / "disaggregated_splitwise.json"))
    _, first, second = vllm_serve_flags(resolved).split("\n\n")
    for block, title, role in (
        (first, "# 2 prefill servers on NVIDIA H100", "kv_producer"),
        (second, "# 2 decode servers on NVIDIA A100", "kv_consumer"),
    ):
        assert block.startswith(title)
        words = shlex.split(block.split("\n", 1)[1].replace("\\\n", " "))
        assert words[:3] == ["vllm", "serve", "Llama-2-70B"]
        config = json.loads(words[words.index("--kv-transfer-config") + 1])
        assert config == {"kv_connector": "NixlConnector", "kv_role": role}
        assert "--num-gpu-blocks-override" not in words


def test_a_failed_load_that_is_recomputed_is_a_setting_of_the_decode_server() -> None:
    command = vllm_serve_flags(resolve(pools(one(100), kv_load_failure_policy="recompute")))
    assert command.count("kv_load_failure_policy") == 1
    assert command.index("kv_consumer") < command.index("kv_load_failure_policy")


def test_flags_of_several_servers_that_do_both() -> None:
    data = load_scenario(EXAMPLES / "four_chats_one_document.json").model_dump(mode="json")
    alone = vllm_serve_flags(resolve(parse_scenario(data)))
    data["replicas"][0]["count"] = 3
    several = vllm_serve_flags(resolve(parse_scenario(data)))
    title, command = several.split("\n", 1)
    assert title.startswith("# 3 servers on NVIDIA ")
    assert command == alone


def test_the_way_of_kv_stands_in_the_table_of_requests(tmp_path: Path) -> None:
    users = asked("user", {"kind": "list", "values": [2000, 12]}, 4, count=8)
    result = run_pools(users, prefill=2, decode=2)
    workload = result.workload
    write_trace(tmp_path, result.recording, result.resolved, workload.label, workload.class_names)
    requests = rows(tmp_path / "requests.csv")
    assert {row["prefill_server"] for row in requests} == {"0", "1"}
    assert {row["decode_server"] for row in requests} == {"2", "3"}
    assert [row["kv_outcome"] for row in requests] == ["moved", "too_short"] * 4
    moved = [row for row in requests if row["kv_outcome"] == "moved"]
    assert (
        sum(float(row["kv_transfer_bytes"]) for row in moved)
        == (result.summary["kv_transfer_bytes"])
    )
    assert max(float(row["kv_transfer_s"]) for row in moved) == pytest.approx(
        result.summary["kv_transfer_s"]["max"], abs=1e-8
    )
    assert all(row["kv_transfer_s"] == "" for row in requests if row not in moved)
    assert max(float(row["queue_s"]) for row in requests) == pytest.approx(
        result.summary["queue_s"]["max"]
    )


def test_flags_of_a_toy_without_a_model() -> None:
    with pytest.raises(ValueError, match="names no model"):
        vllm_serve_flags(resolve(load_scenario(EXAMPLES / "toy_16_requests.json")))


def test_the_16_request_toy() -> None:
    """The worked example: tokens and milliseconds of its first steps, 99 steps, 0.7344 s."""
    scenario = load_scenario(EXAMPLES / "toy_16_requests.json")
    prompts = [2048 if i % 3 == 0 else 384 for i in range(16)]
    drawn = random.Random(42)
    assert list(scenario.workload.classes[0].prompt.values) == prompts
    assert list(scenario.workload.classes[0].output.values) == [
        drawn.randint(48, 96) for _ in range(16)
    ]
    recording = simulate(scenario).recording
    first = recording.steps[:12]
    assert (first.num_prefill_tokens + first.num_decodes).tolist() == (
        [2048] * 6 + [1549, 1302, 790, 283, 16, 16]
    )
    assert (first.duration_s * 1e3).round(2).tolist() == (
        [29.58, 29.63, 29.69, 29.72, 29.8, 29.86, 23.95, 20.99, 14.87, 8.82, 5.64, 5.64]
    )
    assert len(recording.steps) == 99
    assert recording.steps[-1].start_s + recording.steps[-1].duration_s == pytest.approx(
        0.7344, abs=5e-5
    )


def test_budget_16() -> None:
    """Four decodes and 48 prompt tokens share 16 per step: 12 + 12 + 12 + 12, none held back."""
    recording = simulate(
        load_scenario(EXAMPLES / "budget_16_four_decodes_48_prompt.json")
    ).recording
    mixed = [
        (int(step.num_prefill_tokens), int(step.num_decodes))
        for step in recording.steps
        if step.num_prefill_tokens and step.num_decodes
    ]
    assert mixed == [(12, 4)] * 4


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_run_works_for_every_example(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call("run", path, "--summary", "json", capfd=capfd)
    summary = json.loads(out)
    assert status == 0
    assert summary["status"] == "finished"
    turned_away = summary["rejected_reasons"].get("slo_out_of_reach", 0)
    assert summary["finished"] + turned_away == summary["requests"]


def test_default_preset_freezes_for_about_a_second(capfd: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(
        "run", EXAMPLES / "four_chats_one_document.json", "--summary", "json", capfd=capfd
    )
    summary = json.loads(out)
    assert 0.8 < summary["itl_s"]["max"] < 1.1
    assert 0.016 < summary["itl_s"]["p50"] < 0.02


def test_seed_and_table(capfd: pytest.CaptureFixture[str]) -> None:
    path = EXAMPLES / "burst.json"
    outs = [call("run", path, "--seed", str(seed), capfd=capfd)[1] for seed in (0, 0, 1)]
    assert outs[0] == outs[1] != outs[2]
    assert "stop_reasons" in outs[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "SCENARIO is missing"),
        (["run", "absent.json"], "absent.json: no such file"),
        (["run", "absent.json", "--summary", "xml"], "'xml' is not one of"),
        (["latency", "absent.csv"], "absent.csv: no such file"),
        (["import", "absent.csv"], "absent.csv"),
        (["replay", "absent.json"], "absent.json"),
        (["fly"], "No such command 'fly'"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    status, out, err = call(*arguments, capfd=capfd)
    assert (status, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def workload_file(tmp_path: Path, **policy: Any) -> Path:
    """A scenario beside a file with one good row and one bad one."""
    (tmp_path / "rows.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,10,2\n1,x,2\n")
    scenario = {
        "workload": {"file": "rows.csv"},
        "replicas": [{"latency": {"kind": "linear"}, "policy": {"engine": "vllm_v1", **policy}}],
    }
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(scenario))
    return path


def test_a_file_beside_the_scenario(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = workload_file(tmp_path)
    status, out, err = call("run", path, "--summary", "json", "--trace", tmp_path, capfd=capfd)
    assert status == 0
    assert json.loads(out)["finished"] == 1
    assert "1 of 2 rows taken" in err
    assert "line 3" in err
    assert len(rows(tmp_path / "requests.csv")) == 1


def test_every_request_rejected_exits_2(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status, out, err = call(
        "run", workload_file(tmp_path, max_model_len=10), "--summary", "json", capfd=capfd
    )
    assert status == 2
    assert json.loads(out)["rejected"] == 1
    assert "1 of 1 requests rejected: prompts of up to" in err
    assert "max_model_len (10); raise max_model_len above" in err


def test_pages_open_uploads_only(tmp_path: Path) -> None:
    scenario = load_scenario(workload_file(tmp_path))
    with pytest.raises(ScenarioError, match=r"please upload 'rows.csv'"):
        simulate(scenario)
    upload = (tmp_path / "rows.csv").read_bytes()
    assert simulate(scenario, uploads={"rows.csv": upload}).summary["finished"] == 1


def test_import_says_what_it_took_and_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    workload_file(tmp_path)
    status, out, _ = call("import", tmp_path / "rows.csv", capfd=capfd)
    assert status == 0
    assert "rows 2, taken 1, refused 1" in out
    assert "refused line 3" in out
    assert "prompt_tokens" in out


def test_schema(capfd: pytest.CaptureFixture[str]) -> None:
    status, out, _ = call("run", "--schema", capfd=capfd)
    assert status == 0
    assert "replicas" in json.loads(out)["properties"]


def test_deadline_and_cancel_end_a_run() -> None:
    data = json.loads((EXAMPLES / "toy_16_requests.json").read_text())
    data["workload"]["classes"][0].update(count=2000)
    data["replicas"][0]["policy"]["max_num_seqs"] = 1
    scenario = parse_scenario(data)
    assert simulate(scenario, deadline_s=0.0).summary["status"] == "bounded"
    assert simulate(scenario, cancelled=lambda: True).summary["status"] == "cancelled"


def test_a_target_that_cannot_be_written_is_refused_before_the_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(command_line, "simulate", lambda *_, **__: pytest.fail("it ran"))
    toy = EXAMPLES / "toy_16_requests.json"
    for option, target, words in (
        ("--trace", tmp_path / "file", "is a file, not a folder"),
        ("--trace", tmp_path / "file" / "below", "is a file, not a folder"),
        ("--perfetto", tmp_path / "nowhere" / "trace.json", "no such file or directory"),
        ("--perfetto", tmp_path, "is a folder, not a file"),
    ):
        status, out, err = call("run", toy, option, target, capfd=capfd)
        assert status == 2
        assert words in err
        assert out == ""


def test_the_scenario_beside_a_trace_finds_its_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "asked" / "rows").mkdir(parents=True)
    (tmp_path / "asked" / "rows" / "mine.csv").write_text(
        "arrival_s,prompt_tokens,output_tokens\n0,100,5\n0.5,50,4\n"
    )
    scenario = {
        "workload": {"file": "rows/mine.csv"},
        "replicas": [{"latency": {"kind": "linear"}, "policy": {"engine": "vllm_v1"}}],
    }
    asked = tmp_path / "asked" / "scenario.json"
    asked.write_text(json.dumps(scenario))
    assert call("run", asked, "--trace", tmp_path / "out" / "deep", capfd=capfd)[0] == 0
    copy = tmp_path / "out" / "deep" / "scenario.json"
    assert json.loads(copy.read_text())["workload"]["file"] == "../../asked/rows/mine.csv"
    first, again = (call("run", path, "--summary", "json", capfd=capfd) for path in (asked, copy))
    assert first[0] == again[0] == 0
    assert first[1] == again[1]

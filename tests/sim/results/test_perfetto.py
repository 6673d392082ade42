"""The Chrome trace: well-formed, named, and the same story as the run."""

import io
import json
from pathlib import Path

import pytest

from sim.cli import main as command_line
from sim.results.perfetto import REQUESTS, STEPS, TRANSFERS, trace_events, write_perfetto
from sim.results.run import Result, simulate
from sim.scenario.load import load_scenario
from tests.conftest import EXAMPLES
from tests.field.field import asked
from tests.tools.pools import run_pools

PHASES = {"X", "M", "C"}


@pytest.fixture(scope="module")
def result() -> Result:
    return simulate(load_scenario(EXAMPLES / "four_chats_one_document.json"))


def test_every_event_has_what_the_viewer_needs(result: Result) -> None:
    stream = io.StringIO()
    write_perfetto(stream, result.recording, result.resolved, result.workload.label)
    events = json.loads(stream.getvalue())["traceEvents"]
    assert {event["ph"] for event in events} == PHASES
    for event in events:
        assert "pid" in event
        assert event["name"]
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert event["ts"] >= 0


def test_tracks_are_named_after_requests(result: Result) -> None:
    events = list(trace_events(result.recording, result.resolved, result.workload.label))
    names = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
    assert names == ["chat 1", "chat 2", "chat 3", "chat 4", "document", "step"]


def test_slices_are_the_run(result: Result) -> None:
    events = list(trace_events(result.recording, result.resolved, result.workload.label))
    slices = [event for event in events if event["ph"] == "X"]
    steps = [event for event in slices if event["name"].startswith("step ")]
    assert len(steps) == result.summary["steps"]
    chunks = [event for event in slices if event["name"].startswith("prefill ")]
    assert sum(e["args"]["tokens"] for e in chunks) == result.workload.num_prompt_tokens.sum()
    tokens = sum(e["args"].get("emits_a_token", False) for e in slices)
    assert tokens == result.summary["output_tokens"]
    longest = max(steps, key=lambda event: event["dur"])
    assert longest["name"].endswith("8,000 prefill + 4 decode")
    assert longest["args"]["stopped_by"] == "queue_empty"


def test_slices_of_a_track_do_not_overlap(result: Result) -> None:
    """The viewer nests slices that overlap: a track would show what never happened."""
    ends: dict[tuple[int, int], float] = {}
    events = trace_events(result.recording, result.resolved, result.workload.label)
    slices = [event for event in events if event["ph"] == "X"]
    for event in sorted(slices, key=lambda e: (e["ts"], e["dur"])):
        track = event["pid"], event["tid"]
        assert event["ts"] >= ends.get(track, 0.0) - 0.01
        ends[track] = event["ts"] + event["dur"]


def test_preemptions_are_told() -> None:
    scenario = load_scenario(EXAMPLES / "burst.json")
    data = scenario.model_dump(mode="json")
    data["replicas"][0]["policy"] |= {"num_gpu_blocks": 540, "scheduler_reserve_full_isl": False}
    from sim.scenario.load import parse_scenario

    result = simulate(parse_scenario(data))
    events = list(trace_events(result.recording, result.resolved, result.workload.label))
    lost = [event for event in events if event["name"] == "preempted"]
    assert result.summary["preemptions"] > 0
    assert len(lost) == result.summary["preemptions"]


def test_the_command_writes_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trace.json"
    scenario = str(EXAMPLES / "toy_16_requests.json")
    assert command_line.main(["run", scenario, "--perfetto", str(file)]) == 0
    assert json.loads(file.read_text())["traceEvents"]
    assert command_line.main(["run", scenario, "--perfetto", str(tmp_path / "no" / "file")]) == 2
    assert "no such file or directory" in capfd.readouterr().err


# --- between servers ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def moved() -> Result:
    users = asked("user", 2000, 20, {"kind": "poisson", "rate_per_s": 20}, 12)
    return run_pools(users, prefill=2, decode=2, link={"streaming": True})


def test_transfers_are_slices_and_arrows(moved: Result) -> None:
    events = list(trace_events(moved.recording, moved.resolved, moved.workload.label))
    sent = [e for e in events if e["ph"] == "X" and e["pid"] == TRANSFERS]
    assert sum(e["args"]["bytes"] for e in sent) == moved.summary["kv_transfer_bytes"]
    assert sum(e["dur"] for e in sent) == pytest.approx(
        1e6 * 12 * moved.summary["kv_transfer_s"]["mean"], abs=0.1
    )
    for phase in "stf":
        arrows = {e["id"]: e for e in events if e["ph"] == phase}
        assert sorted(arrows) == list(range(12))
    for r, arrow in arrows.items():  # to the step in which it enters at its decode server
        assert arrow["pid"] == STEPS + moved.recording.requests.replica[r]
        starts = [e["ts"] for e in events if e["ph"] == "X" and e["pid"] == arrow["pid"]]
        assert arrow["ts"] in starts


def test_both_servers_stand_on_a_requests_track(moved: Result) -> None:
    events = list(trace_events(moved.recording, moved.resolved, moved.workload.label))
    slices = [e for e in events if e["ph"] == "X" and e["pid"] == REQUESTS]
    chunks = [e for e in slices if e["name"].startswith("prefill ")]
    assert sum(e["args"]["tokens"] for e in chunks) == 12 * (2000 + 1)  # its last token twice
    tokens = sum(e["args"].get("emits_a_token", False) for e in slices)
    assert tokens == moved.summary["output_tokens"]
    test_slices_of_a_track_do_not_overlap(moved)

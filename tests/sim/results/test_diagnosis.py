"""Failure modes by name: a scenario that has each, one that has none, and never a hang without a
name."""

import re
from typing import Any

import numpy as np
import pytest

from sim.cli import main as command_line
from sim.results.diagnosis import Finding
from sim.results.run import Result
from tests.field.field import asked, serve
from tests.tools.pools import GIGABIT, one, pools, prefill_s, run_pools

POISSON = {"kind": "poisson", "rate_per_s": 8}


def found(result: Result) -> dict[str, Finding]:
    return {finding.name: finding for finding in result.findings}


def test_nothing_is_wrong_with_a_calm_cluster() -> None:
    result = run_pools(asked("user", 2000, 50, POISSON, 100), prefill=2)
    assert result.findings == ()


def test_a_server_that_does_both_has_none_of_these() -> None:
    assert serve(asked("user", 2000, 50, count=100), max_model_len=4096).findings == ()


def test_prefill_pool_too_small() -> None:
    """40 prompts per second for a server that computes 18."""
    busy = asked("user", 4000, 4, {"kind": "constant", "rate_per_s": 40}, 120)
    result = run_pools(busy, decode_knobs={"num_gpu_blocks": 60_001})
    finding = found(result)["prefill pool too small"]
    assert list(found(result)) == ["prefill pool too small"]
    queued = (
        result.recording.prefill_requests.first_scheduled_s - result.recording.requests.arrival_s
    )
    assert finding.numbers["mean_queue_s"] == pytest.approx(queued.mean())
    assert finding.numbers["mean_queue_s"] > 0.5 * result.summary["ttft_s"]["mean"]
    assert finding.numbers["busy_fraction"] > 0.99
    wanted = finding.numbers["prefill_servers_wanted"]
    assert wanted == pytest.approx(40 * prefill_s(4000), abs=1)
    cured = run_pools(busy, prefill=int(wanted), decode_knobs={"num_gpu_blocks": 60_001})
    assert "prefill pool too small" not in found(cured)


def test_decode_pool_full() -> None:
    """Room for two requests on the decode server, twenty want to go there."""
    knobs = {"num_gpu_blocks": 2 * 140, "max_model_len": 2200}
    burst = asked("user", 2000, 100, count=20)
    result = run_pools(burst, decode_knobs=knobs)
    finding = found(result)["decode pool full"]
    assert finding.numbers["kv_peak_fraction"] > 0.9
    ways = result.recording.kv_transfers[:20]
    waited = ways.start_s - ways.prefill_end_s
    assert finding.numbers["mean_wait_s"] == pytest.approx(waited.mean())
    assert finding.numbers["seconds_without_a_token"] > 0
    assert "prefill pool too small" not in found(result)
    assert "decode pool full" not in found(run_pools(burst))


def test_seconds_without_a_token_by_hand() -> None:
    """One request: from the end of its prefill to the first decode step no token is computed."""
    knobs = {"num_gpu_blocks": 140, "max_model_len": 2200}
    result = run_pools(asked("user", 2000, 100, count=4), decode_knobs=knobs)
    ways, requests = result.recording.kv_transfers[:4], result.recording.requests
    silent = requests.first_scheduled_s - np.append(ways.prefill_end_s[0], requests.end_s[:-1])
    numbers = found(result)["decode pool full"].numbers
    assert numbers["seconds_without_a_token"] == pytest.approx(silent.sum())


def test_over_admission() -> None:
    """Short prompts, long answers, little KV: preempted requests are prefilled on the decode
    server. Fewer users at once avoid it."""
    knobs: dict[str, Any] = {"num_gpu_blocks": 401, "max_model_len": 2000}
    users = asked("user", 400, 600, count=16)
    result = run_pools(users, decode_knobs=knobs)
    finding = found(result)["over-admission"]
    assert finding.numbers["preemptions"] == result.summary["preemptions"] > 0
    assert finding.numbers["recomputed_tokens"] == result.summary["recomputed_tokens"] > 0
    few = asked("user", 400, 600, {"kind": "closed_loop", "users": 6}, 16)
    capped = run_pools(few, decode_knobs=knobs)
    assert "over-admission" not in found(capped)
    assert capped.summary["preemptions"] == 0


def test_link_too_slow() -> None:
    slow = {"bandwidth_bytes_per_s": 5 * GIGABIT}
    calm = asked("user", 2000, 50, {"kind": "constant", "rate_per_s": 1}, 20)
    result = run_pools(calm, link=slow)
    finding = found(result)["link too slow"]
    assert finding.numbers["mean_transfer_s"] == pytest.approx(
        result.summary["kv_transfer_s"]["mean"]
    )
    assert finding.numbers["bytes_per_s"] == pytest.approx(5 * GIGABIT)
    assert list(found(result)) == ["link too slow"]
    assert run_pools(calm, link={"bandwidth_bytes_per_s": 400 * GIGABIT}).findings == ()


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_kv_not_used(share: float) -> None:
    calm = asked("user", 2000, 50, {"kind": "constant", "rate_per_s": 1}, 20)
    result = run_pools(calm, kv_unused_fraction=share)
    finding = found(result)["KV not used"]
    assert finding.numbers["requests"] == result.summary["recomputed_prefills"]
    assert finding.numbers["tokens"] == 2000 * finding.numbers["requests"]


@pytest.mark.parametrize("policy", ["fail", "recompute"])
def test_kv_loads_fail(policy: str) -> None:
    calm = asked("user", 2000, 50, {"kind": "constant", "rate_per_s": 1}, 20)
    result = run_pools(calm, load_failure_fraction=0.5, kv_load_failure_policy=policy)
    finding = found(result)["KV loads fail"]
    lost = (result.summary["failed"], result.summary["recomputed_prefills"])
    assert (finding.numbers["failed"], finding.numbers["recomputed"]) == lost


def test_a_stalled_run_names_its_mode() -> None:
    """A request outgrows the whole decode pool: nothing can ever move again."""
    knobs = {"num_gpu_blocks": 130, "max_model_len": 8000}
    result = run_pools(one(2000, 500), decode_knobs=knobs)
    assert result.summary["status"] == "stalled"
    assert "the run stalls there" in found(result)["decode pool full"].text
    assert any(note.startswith("decode pool full: ") for note in result.notes)


def test_the_command_shows_the_names(tmp_path: Any, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scenario.json"
    file.write_text(pools(one(2000, 20)).to_json())
    assert command_line.main(["run", str(file)]) == 0
    out, _ = capfd.readouterr()
    assert "diagnosis" not in out
    assert re.search(r"^kv_transfer +20\.97 +20\.97 ", out, re.MULTILINE)
    file.write_text(pools(one(2000, 20), kv_unused_fraction=1).to_json())
    assert command_line.main(["run", str(file)]) == 0
    out, err = capfd.readouterr()
    assert re.search(r"^kv_transfer_s +-$", out, re.MULTILINE)
    assert "diagnosis               KV not used" in out
    assert "note: KV not used: 1 request (100%) was prefilled twice" in err

"""`python -m gpu_backend serve-check`: what it prints, and what it refuses."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from gpu_backend.__main__ import main
from gpu_backend.serve_check import command
from gpu_backend.serve_check.figures import compare
from gpu_backend.serve_check.request_timing import Outcome
from gpu_backend.serve_check.sse import Chunk

from .fake_server import Reply, fake_server
from .virtual import DONE, finish, requests, scenario_of, text, usage


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Ctrl-C is Python's, as when a command starts; afterwards it is pytest's again."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def answer(reply: Reply) -> None:
    """The model list, or three tokens."""
    if reply.handler.command == "GET":
        reply.headers(kind="application/json")
        reply.send(b'{"data": [{"id": "tiny"}]}')
    else:
        reply.headers()
        for data in (text("a"), text("b"), text("c"), finish() + usage(3) + DONE):
            reply.send(data)
    reply.end()


def test_without_a_scenario_it_measures_only(capsys: pytest.CaptureFixture[str]) -> None:
    with fake_server(answer) as (url, replies):
        assert main(["serve-check", url]) == 0
    out, err = capsys.readouterr()
    assert len(replies) == 6
    assert out.startswith("model tiny\n")
    assert "requests 5, finished 5" in out
    (line,) = [line for line in out.splitlines() if line.startswith("ttft p50, ms")]
    measured, simulated, difference = line.split()[-3:]
    assert float(measured) > 0
    assert (simulated, difference) == ("-", "-")
    assert err == ""  # no progress where no terminal shows it


def test_with_a_scenario_the_simulation_stands_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scenario.json"
    file.write_text(scenario_of([0.0, 0.1]).to_json())
    with fake_server(answer) as (url, _):
        assert main(["serve-check", url, "--scenario", str(file), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["simulated"]["ttft_s"]["p50"] == pytest.approx(0.005 + 10 * 1.2e-5)
    assert report["tpot_definition"].startswith("(E2E - TTFT) / (output tokens - 1)")
    assert {"measured", "simulated", "difference", "contaminated", "notes"} <= set(report)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_reports_what_was_answered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The signal comes when four answers are there and the fifth is on its way."""
    arrived = count()

    def four_then_none(reply: Reply) -> None:
        if reply.handler.command == "GET" or next(arrived) < 4:
            answer(reply)
        else:
            reply.headers()
            reply.send(text("a"))
            reply.hang()

    @contextmanager
    def progress_line() -> Iterator[Callable[[str], None]]:
        yield lambda words: interrupt() if words == "4 of 5 requests" else None

    monkeypatch.setattr(command, "progress_line", progress_line)
    with fake_server(four_then_none) as (url, _):
        assert main(["serve-check", url, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["errors"] == {}
    assert (report["finished"], report["cancelled"]) == (4, 1)


def test_ctrl_c_with_all_answers_open_counts_their_first_tokens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun, take = count(1), Outcome.take

    def fifth_interrupts(outcome: Outcome, chunk: Chunk, moment: float) -> None:
        take(outcome, chunk, moment)
        if next(begun) == 5:
            interrupt()

    def one_token(reply: Reply) -> None:
        reply.headers()
        reply.send(text("a"))
        reply.hang()

    monkeypatch.setattr(Outcome, "take", fifth_interrupts)
    with fake_server(one_token) as (url, _):
        assert main(["serve-check", url, "--model", "tiny"]) == 0
    out, err = capsys.readouterr()
    (line,) = [line for line in out.splitlines() if line.startswith("ttft p50, ms")]
    assert float(line.split()[-3]) > 0
    assert "requests 5, finished 0, cancelled 5" in out
    assert "not finished" not in out
    assert err == "cancelled: 5 of 5 answers had begun\n"


def test_ctrl_c_before_any_token_is_an_interrupted_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arrived = count(1)

    def fifth_interrupts(reply: Reply) -> None:
        reply.headers()
        if next(arrived) == 5:
            interrupt()
        reply.hang()

    with fake_server(fifth_interrupts) as (url, _):
        assert main(["serve-check", url, "--model", "tiny"]) == 130
    assert capsys.readouterr().err == "cancelled: 0 of 5 answers had begun\n"


def test_ctrl_c_while_the_server_is_looked_for(capsys: pytest.CaptureFixture[str]) -> None:
    def silent(reply: Reply) -> None:
        interrupt()
        reply.hang()

    with fake_server(silent) as (url, _):
        assert main(["serve-check", url]) == 130
    out, err = capsys.readouterr()
    assert (out, err.strip()) == ("", "")


def test_what_a_cancelled_request_means_for_the_simulation_is_noted() -> None:
    outcomes = [Outcome(0, 0.0, sent_s=0.0, chunk_s=[0.1], status="cancelled")]
    report = compare("tiny", outcomes, requests([0.0]), scenario_of([0.0]))
    assert report["notes"] == [
        "answers that were cut off have a TTFT only; no throughput has their tokens",
        "the simulation serves the cancelled requests to their end",
    ]
    assert report["measured"]["ttft_s"]["p50"] == 0.1
    assert report["measured"]["output_tokens_per_s"] is None


def test_on_a_terminal_the_progress_line_is_wiped_before_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(reply: Reply) -> None:
        reply.headers(503, "text/plain")
        reply.end()

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with fake_server(busy) as (url, _):
        assert main(["serve-check", url, "--model", "tiny"]) == 2
    progress, _, message = capsys.readouterr().err.rpartition("\r")
    assert progress.startswith("\r0 of 5 requests\r")
    assert progress.endswith("\r5 of 5 requests\r" + " " * len("5 of 5 requests"))
    assert message.startswith("error: ")


def test_when_nothing_is_answered_it_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    def busy(reply: Reply) -> None:
        reply.headers(503, "text/plain")
        reply.send(b"come back later")
        reply.end()

    with fake_server(busy) as (url, _):
        assert main(["serve-check", url, "--model", "tiny"]) == 2
        assert "no request was answered; the first reason: HTTP 503: come" in error(capsys)
        assert main(["serve-check", url]) == 2
        assert "GET /models answers HTTP 503; name the model instead" in error(capsys)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://example.com", "example.com:80 is not allowed; allowed: this machine"),
        ("nonsense", "an endpoint looks like http://localhost:8000"),
    ],
)
def test_what_may_not_be_asked(
    url: str, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BATCHSCOPE_ENDPOINTS", raising=False)
    assert main(["serve-check", url]) == 2
    assert words in error(capsys)


def error(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


def test_a_closed_loop_and_a_missing_file_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = json.loads(scenario_of([0.0]).to_json())
    spec = scenario["workload"]["classes"][0]
    spec["arrivals"], spec["count"] = {"kind": "closed_loop", "users": 2}, 4
    file = tmp_path / "loop.json"
    file.write_text(json.dumps(scenario))
    assert main(["serve-check", "http://localhost:1", "--scenario", str(file)]) == 2
    assert "a closed loop has no arrival times" in error(capsys)
    assert main(["serve-check", "http://localhost:1", "--scenario", "none.json"]) == 2
    assert "none.json: no such file" in error(capsys)

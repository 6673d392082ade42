"""A real llama.cpp server on loopback, SmolLM2-135M, measured over HTTP from end to end.

Runs where the wheel xllamacpp is installed and the model fetched (`python -m gpu_backend fetch
smollm2`); skips elsewhere. One thread that does not spin: tests share the machine.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_backend.__main__ import main
from gpu_backend.serve_check.client import Client, measure
from gpu_backend.serve_check.endpoint_policy import endpoint_of
from gpu_backend.serve_check.figures import compare, measured_figures, one_token_each
from gpu_backend.serve_check.request_timing import Outcome

from .virtual import requests, scenario_of

pytestmark = pytest.mark.slow

SERVER = """
import sys
import xllamacpp
wanted = xllamacpp.CommonParams()
wanted.model.path = sys.argv[1]
wanted.n_ctx, wanted.n_parallel, wanted.port, wanted.verbosity = 2048, 4, 0, 0
for threads in (wanted.cpuparams, wanted.cpuparams_batch):
    threads.n_threads, threads.poll = 1, 0
server = xllamacpp.Server(wanted)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a running server; its process ends with the module."""
    pytest.importorskip("xllamacpp")
    smollm2 = pytest.importorskip("gpu_backend.models.smollm2")
    model: Path = smollm2.gguf_file()
    if not model.is_file():
        pytest.skip(f"{model} is not fetched")
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(model)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        address = next((line for line in server.stdout if line.startswith("http")), "")
        assert address, "the server did not start"
        yield address.strip()
        server.stdin.close()


def ask(url: str, times_s: list[float], prompt: int, output: int) -> list[Outcome]:
    workload = requests(times_s, prompt=prompt, output=output)
    _, outcomes = asyncio.run(measure(Client(endpoint_of(url, environment={})), workload))
    assert [outcome.error for outcome in outcomes] == [None] * len(times_s)
    return list(outcomes)


def test_completions_have_the_lengths_that_were_asked_for(url: str) -> None:
    """Prompts are token ids and ignore_eos is honoured: every count is exact."""
    for outcome in ask(url, [0.0, 0.1, 0.2], prompt=24, output=6):
        assert (outcome.status, outcome.finish_reason) == ("finished", "length")
        assert (outcome.prompt_tokens, outcome.output_tokens) == (24, 6)
        assert outcome.done
        assert 1 <= len(outcome.chunk_s) <= 6
        assert outcome.sent_s is not None
        assert outcome.arrival_s <= outcome.sent_s < outcome.chunk_s[0]
        assert outcome.chunk_s == sorted(outcome.chunk_s)


def test_chat_begins_with_a_role_that_is_no_token(url: str) -> None:
    outcomes = ask(f"{url}/v1/chat/completions", [0.0], prompt=20, output=8)
    (outcome,) = outcomes
    assert outcome.output_tokens == 8
    assert (outcome.prompt_tokens or 0) > 20  # the template comes on top
    assert len(outcome.chunk_s) <= 8  # llama.cpp's first chunk has the role and null
    figures = measured_figures(outcomes)
    first, last = outcome.chunk_s[0], outcome.chunk_s[-1]
    assert figures["tpot_s"]["p50"] == pytest.approx((last - first) / 7)
    assert (figures["itl_s"] is not None) == one_token_each(outcome)
    report = compare("m", outcomes, requests([0.0], prompt=20, output=8), None)
    assert "prompt tokens were counted by the server, 20 were asked for" in report["notes"][-1]


def test_a_prompt_that_does_not_fit_is_an_error_in_words(url: str) -> None:
    workload = requests([0.0], prompt=4000, output=2)
    _, (outcome,) = asyncio.run(measure(Client(endpoint_of(url, environment={})), workload))
    assert outcome.status == "failed"
    assert (outcome.error or "").startswith("HTTP 400: ")
    assert "context" in (outcome.error or "")


def test_serve_check_puts_it_beside_the_simulation(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scenario.json"
    file.write_text(scenario_of([0.0, 0.3], prompt=32, output=5).to_json())
    assert main(["serve-check", url, "--scenario", str(file), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["model"].endswith(".gguf")
    assert (report["requests"], report["finished"], report["failed"]) == (2, 2, 0)
    assert (report["prompt_tokens"], report["output_tokens"]) == (64, 10)
    measured, simulated = report["measured"], report["simulated"]
    assert measured["ttft_s"]["p50"] > 0
    # the linear toy: 5 ms per step, 12 us per prompt token; its tokens come 5.04 ms apart
    assert simulated["ttft_s"]["p50"] == pytest.approx(0.005 + 32 * 1.2e-5)
    assert simulated["tpot_s"]["p50"] == pytest.approx(0.00504)
    off = simulated["ttft_s"]["p50"] / measured["ttft_s"]["p50"] - 1
    assert report["difference"]["ttft_s"]["p50"] == pytest.approx(off)

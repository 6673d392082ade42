"""The examples in the spirit of published systems do what their names say."""

from typing import Any

import numpy as np
import pytest

from sim.cli import bench, bench_cluster
from sim.cluster.cluster_state import MOVED
from sim.results.run import Result, simulate
from sim.scenario.load import load_scenario, parse_scenario
from tests.conftest import EXAMPLES


def run(name: str, **disaggregation: Any) -> Result:
    """An example, with some rules of its disaggregation changed."""
    data = load_scenario(EXAMPLES / f"disaggregated_{name}.json").model_dump(mode="json")
    data["disaggregation"] |= disaggregation
    return simulate(parse_scenario(data))


@pytest.mark.parametrize("name", ["1p1d", "distserve", "splitwise", "mooncake"])
def test_an_example_says_what_it_is_and_is_healthy(name: str) -> None:
    result = run(name)
    assert len(result.scenario.name) > 20
    assert result.findings == ()
    assert result.summary["kv_transfers"] > 150
    assert result.summary["goodput_rps"] > 0.9 * result.summary["requests_per_s"]


def test_distserve_has_a_parallelism_for_each_phase() -> None:
    prefill, decode = run("distserve").scenario.replicas
    assert (prefill.role, prefill.tp, decode.role, decode.tp) == ("prefill", 2, "decode", 1)


def test_splitwise_hides_transfers_behind_prompts() -> None:
    """Prompts on H100, tokens on A100. Of prompts of two chunks what is left to send after the
    prefill is less with streaming than without."""
    streamed = run("splitwise")
    gpus = {(each["role"], each["gpu"]) for each in streamed.summary["replicas"]}
    assert gpus == {("prefill", "h100_sxm"), ("decode", "a100_sxm")}
    data = streamed.scenario.model_dump(mode="json")
    data["link"]["streaming"] = False
    chunked = streamed.recording.requests.num_prompt_tokens > 1.2 * 2048
    assert chunked.sum() > 10
    left_s = []
    for result in (streamed, simulate(parse_scenario(data))):
        ways = result.recording.kv_transfers[: len(result.recording.requests)][chunked]
        left_s.append(float((ways.end_s - ways.prefill_end_s).mean()))
    assert left_s[0] < 0.7 * left_s[1]


def test_mooncake_fetches_shared_prefixes_and_turns_away_who_would_be_late() -> None:
    result, without_store = run("mooncake"), run("mooncake", kv_store_bytes=0.0)
    count = len(result.recording.requests)
    stored = result.recording.kv_transfers[count:]
    assert (stored.outcome == MOVED).sum() > 0
    computed = [
        int(each.recording.steps.num_prefill_tokens.sum()) for each in (result, without_store)
    ]
    assert computed[0] < computed[1]
    assert result.summary["prefix_hit_tokens"] > without_store.summary["prefix_hit_tokens"]
    first = result.recording.requests.first_token_s - result.recording.requests.arrival_s
    assert np.nanmax(first) <= result.scenario.slo.ttft_s  # type: ignore[union-attr]


@pytest.mark.parametrize("split", [False, True])
def test_the_bench_of_clusters_counts_every_token(split: bool) -> None:
    """Each request: its prompt in one chunk (and its last token once more, where it is moved to),
    then a decode for each token but the first."""
    row = bench_cluster.measure(bench.policy_rows(bench.ENOUGH_TOKENS, False), 4, split, 40)
    assert row["request_tokens"] == 40 * (1 + split + bench_cluster.OUTPUT - 1)
    assert row["cpu_seconds"] > 0
    assert row["servers"] == ("2 + 2" if split else "4")

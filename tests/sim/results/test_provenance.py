"""Every run says how sure its milliseconds are."""

from typing import Any

import pytest

from sim.results.run import Result, simulate
from sim.scenario.load import load_scenario, parse_scenario
from tests.conftest import EXAMPLES


def run(gpu: str = "h100", prompt: int = 500, count: int = 4, **policy: Any) -> Result:
    one_class = {
        "name": "user",
        "count": count,
        "arrivals": {"kind": "all_at_once"},
        "prompt": {"kind": "fixed", "tokens": prompt},
        "output": {"kind": "fixed", "tokens": 20},
    }
    replica = {"model": "Llama-3.1-8B", "gpu": gpu, "policy": {"engine": "vllm_v1", **policy}}
    return simulate(parse_scenario({"workload": {"classes": [one_class]}, "replicas": [replica]}))


@pytest.mark.parametrize(("gpu", "words"), [("h100", "calibrated"), ("l4", "from the spec sheet")])
def test_the_class_of_the_numbers_and_their_error_are_said(gpu: str, words: str) -> None:
    result = run(gpu, max_model_len=4096)
    about = [note for note in result.notes if note.startswith("step times:")]
    assert len(about) == 1
    assert words in about[0]
    assert f"{result.summary['expected_error']:.1%}" in about[0]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"prompt": 20_000}, "20,019 tokens of context, measured up to 8,192"),
        ({"prompt": 12_000, "max_num_batched_tokens": 16_384}, "tokens in a step, measured up to"),
        ({"count": 400, "prompt": 20}, "400 decodes in a step, measured up to 256"),
    ],
)
def test_what_lies_outside_the_calibrated_range_is_said(edit: dict[str, Any], words: str) -> None:
    assert any(words in note for note in run(**edit).notes)


def test_inside_the_range_nothing_of_the_kind_is_said() -> None:
    assert not any("outside" in note or "queueing" in note for note in run(prompt=100).notes)


def test_a_run_that_is_mostly_queue_says_so() -> None:
    notes = run(count=200, max_num_seqs=4).notes
    assert any("of the mean TTFT is queueing" in note for note in notes)


def test_servers_of_several_kinds_are_named_each() -> None:
    """Splitwise's machines: each kind with its own class, and the summary with the larger error."""
    result = simulate(load_scenario(EXAMPLES / "disaggregated_splitwise.json"))
    about = [note for note in result.notes if "step times:" in note]
    assert [note.split(" on ")[0] for note in about] == ["prefill servers", "decode servers"]
    assert ["H100" in about[0], "A100" in about[1]] == [True, True]
    errors = [replica.expected_error for replica in result.resolved.replicas]
    assert len(set(errors)) == 2
    assert result.summary["expected_error"] == max(errors)


def test_pools_of_alike_servers_share_a_sentence() -> None:
    example = load_scenario(EXAMPLES / "disaggregated_splitwise.json")
    alike = [one.model_copy(update={"gpu": "h100_sxm"}) for one in example.replicas]
    result = simulate(example.model_copy(update={"replicas": alike}))
    about = [note for note in result.notes if "step times:" in note]
    assert len(about) == 1
    assert about[0].startswith("step times: calibrated for this GPU")

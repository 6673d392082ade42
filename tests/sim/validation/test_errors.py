"""Programs read a refusal's code, limit and field; people read its sentence."""

from typing import Any

import pytest

from sim.scenario.load import parse_scenario, resolve
from sim.validation.errors import RefusalError, ScenarioError


def scenario(**policy: Any) -> dict[str, Any]:
    return {
        "workload": {
            "classes": [
                {
                    "name": "a",
                    "count": 1,
                    "arrivals": {"kind": "all_at_once"},
                    "prompt": {"kind": "fixed", "tokens": 10},
                    "output": {"kind": "fixed", "tokens": 5},
                }
            ]
        },
        "replicas": [{"latency": {"kind": "linear"}, "policy": {"engine": "vllm_v1", **policy}}],
    }


def refusal(**policy: Any) -> ScenarioError:
    with pytest.raises(RefusalError) as caught:
        resolve(parse_scenario(scenario(**policy)))
    assert isinstance(caught.value, ScenarioError)
    return caught.value


def test_a_bound_is_the_limit() -> None:
    error = refusal(block_size=0)
    assert (error.code, error.limit) == ("greater_than_equal", 1)
    assert error.field == "replicas[0].policy.block_size"


def test_budget_below_max_num_seqs() -> None:
    error = refusal(max_num_batched_tokens=128, max_num_seqs=256)
    assert (error.code, error.limit) == ("budget_below_max_num_seqs", 256)
    assert error.field == "replicas[0].policy.max_num_batched_tokens"


def test_chunking_off_below_max_model_len() -> None:
    error = refusal(max_num_batched_tokens=512, max_model_len=8192, enable_chunked_prefill=False)
    assert (error.code, error.limit) == ("budget_below_max_model_len", 8192)


@pytest.mark.parametrize(
    ("key", "code", "words"),
    [
        ("max_num_seq", "unknown_key", "unknown key; did you mean 'max_num_seqs'?"),
        ("max_num_partial_prefills", "not_modelled", "vLLM V1 accepts it and does not enforce it"),
        ("num_speculative_tokens", "not_modelled", "not modelled: speculative decoding"),
        ("swap_space", "not_modelled", "V1 preempts by recompute"),
    ],
)
def test_a_key_that_is_no_knob(key: str, code: str, words: str) -> None:
    error = refusal(**{key: 1})
    assert error.code == code
    assert words in str(error)


def test_a_suggestion_is_a_knob_of_the_engine_at_hand() -> None:
    """chunked_prefill_size is SGLang's; vLLM V1 has nothing like it."""
    error = refusal(chunked_prefill_siz=512)
    assert error.code == "unknown_key"
    assert "chunked_prefill_size" not in str(error)


def test_sglang_suggests_its_own_knob() -> None:
    data = scenario()
    data["replicas"][0]["policy"] = {"engine": "sglang", "chunked_prefill_siz": 512}
    with pytest.raises(ScenarioError, match="did you mean 'chunked_prefill_size'"):
        parse_scenario(data)

"""Operating points by hand, and a pasted config.json."""

import json

import pytest

from sim.hardware import catalog
from sim.latency import inputs as latency_inputs
from sim.latency.model import unit_row
from sim.latency.roofline import (
    decode_step,
    knee_tokens,
    mixed_step,
    operating_point,
    prefill_step,
)
from sim.scenario.model_config import model_from_config


def test_operating_point_by_hand() -> None:
    """2 FLOP per token, 10 bytes of weights, 5 bytes/s: a decode of 3 does 6 FLOP on 10 bytes."""
    row = unit_row()
    row.gemm_flop_per_token, row.weight_bytes = 2, 10
    row.peak_flops, row.bandwidth, row.smooth_exponent = 100, 5, 1000
    point = operating_point("decode", row, decode_step(3, 7))
    assert (point.flop, point.bytes, point.tokens) == (6, 10, 3)
    assert point.intensity == pytest.approx(0.6)
    assert point.seconds == pytest.approx(2.0)
    assert point.flop_per_s == pytest.approx(3.0)
    assert knee_tokens(row) == pytest.approx(2 * 100 / 2)


def test_intensity_grows_with_batch_and_with_prompt() -> None:
    row = latency_inputs.roofline(
        catalog.model("Llama-3.1-8B"), catalog.gpu("h100"), "bf16", 1, "auto"
    )
    decodes = [operating_point("decode", row, decode_step(b, 1024)).intensity for b in (1, 8, 64)]
    prompts = [operating_point("prefill", row, prefill_step(t)).intensity for t in (16, 256, 2048)]
    assert decodes == sorted(decodes)
    assert prompts == sorted(prompts)
    assert 1.0 < decodes[0] < 1.1, "about one FLOP per byte for one request"


def test_piggyback() -> None:
    """1,500 prompt tokens and 64 decodes cost less together than apart, more than a chunk alone."""
    row = latency_inputs.roofline(
        catalog.model("Qwen2.5-7B"), catalog.gpu("rtx_4090"), "bf16", 1, "auto"
    )
    chunk, decodes, both = (
        operating_point("", row, step).seconds
        for step in (prefill_step(1500), decode_step(64, 1024), mixed_step(1500, 64, 1024))
    )
    assert chunk < both < chunk + decodes


CONFIG = {
    "model_type": "qwen2",
    "num_hidden_layers": 28,
    "hidden_size": 3584,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "intermediate_size": 18944,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
}


def test_a_pasted_config_is_the_catalogues_model() -> None:
    pasted = model_from_config(json.dumps(CONFIG))
    assert pasted.parameters == catalog.model("Qwen2.5-7B").parameters
    assert pasted.head_dim == 128


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"model_type": "gpt2"}, "model_type: found 'gpt2'; allowed: 'llama'"),
        ({"num_local_experts": 8}, "mixture of experts"),
        ({"hidden_size": "big"}, "hidden_size: found 'big'; must be a whole number"),
        ({"hidden_size": -1}, "hidden_size: found -1; must be at least 1"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers: found 1000000000; must be at most"),
        ({"num_key_value_heads": 5}, "28 attention heads cannot share 5 KV heads"),
    ],
)
def test_a_config_that_is_no_dense_decoder(edit: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        model_from_config(json.dumps(CONFIG | edit))


@pytest.mark.parametrize(("text", "words"), [("{", "not JSON"), ("[1]", "must be an object")])
def test_a_config_that_is_no_object(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        model_from_config(text)

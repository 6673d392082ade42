"""Reports on configurations: what an engine refuses, and knobs that do nothing; step times by
batch.
"""

import pytest

from sim import replay
from sim.engines.knobs.vllm_v1 import VllmV1
from sim.hardware import catalog
from sim.latency import inputs as latency_inputs
from sim.latency.model import load, step_seconds
from sim.scenario.load import ScenarioError
from tests.field.field import asked, holds_only_with, numbers, serve


def start(**policy: object) -> None:
    serve(asked("one", 10, 1, count=1), model="Llama-3.1-8B", gpu="h100", **policy)


def test_F34_partial_prefill_knobs_do_not_exist_and_only_ever_set_the_threshold() -> None:
    n = numbers("F34")
    for name in ("max_num_partial_prefills", "max_long_partial_prefills"):
        assert name not in VllmV1.model_fields
        with pytest.raises(ScenarioError, match=name):
            start(**{name: 2})

    def check(partial: bool) -> None:
        config = {
            "max_num_batched_tokens": 2048,
            "max_num_seqs": 8,
            "max_model_len": 1000,
            "enable_chunked_prefill": True,
            "long_prefill_token_threshold": 0,
            "max_num_partial_prefills": 2 if partial else 1,
            "max_long_partial_prefills": 1,
            "num_gpu_blocks": 100,
            "block_size": 16,
            "enable_prefix_caching": False,
            "policy": "fcfs",
            "scheduler_reserve_full_isl": True,
            "watermark": 0.0,
        }
        knobs = replay.vllm_v1_knobs(config)
        expected = int(config["max_model_len"] * n["threshold_percent"] / 100)
        assert knobs.long_prefill_token_threshold == expected

    holds_only_with(check)


def test_F56_chunking_off_needs_a_budget_of_max_model_len() -> None:
    n = numbers("F56")
    budget, length = int(n["budget"]), int(n["max_model_len"])

    def check(chunking_off: bool) -> None:
        with_chunking = {"enable_chunked_prefill": not chunking_off}
        refused = False
        try:
            start(max_num_batched_tokens=budget, max_model_len=length, **with_chunking)
        except ScenarioError as error:
            refused = f"({budget})" in str(error) and f"({length})" in str(error)
        assert refused

    holds_only_with(check)
    start(max_num_batched_tokens=length, max_model_len=length, enable_chunked_prefill=False)
    start(max_model_len=length, enable_chunked_prefill=False)  # left open: raised by itself


def test_F57_the_budget_must_reach_max_num_seqs() -> None:
    assert numbers("F57") == {}

    def check(below: bool) -> None:
        refused = False
        try:
            start(max_num_batched_tokens=128 if below else 129, max_num_seqs=129)
        except ScenarioError as error:
            refused = "max_num_seqs (129)" in str(error)
        assert refused

    holds_only_with(check)


def test_F30_decode_steps_grow_slowly_with_batch_and_long_prompts_superlinearly() -> None:
    """Yi-34B on two A100 stands in for the unnamed model: the shape, not the milliseconds."""
    n = numbers("F30")
    model, gpu = catalog.model("Yi-34B"), catalog.gpu("a100")

    def check(attention: bool) -> None:
        row = latency_inputs.roofline(model, gpu, "bf16", 2, "auto")
        if not attention:
            row.attention_flop_per_pair = 0.0
            row.kv_bytes_per_token = 0.0

        def decode(batch: float) -> float:
            step = load(num_decodes=batch, num_sampled=batch, decode_context=batch * 1024)
            return step_seconds(row, step)

        def prefill(tokens: float) -> float:
            pairs = tokens * tokens / 2
            step = load(
                num_prefill_tokens=tokens,
                num_chunks=1,
                num_sampled=1,
                prefill_context=tokens,
                prefill_pairs=pairs,
            )
            return step_seconds(row, step)

        assert decode(n["flat_to"]) / decode(1) < 1.5 * n["batch_4_ms"] / n["batch_1_ms"]
        assert 1.3 < decode(128) / decode(1) < 2 * n["batch_128_ms"] / n["batch_1_ms"]
        linear = prefill(4096) / prefill(512)
        assert 0.8 < linear / (n["prefill_4k_ms"] / n["prefill_512_ms"]) < 1.25
        assert prefill(16384) / prefill(4096) > 1.1 * 4, "attention grows with the square"

    holds_only_with(check)

"""Step times from numbers one can check by hand, and from the catalogue within what is known."""

import io
import itertools
from typing import Any

import numpy as np
import pytest

from sim.core.recording import STEP
from sim.hardware import catalog
from sim.latency.efficiency import efficiency
from sim.latency.flops import model_bytes, model_flop
from sim.latency.inputs import roofline
from sim.latency.model import (
    ROOFS,
    TERMS,
    linear,
    load,
    smooth_maximum,
    step_seconds,
    steps_seconds,
    unit_row,
)
from sim.latency.roofline import breakdown
from sim.latency.table import errors_by_group, predict_table


def row_of(model: str, gpu: str, tp: int = 1, precision: str = "bf16") -> object:
    return roofline(catalog.model(model), catalog.gpu(gpu), precision, tp, "auto")


def prefill(n: int, start: int = 0) -> object:
    return load(
        num_prefill_tokens=n,
        num_chunks=1,
        num_sampled=1,
        prefill_context=start + n,
        prefill_pairs=n * (start + n / 2),
    )


def decode(batch: int, context: int) -> object:
    return load(num_decodes=batch, num_sampled=batch, decode_context=batch * context)


@pytest.mark.parametrize(
    ("prefill_tokens", "decodes", "ms"), [(2048, 0, 29.576), (2042, 6, 29.744), (0, 16, 5.64)]
)
def test_linear_toy(prefill_tokens: int, decodes: int, ms: float) -> None:
    """5 ms + 12 us a prompt token + 40 us a decode."""
    step = load(num_prefill_tokens=prefill_tokens, num_decodes=decodes)
    assert step_seconds(linear(), step) * 1e3 == pytest.approx(ms)
    parts = breakdown(linear(), step)
    assert parts.total_s == pytest.approx(sum(parts.seconds.values()))


def test_roofline_by_hand() -> None:
    """Every term of a made-up GPU of 10 FLOP/s and 5 bytes/s, computed on paper."""
    row = unit_row()
    row.peak_flops = row.attention_peak_flops = 10
    row.bandwidth = 5
    row.mfu, row.mfu_half_tokens, row.attention_mfu = 0.5, 1, 0.25
    row.mbu_weights, row.mbu_kv = 0.4, 0.8
    row.gemm_flop_per_token, row.weight_bytes = 2, 10
    row.attention_flop_per_pair, row.kv_bytes_per_token = 0.5, 4
    row.head_flop_per_row, row.head_bytes = 3, 1
    row.activation_bytes_per_token = 1
    row.message_bytes_per_token, row.allreduce_calls, row.allreduce_scale = 6, 4, 0.5
    row.allreduce_log_bytes = np.log([2.0**k for k in range(12)])
    row.allreduce_log_s = np.log([2.0**k / 64 for k in range(12)])
    row.launch_s, row.fixed_s, row.host_s, row.smooth_exponent = 0.25, 0.5, 0.0625, 1
    row.swap_block_bytes, row.host_bandwidth, row.host_link_s = 6, 2, 0.5
    step = load(
        num_prefill_tokens=2,
        num_decodes=1,
        num_sampled=2,
        decode_context=5,
        prefill_context=3,
        prefill_pairs=40,
        swapped_out_blocks=1,
        swapped_in_blocks=2,
    )
    parts = breakdown(row, step)
    assert parts.roofs == pytest.approx(
        {
            "gemm_compute": 2 * (3 + 1) / (10 * 0.5),
            "weight_reads": 10 / (5 * 0.4),
            "decode_compute": 5 * 0.5 / (10 * 0.25),
            "decode_kv_reads": 5 * 4 / (5 * 0.8),
            "prefill_compute": 40 * 0.5 / (10 * 0.25),
            "prefill_kv_reads": 3 * 4 / (5 * 0.8),
            "head_compute": 2 * 3 / (10 * 0.5),
            "head_reads": 1 / (5 * 0.4),
        }
    )
    assert parts.seconds == pytest.approx(
        {
            "linear_layers": 1.6 + 5,  # exponent 1: the sum
            "decode_attention": 5,
            "prefill_attention": 8,
            "lm_head": 1.2,
            "activations": 3 / 5,
            "all_reduce": 4 * 0.5 * (3 * 6 / 64),
            "launch": 0.25 + 0.5,
            "host": 0.0625,
            "swap": 3 * 6 / 2 + 2 * 0.5,
        }
    )
    assert parts.total_s == pytest.approx(sum(parts.seconds.values()))
    assert parts.bound == "memory"
    assert tuple(parts.seconds) == TERMS
    assert tuple(parts.roofs) == ROOFS


def test_step_without_tokens_costs_the_host_alone() -> None:
    row = row_of("Llama-3.1-8B", "h100_sxm", tp=2)
    assert step_seconds(row, load()) == row.host_s


def test_head_is_read_for_sampled_rows_only() -> None:
    row = row_of("Llama-3.1-8B", "h100_sxm")
    inner = prefill(512)
    inner.num_sampled = 0
    assert breakdown(row, inner).seconds["lm_head"] == 0
    assert breakdown(row, prefill(512)).seconds["lm_head"] > 0


def test_smooth_maximum_lies_between_maximum_and_sum() -> None:
    assert smooth_maximum(3.0, 4.0, 2.0) == pytest.approx(5.0)
    assert smooth_maximum(1.0, 1e-9, 2.0) == 1.0
    assert smooth_maximum(0.0, 0.0, 2.0) == 0.0


@pytest.mark.parametrize(
    ("model", "gpu", "step", "low_ms", "high_ms"),
    [
        ("Qwen2.5-7B", "rtx_4090", prefill(8000), 800, 1100),
        ("Qwen2.5-7B", "rtx_4090", decode(4, 300), 16, 20),
        ("Llama-3.1-8B", "h100", prefill(8000), 170, 250),
        ("Llama-3.1-8B", "h100", decode(32, 1024), 7.5, 9.5),  # operator sums: 8.3 ms
        ("Llama-3.1-8B", "rtx_4090", decode(32, 1024), 21, 27),  # kernel sums: 23.9 ms
    ],
)
def test_known_step_times(
    model: str, gpu: str, step: object, low_ms: float, high_ms: float
) -> None:
    assert low_ms < step_seconds(row_of(model, gpu), step) * 1e3 < high_ms


def test_more_work_never_takes_less_time() -> None:
    row = row_of("Qwen3-8B", "l40s")
    times = [step_seconds(row, decode(batch, 2048)) for batch in range(1, 257)]
    assert all(later >= earlier for earlier, later in itertools.pairwise(times))
    times = [step_seconds(row, prefill(n)) for n in range(1, 4096, 64)]
    assert all(later >= earlier for earlier, later in itertools.pairwise(times))


def test_tensor_parallel_shares_work_and_keeps_at_least_one_kv_head() -> None:
    one, eight = (row_of("Llama-3.1-70B", "h100", tp=tp) for tp in (1, 8))
    assert eight.weight_bytes == one.weight_bytes / 8
    assert eight.kv_bytes_per_token == one.kv_bytes_per_token / 8
    assert one.allreduce_calls == 0
    assert eight.allreduce_calls == 2 * 80
    assert catalog.model("Qwen2.5-7B").kv_heads_per_gpu(8) == 1


def test_flop_and_bytes_of_a_step() -> None:
    """Llama-3.1-8B: 2 x 6.98 billion FLOP per token in the layers; all weights and the KV once."""
    row = row_of("Llama-3.1-8B", "h100")
    linear_parameters = 32 * (4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14336)
    steps = np.zeros(2, STEP).view(np.recarray)
    steps[0].num_prefill_tokens = steps[0].prefill_context = 100
    steps[0].prefill_pairs = 100 * 50
    steps[1].num_decodes = steps[1].num_sampled = 2
    steps[1].decode_context = 2000
    flop, moved = model_flop(row, steps), model_bytes(row, steps)
    attention = 4 * 32 * 32 * 128
    head = 128256 * 4096
    assert flop[0] == 100 * 2 * linear_parameters + 5000 * attention
    assert flop[1] == 2 * (2 * linear_parameters + 2 * head) + 2000 * attention
    assert moved[0] == 2 * linear_parameters + 131072 * (100 + 100)
    assert moved[1] == 2 * linear_parameters + 2 * head + 131072 * (2000 + 2)


def test_padding_is_no_work_of_the_model() -> None:
    """A padded step takes as long as its rectangle, but half of it is padding."""
    row = row_of("Llama-3.1-8B", "h100")
    steps = np.zeros(2, STEP).view(np.recarray)
    steps.num_prefill_tokens = 1000
    steps[1].num_padding_tokens = 500
    whole, padded = model_flop(row, steps)
    assert padded == whole / 2
    assert step_seconds(row, steps[0]) == step_seconds(row, steps[1])


def test_many_steps_are_the_same_as_one_at_a_time() -> None:
    row = row_of("SmolLM2-135M", "a100")
    steps = np.zeros(3, STEP).view(np.recarray)
    steps.num_decodes = steps.num_sampled = [1, 2, 3]
    steps.decode_context = [10, 20, 30]
    seconds = np.empty(3)
    steps_seconds(row, steps, seconds)
    assert seconds.tolist() == [step_seconds(row, step) for step in steps]


def test_latency_table() -> None:
    """Unknown names leave an empty cell and a note; cells of the table are copied as they are."""
    table = (
        "source,gpu,model,precision,tp,phase,tokens,batch,context,latency_ms\n"
        "x,H100,meta-llama/Llama-3.1-8B-Instruct,fp16,1,decode,32,32.0,1024.0,8.3244\n"
        "x,a100_40gb,Llama-3.1-8B,bf16,1,decode,32,32,1024,9\n"
        "x,h100,Llama-3.1-8B,bf16,1,nonattn_ops,32,,,9\n"
        "x,h100,Llama-3.1-8B,bf16,1,decode,32,32,,\n"
        "x,h100,Llama-3.1-8B,bf16,1,mixed_chunk,2048,64,1024,\n"
        "x,h100,Llama-3.1-8B,bf16,1,prefill_chunk512_on_prefix,512,1,6144,14.2674\n"
    )
    target = io.StringIO()
    notes, compared = predict_table(io.StringIO(table), target)
    lines = target.getvalue().splitlines()
    assert lines[0] == table.splitlines()[0] + ",predicted_ms"
    cells = [line.rsplit(",", 1) for line in lines[1:]]
    assert [line for line, _ in cells] == table.splitlines()[1:]
    predicted = [float(cell) if cell else None for _, cell in cells]
    assert predicted[1:4] == [None, None, None]
    assert predicted[0] == pytest.approx(8.3244, rel=0.15)
    assert predicted[4] == pytest.approx(46.4543, rel=0.15)
    assert predicted[5] == pytest.approx(14.2674, rel=0.15)
    assert len(notes) == 3
    assert "unknown GPU 'a100_40gb'" in notes[0]
    assert [line.split(":")[0] for line in errors_by_group(compared)] == ["h100_sxm bf16"]


def test_odd_rows_of_a_latency_table_are_noted() -> None:
    head = "gpu,model,precision,tp,phase,tokens,batch,context\n"
    rows = "h100,Llama-3.1-8B,bf16,3,decode,8,8,1024\nh100,Llama-3.1-8B,bf16,1,decode,64,8,1024\n"
    target = io.StringIO()
    notes, _ = predict_table(io.StringIO(head + rows), target)
    assert "32 attention heads of Llama-3.1-8B cannot be divided by it" in notes[0]
    assert "1 decode rows, from line 3, whose tokens are not their batch" in notes[1]
    cells = [line.rsplit(",", 1)[1] for line in target.getvalue().splitlines()[1:]]
    assert cells[0] == ""
    assert float(cells[1]) > 1


def test_latency_table_without_its_columns() -> None:
    with pytest.raises(ValueError, match="columns missing: model, precision"):
        predict_table(io.StringIO("gpu\nh100\n"), io.StringIO())


def test_all_reduce_follows_the_measured_calls() -> None:
    """Between two sizes in proportion (log-log), below the first as long, beyond the last by
    bytes.
    """
    row = unit_row()
    row.message_bytes_per_token, row.allreduce_calls, row.allreduce_scale = 1, 1, 1
    row.allreduce_log_bytes = np.log([4.0**k for k in range(1, 13)])
    row.allreduce_log_s = np.log([2.0**k for k in range(1, 13)])
    for tokens, seconds in ((1, 2), (4, 2), (8, 8**0.5), (4**12, 4096), (4**13, 4 * 4096)):
        assert breakdown(row, load(num_prefill_tokens=tokens)).seconds["all_reduce"] == (
            pytest.approx(seconds)
        )


# --- the shape of chunked prefill -----------------------------------------------------------------


def yi_34b() -> Any:
    return row_of("Yi-34B", "a100", tp=2)


def chunked_seconds(row: Any, prompt: int, chunk: int) -> float:
    """A prompt computed chunk by chunk, alone."""
    starts = range(0, prompt, chunk)
    return sum(step_seconds(row, prefill(min(chunk, prompt - s), s)) for s in starts)


@pytest.mark.parametrize("prompt", [2047, 4095, 8191])
def test_what_chunking_costs_a_prompt(prompt: int) -> None:
    """Sarathi-Serve measured 12 to 19% for chunks of 512 and about nothing for 2,048 (two A100)."""
    row = yi_34b()
    whole = chunked_seconds(row, prompt, prompt)
    assert 1.12 < chunked_seconds(row, prompt, 512) / whole < 1.20
    assert chunked_seconds(row, prompt, 2048) / whole < 1.06


def test_decodes_ride_along_with_a_chunk() -> None:
    """Three decodes beside 1,021 prompt tokens cost about nothing; alone they are a step."""
    row = yi_34b()
    chunk = prefill(1021)
    together = load(
        num_prefill_tokens=1021,
        num_chunks=1,
        num_sampled=4,
        num_decodes=3,
        decode_context=3 * 1024,
        prefill_context=1021,
        prefill_pairs=1021 * 1021 / 2,
    )
    assert step_seconds(row, together) / step_seconds(row, chunk) < 1.02
    assert step_seconds(row, decode(3, 1024)) / step_seconds(row, chunk) > 0.1


def test_int4_weights_are_read_faster_and_computed_in_bf16() -> None:
    """Few decodes read a quarter of the bytes; a long prompt takes as long as in bf16."""
    bf16, int4 = (row_of("Qwen2.5-7B", "rtx_4090", precision=p) for p in ("bf16", "int4"))
    assert step_seconds(int4, decode(1, 128)) < 0.5 * step_seconds(bf16, decode(1, 128))
    assert step_seconds(int4, prefill(8000)) == pytest.approx(
        step_seconds(bf16, prefill(8000)), rel=0.03
    )
    assert efficiency("rtx_4090", "int4").kind == "spec sheet"

"""Reports on chunks, budgets and caps (vLLM V1)."""

import numpy as np

from tests.field.field import (
    asked,
    at,
    gaps_ms,
    holds_only_with,
    numbers,
    rows_of,
    serve,
    token_times,
    ttft_s,
)

WITHOUT_STEP_COST = {"kind": "linear", "step_s": 0.0, "prefill_token_s": 1e-5, "decode_s": 0.0}


def test_F08_chunking_lowers_the_worst_gap_and_can_raise_p99() -> None:
    """Rare long prompts: whole, fewer than 1% of gaps stall; in chunks, more gaps stall a
    little.
    """
    n = numbers("F08")
    prompt = 1024 * n["long_prompt_k"]

    def tail(budget: float, rate: float) -> tuple[float, float, float]:
        result = serve(
            asked("stream", n["stream_prompt"], n["stream_output"], count=int(n["streams"])),
            asked("document", prompt, 1, {"kind": "constant", "rate_per_s": rate}, 80),
            model="Llama-3.2-3B",
            gpu="rtx_4090",
            max_num_batched_tokens=int(budget),
            max_num_seqs=64,
            max_model_len=16384,
            enable_prefix_caching=False,
        )
        gaps = gaps_ms(result, "stream")
        return np.percentile(gaps, 99), gaps.max(), float(np.mean(ttft_s(result, "document")))

    def check(chunked: bool) -> None:
        chunk = n["chunk_budget"] if chunked else 2 * prompt
        off_p99, off_max, off_ttft = tail(2 * prompt, n["slow_rate"])
        on_p99, on_max, on_ttft = tail(chunk, n["slow_rate"])
        assert on_p99 > 2 * off_p99, "p99 gets worse ..."
        assert on_max < off_max / 2, "... while the maximum gets better"
        assert 0.5 < (off_max / on_max) / (n["off_max_ms"] / n["on_max_ms"]) < 2
        assert 1.0 < on_ttft / off_ttft < 1.4
        busy_off_p99, _, _ = tail(2 * prompt, n["fast_rate"])
        busy_on_p99, _, _ = tail(chunk, n["fast_rate"])
        assert busy_on_p99 < busy_off_p99, "past the knee chunking wins at p99 too"

    holds_only_with(check)


def test_F11_a_cap_lets_short_requests_join_a_long_prefill() -> None:
    """Full-budget chunks of one long prompt leave newcomers nothing; a cap of half the budget
    does.
    """
    n = numbers("F11")

    def run(threshold: float) -> tuple[float, float]:
        result = serve(
            asked("long", 1000 * n["long_prompt_k"], 1, at(0.0)),
            asked("poll", 64, 8, {"kind": "constant", "rate_per_s": 4.0, "start_s": 0.1}, 8),
            max_num_batched_tokens=int(n["budget"]),
            long_prefill_token_threshold=int(threshold),
            max_num_seqs=16,
            max_model_len=400_000,
        )
        return float(ttft_s(result, "poll").max()), float(ttft_s(result, "long")[0])

    def check(capped: bool) -> None:
        frozen, long_before = run(0)
        cured, long_after = run(n["threshold"] if capped else 0)
        assert frozen > 0.9 * long_before, "a newcomer waits for the whole prefill"
        assert frozen / cured > 0.5 * n["frozen_s"] / n["cured_median_s"]
        assert 1.0 < long_after / long_before < 1.3

    holds_only_with(check)


def test_F12_a_stream_gets_one_token_for_each_chunk() -> None:
    """While a long prompt runs in chunks of C, a stream's rate is the prefill rate over C."""
    n = numbers("F12")

    def check(limited: bool) -> None:
        chunk = n["chunk"] if limited else 4 * n["chunk"]
        result = serve(
            asked("stream", n["stream_prompt"], n["stream_output"], at(0.0)),
            asked("long", n["long_prompt"], 1, at(5.0)),
            model="Llama-3.1-8B",
            gpu="h100",
            max_num_batched_tokens=int(chunk) + 1,
            max_num_seqs=16,
            max_model_len=131072,
        )
        times = token_times(result, int(rows_of(result, "stream")[0]))
        request = result.recording.requests[rows_of(result, "long")[0]]
        during = (times > request.first_scheduled_s) & (times <= request.first_token_s)
        seconds = request.first_token_s - request.first_scheduled_s
        rate = during.sum() / seconds
        assert abs(rate / (n["long_prompt"] / seconds / n["chunk"]) - 1) < 0.05
        before = ((times > 3) & (times <= 5)).sum() / 2
        assert before / rate > 2

    holds_only_with(check)


def test_F17_a_cap_per_request_does_not_bound_the_step_a_budget_does() -> None:
    """Three prompts with a chunk each stall the decoder three times as long as one budget does."""
    n = numbers("F17")
    prompt = int(1000 * n["prompt_k"])

    def run(budget: int, cap: int) -> tuple[float, float]:
        result = serve(
            asked("decoder", 32, 1500, at(0.0)),
            asked("ingest", prompt, 1, at(*[1.0] * int(n["ingests"]))),
            model="Qwen3-8B",
            gpu="h100",
            max_num_batched_tokens=budget,
            long_prefill_token_threshold=cap,
            max_num_seqs=16,
            max_model_len=8192,
        )
        return float(gaps_ms(result, "decoder").max()), float(ttft_s(result, "ingest").max())

    def check(budgeted: bool) -> None:
        capped_gap, capped_wall = run(8192, 1024)
        gap, wall = run(1024 if budgeted else 8192, 1024)
        assert capped_gap / gap > 0.8 * n["gap_uncapped_ms"] / n["gap_capped_ms"]
        assert 1.0 < wall / capped_wall < 1.3 * n["wall_after_ms"] / n["wall_before_ms"]

    holds_only_with(check)


def test_F19_prompts_served_in_turn_have_the_lower_mean() -> None:
    """n equal prompts: round-robin all finish last, in turn the mean is (n + 1) / 2n of that."""
    n = numbers("F19")

    def run(cap: int) -> np.ndarray:
        result = serve(
            asked("prompt", n["tokens"], 1, count=int(n["prompts"])),
            latency=WITHOUT_STEP_COST,
            max_num_batched_tokens=2048,
            long_prefill_token_threshold=cap,
            max_num_seqs=16,
            max_model_len=16384,
        )
        return ttft_s(result, "prompt")

    def check(shared: bool) -> None:
        in_turn, round_robin = run(0), run(512 if shared else 0)
        count = n["prompts"]
        assert abs(in_turn.mean() / round_robin.mean() / n["mean_ratio"] - 1) < 0.01
        assert abs(n["mean_ratio"] - (count + 1) / (2 * count)) < 1e-9
        assert abs(round_robin.max() / in_turn.max() - 1) < 0.01
        shares = np.sort(in_turn) / in_turn.max()
        assert np.allclose(shares, np.arange(1, count + 1) / count, rtol=0.01)

    holds_only_with(check)


def test_F20_lanes_help_the_late_short_prompt_and_cost_the_long_ones() -> None:
    n = numbers("F20")

    def run(lanes: float) -> tuple[float, float, float]:
        result = serve(
            asked("long", 40_000, 20, count=int(n["lanes"])),
            asked("late", 1000 * n["late_k"], 20, at(0.2)),
            latency=WITHOUT_STEP_COST,
            max_num_batched_tokens=4096,
            long_prefill_token_threshold=int(4096 / lanes) if lanes > 1 else 0,
            max_num_seqs=16,
            max_model_len=65536,
        )
        late, long = ttft_s(result, "late")[0], np.median(ttft_s(result, "long"))
        return float(late), float(long), float(result.summary["output_tokens_per_s"])

    def check(interleaved: bool) -> None:
        late_before, long_before, rate_before = run(1)
        late_after, long_after, rate_after = run(n["lanes"] + 1 if interleaved else 1)
        assert late_before / late_after > 0.4 * n["late_before_s"] / n["late_after_s"]
        assert 1.1 < long_after / long_before < 1.5 * n["long_after_s"] / n["long_before_s"]
        assert abs(rate_after / rate_before - 1) < 0.02

    holds_only_with(check)


def test_F26_more_running_requests_make_every_step_longer() -> None:
    """At one request rate a larger max_num_seqs raises ITL and shortens the queue."""
    n = numbers("F26")

    def run(seqs: float) -> tuple[float, float]:
        summary = serve(
            asked("user", 512, 400, {"kind": "poisson", "rate_per_s": n["rate"]}, 300),
            model="Llama-3.1-8B",
            gpu="h100",
            max_num_batched_tokens=2048,
            max_num_seqs=int(seqs),
            max_model_len=4096,
        ).summary
        return summary["itl_s"]["mean"], summary["queue_s"]["mean"]

    def check(larger: bool) -> None:
        small_itl, small_queue = run(n["small"])
        large_itl, large_queue = run(n["large"] if larger else n["small"])
        assert 1.02 < large_itl / small_itl < 1.5 * n["large_itl_ms"] / n["small_itl_ms"]
        assert large_queue < small_queue

    holds_only_with(check)


def test_F50_chunks_make_one_request_slower() -> None:
    n = numbers("F50")

    def run(budget: float) -> float:
        result = serve(
            asked("one", 2048, 1, count=1),
            model="Llama-3.1-8B",
            gpu="a100",
            max_num_batched_tokens=int(budget),
            max_num_seqs=16,
            max_model_len=4096,
        )
        return float(ttft_s(result, "one")[0])

    def check(chunked: bool) -> None:
        ratio = run(n["budget"] if chunked else 4096) / run(4096)
        assert 1.05 < ratio < 1.5 * n["chunked_most_s"] / n["whole_s"]

    holds_only_with(check)


def test_F51_chunking_does_not_raise_offline_throughput() -> None:
    """All prompts at once, long ones: every chunk reads the weights again."""
    n = numbers("F51")

    def run(budget: int, step_cost: bool) -> float:
        hardware = {"model": "Llama-3.1-70B", "gpu": "h100", "tp": 8} if step_cost else {}
        summary = serve(
            asked("prompt", 1000 * n["prompt_k"], n["output"], count=int(n["prompts"])),
            latency=None if step_cost else WITHOUT_STEP_COST,
            max_num_batched_tokens=budget,
            max_num_seqs=64,
            max_model_len=65536,
            **hardware,
        ).summary
        return float(summary["output_tokens_per_s"])

    def check(steps_cost: bool) -> None:
        chunked, whole = run(int(n["budget"]), steps_cost), run(65536, steps_cost)
        assert chunked < 0.999 * whole

    holds_only_with(check)

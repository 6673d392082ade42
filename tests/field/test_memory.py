"""Reports on KV memory, admission and prefix caching (vLLM V1)."""

import numpy as np

from tests.field.field import asked, holds_only_with, numbers, rows_of, serve, ttft_s


def test_F21_prefix_caching_saves_first_tokens_and_lets_the_rest_decode() -> None:
    """Grouped prompts of which two thirds are shared: TTFT falls towards the part that is left."""
    n = numbers("F21")
    shared = round(3000 * n["hit_percent"] / 100 / 16) * 16

    def run(caching: bool) -> dict[str, float]:
        result = serve(
            asked(
                "user",
                3000,
                100,
                {"kind": "closed_loop", "users": int(n["concurrent"]), "think_time_s": 0},
                int(n["requests"]),
                shared_prefix={"tokens": shared, "groups": 2},
            ),
            model="Llama-3.1-8B",
            gpu="l40s",
            max_num_batched_tokens=2048,
            max_num_seqs=int(n["max_num_seqs"]),
            max_model_len=8192,
            enable_prefix_caching=caching,
        )
        summary = result.summary
        hits = summary["prefix_hit_tokens"] / result.workload.num_prompt_tokens.sum()
        return {
            "ttft": summary["ttft_s"]["p50"],
            "rate": summary["output_tokens_per_s"],
            "hits": hits,
        }

    def check(caching: bool) -> None:
        off, on = run(False), run(caching)
        assert abs(on["hits"] - n["hit_percent"] / 100) < 0.03
        assert on["ttft"] / off["ttft"] < 1.5 * n["ttft_on_s"] / n["ttft_off_s"]
        assert on["rate"] / off["rate"] > 1.15

    holds_only_with(check)


def test_F24_kv_memory_caps_who_runs_and_the_rest_queue() -> None:
    """256 clients, KV for about 72: running follows KV / tokens held, TTFT is the queue."""
    n = numbers("F24")

    def check(scarce: bool) -> None:
        tokens = n["kv_tokens"] if scarce else 20 * n["kv_tokens"]
        result = serve(
            asked(
                "client",
                n["prompt"],
                {"kind": "uniform", "min": 50, "max": 250},
                {"kind": "closed_loop", "users": int(n["concurrency"]), "think_time_s": 0},
                int(n["requests"]),
            ),
            model="Qwen2.5-7B",
            gpu="a10g",
            max_num_batched_tokens=2048,
            max_num_seqs=256,
            max_model_len=4096,
            num_gpu_blocks=int(tokens) // 16 + 1,
        )
        steps, summary = result.recording.steps, result.summary
        steady = steps[len(steps) // 10 : -len(steps) // 10]
        running = float(steady.num_running.mean())
        assert abs(running / n["running"] - 1) < 0.2
        assert abs(float(steady.num_waiting.mean()) / n["waiting"] - 1) < 0.2
        assert summary["queue_s"]["p50"] > 0.8 * summary["ttft_s"]["p50"]
        assert 0 < summary["preemptions"] / n["requests"] < 3 * n["preemptions_per_request"]

    holds_only_with(check)


def long_context(gate: bool, prompts: int, tokens: int, output: int, kv_tokens: int) -> object:
    return serve(
        asked(
            "session",
            tokens,
            output,
            {"kind": "constant", "rate_per_s": 0.2},
            prompts,
        ),
        model="Llama-3.1-8B",
        gpu="h200",
        max_num_batched_tokens=8192,
        max_num_seqs=64,
        max_model_len=131072,
        num_gpu_blocks=kv_tokens // 16 + 1,
        enable_prefix_caching=False,
        scheduler_reserve_full_isl=gate,
        limits={"max_steps": 60_000},
    )


def test_F35_admission_on_the_first_chunk_alone_thrashes() -> None:
    """Four prompts of 100k hold 90% of the KV; a fifth is admitted on its first chunk, and
    loops.
    """
    n = numbers("F35")
    tokens = int(1000 * n["prompt_k"])
    kv = int(n["resident"] * tokens / (n["kv_used_percent"] / 100))

    def check(gate_off: bool) -> None:
        gated = long_context(True, int(n["resident"]) + 1, tokens, 2000, kv)
        open_ = long_context(not gate_off, int(n["resident"]) + 1, tokens, 2000, kv)
        assert gated.summary["preemptions"] == 0
        assert open_.summary["preemptions"] > 2, "admitted, preempted, and again"
        assert open_.summary["recomputed_tokens"] > 0
        assert open_.summary["output_tokens_per_s"] < gated.summary["output_tokens_per_s"]

    holds_only_with(check)


def test_F36_a_resumed_long_request_is_preempted_again_and_again() -> None:
    n = numbers("F36")
    tokens, output = int(1000 * n["prompt_k"]), int(1000 * n["output_k"])

    def check(gate_off: bool) -> None:
        kv = int(1.4 * tokens)
        open_ = long_context(not gate_off, int(n["requests"]), tokens, output, kv)
        victim = open_.recording.requests[1]
        assert victim.num_preemptions > 2
        assert victim.recomputed_tokens > tokens / 2
        gated = long_context(True, int(n["requests"]), tokens, output, kv)
        assert gated.recording.requests[1].num_preemptions == 0
        assert gated.recording.requests[1].first_scheduled_s >= gated.recording.requests[0].end_s

    holds_only_with(check)


def test_F37_a_replay_without_the_gate_takes_far_longer() -> None:
    """Sessions of 50k on KV for four of them; nothing running is ever preempted for a newcomer."""
    n = numbers("F37")

    def check(gate_off: bool) -> None:
        healthy = long_context(True, 16, 50_000, 1500, 220_000)
        thrashing = long_context(not gate_off, 16, 50_000, 1500, 220_000)
        assert healthy.summary["preemptions"] <= 2
        assert thrashing.summary["preemptions"] > 50
        slower = thrashing.summary["duration_s"] / healthy.summary["duration_s"]
        assert 1.05 < slower < 60 * n["thrash_min"] / n["healthy_s"]

    holds_only_with(check)


def test_F38_hits_of_resumed_requests_are_their_own_blocks() -> None:
    """Random prompts share nothing: hits at first admission are 0, those on resumption are not."""
    n = numbers("F38")

    def check(scarce: bool) -> None:
        blocks = 9_000 if scarce else 40_000
        result = serve(
            asked("random", n["prompt"], n["output"], count=300),
            model="Llama-3.1-8B",
            gpu="h100",
            max_num_batched_tokens=8192,
            max_num_seqs=259,
            max_model_len=4096,
            num_gpu_blocks=blocks,
        )
        requests = result.recording.requests
        assert requests.hit_tokens.sum() == n["unique_hits"] == result.summary["prefix_hit_tokens"]
        looked_up = requests.num_prompt_tokens.sum() + requests.resumed_hit_tokens.sum()
        assert requests.resumed_hit_tokens.sum() / looked_up > 0.05, "what a naive counter shows"

    holds_only_with(check)


def test_F39_a_prefix_shorter_than_a_block_never_hits() -> None:
    n = numbers("F39")

    def check(large_blocks: bool) -> None:
        block = int(n["block"]) if large_blocks else 16
        result = serve(
            asked(
                "user",
                1000,
                4,
                {"kind": "constant", "rate_per_s": 1.0},
                5,
                shared_prefix={"tokens": int(n["shared"]), "groups": 1},
            ),
            max_num_batched_tokens=2048,
            max_num_seqs=16,
            max_model_len=4096,
            block_size=block,
        )
        hits = result.recording.requests.hit_tokens
        expected = int(n["shared"]) // block * block
        assert hits[1:].tolist() == [expected] * 4
        assert hits.sum() == n["hits"]

    holds_only_with(check)


def test_F01_a_real_server_that_kv_memory_holds_back() -> None:
    """RTX 4090, Llama-3.1-8B: few run, the rest queue; times within the tolerance of the report.

    Lengths are drawn with the report's median and 99th percentile (prompts) and its least and mean
    (outputs); the log itself is compared in benchmarks/serving.py.
    """
    n = numbers("F01")
    sigma = np.log(n["prompt_p99"] / n["prompt_median"]) / 2.326
    prompt = {"kind": "lognormal", "median": n["prompt_median"], "sigma": sigma, "max": 4096}
    longest = 2 * n["output_mean"] - n["output_min"]
    output = {"kind": "uniform", "min": n["output_min"], "max": longest}

    def check(scarce: bool) -> None:
        result = serve(
            asked(
                "user",
                prompt,
                output,
                {"kind": "poisson", "rate_per_s": n["rate_per_s"]},
                int(n["requests"]),
            ),
            model="Llama-3.1-8B",
            gpu="rtx_4090",
            max_num_batched_tokens=2048,
            max_num_seqs=int(n["max_num_seqs"]),
            max_model_len=32768,
            num_gpu_blocks=None if scarce else 20 * int(n["kv_blocks"]),
            replica={"gpu_memory_utilization": 0.9},
        )
        summary, tolerance = result.summary, n["tolerance_percent"] / 100
        assert result.resolved.replicas[0].knobs.num_gpu_blocks == n["kv_blocks"]
        assert abs(summary["running_peak"] / n["running_max"] - 1) < tolerance
        assert summary["kv_peak_fraction"] > 0.99
        assert abs(summary["ttft_s"]["mean"] / n["ttft_mean_s"] - 1) < tolerance
        assert abs(1e3 * summary["tpot_s"]["mean"] / n["tpot_mean_ms"] - 1) < tolerance
        assert abs(summary["output_tokens_per_s"] / n["output_tokens_per_s"] - 1) < tolerance
        queue_share = n["queue_median_s"] / n["ttft_median_s"]
        assert abs(summary["queue_s"]["p50"] / summary["ttft_s"]["p50"] - queue_share) < 0.01

    holds_only_with(check)


def test_F25_a_larger_budget_costs_kv_where_weights_leave_little() -> None:
    """70B on two A100: what the larger budget reserves for activations is missing as KV.

    The direction; of the reported 36% the modelled reserve explains a small part.
    """
    n = numbers("F25")

    def throughput(tp: int, budget: float, reserve_grows: bool) -> float:
        result = serve(
            asked(
                "prompt",
                {"kind": "lognormal", "median": 180, "sigma": 1.0, "max": 2000},
                {"kind": "lognormal", "median": 220, "sigma": 0.8, "max": 1500},
                count=int(n["prompts"]),
            ),
            model="Llama-3.1-70B",
            gpu="a100",
            tp=tp,
            max_num_batched_tokens=int(budget),
            max_num_seqs=256,
            max_model_len=int(n["max_model_len"]),
            num_gpu_blocks=None if reserve_grows else 2800,
            replica={"gpu_memory_utilization": n["utilization"]},
        )
        return float(result.summary["output_tokens_per_s"])

    def check(reserve_grows: bool) -> None:
        tight = [throughput(2, n[key], reserve_grows) for key in ("small_budget", "large_budget")]
        roomy = [throughput(4, n[key], reserve_grows) for key in ("small_budget", "large_budget")]
        assert 1.02 < tight[0] / tight[1] < 1.2 * n["tp2_small"] / n["tp2_large"]
        assert abs(roomy[0] / roomy[1] - n["tp4_small"] / n["tp4_large"]) < 0.05

    holds_only_with(check)


def test_waiting_never_preempts_running() -> None:
    """F37's other half: with room for one, the second waits until the first is done."""
    result = serve(
        asked("first", 900, 50, {"kind": "at", "times_s": [0.0]}),
        asked("second", 900, 50, {"kind": "at", "times_s": [0.1]}),
        max_num_batched_tokens=2048,
        max_num_seqs=16,
        max_model_len=2048,
        num_gpu_blocks=65,
    )
    assert result.summary["preemptions"] == 0
    first = result.recording.requests[rows_of(result, "first")[0]]
    assert ttft_s(result, "second")[0] > first.end_s - 0.1

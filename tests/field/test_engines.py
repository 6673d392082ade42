"""Reports on engines other than vLLM V1, each against the policy that stands for it here."""

import numpy as np

from tests.field.field import (
    LINEAR,
    asked,
    at,
    gaps_ms,
    holds_only_with,
    numbers,
    rows_of,
    serve,
    ttft_s,
)

TRT = {"engine": "tensorrt_llm", "max_seq_len": 16384, "enable_block_reuse": False}


def test_F05_v1_carries_more_than_v0_under_the_same_flags() -> None:
    """V0 runs prompts in steps of their own; V1 lets decodes ride along. The GPU is not stated."""
    n = numbers("F05")
    prompt = n["system"] + n["question"]

    def run(engine: str, arrivals: dict[str, object], count: int) -> dict[str, float]:
        knobs = {"enable_chunked_prefill": False, "enable_prefix_caching": False}
        return serve(
            asked("user", prompt, n["output"], arrivals, count),
            model="Llama-3.1-8B",
            gpu="a100",
            engine=engine,
            max_num_batched_tokens=2048,
            max_num_seqs=int(n["max_num_seqs"]),
            max_model_len=int(n["max_model_len"]),
            **(knobs if engine == "vllm_v1" else {}),
        ).summary

    def check(other: bool) -> None:
        older = "vllm_v0" if other else "vllm_v1"
        users = int(n["workers"] * n["each"])
        closed = {"kind": "closed_loop", "users": users, "think_time_s": 0}
        v0, v1 = run(older, closed, 4 * users), run("vllm_v1", closed, 4 * users)
        assert v1["requests_per_s"] > 1.03 * v0["requests_per_s"]
        assert v1["ttft_s"]["mean"] < v0["ttft_s"]["mean"]
        for summary in (v0, v1):  # Little's law: the client's cap sets the time in the system
            in_flight = summary["requests_per_s"] * summary["e2e_s"]["mean"]
            assert abs(in_flight / users - 1) < 0.25
        open_ = {"kind": "poisson", "rate_per_s": 0.5 * v0["requests_per_s"]}
        slow, fast = run(older, open_, 600), run("vllm_v1", open_, 600)
        assert fast["tpot_s"]["mean"] < slow["tpot_s"]["mean"]

    holds_only_with(check)


def test_F13_strict_prefill_first_stops_every_decode_for_the_whole_burst() -> None:
    """SGLang's rule with mixed chunks off: one long prompt in chunks, and no request decodes
    meanwhile."""
    n = numbers("F13")

    def check(prefill_first: bool) -> None:
        result = serve(
            asked("victim", 32, n["output"], at(0.0)),
            asked("attacker", n["prompt"], 1, at(0.5)),
            engine="sglang",
            chunked_prefill_size=int(n["chunk"]),
            enable_mixed_chunk=not prefill_first,
            max_running_requests=16,
            context_length=400_000,
            max_total_tokens=400_000,
        )
        steps = result.recording.steps
        chunks = steps[(steps.num_prefill_tokens > 0) & (steps.start_s > 0.4)]
        assert abs(len(chunks) - n["chunks"]) <= 1
        assert chunks.num_decodes.sum() == 0
        burst = float(chunks.duration_s.sum())
        gap = float(gaps_ms(result, "victim").max()) / 1e3
        assert abs(gap / burst / (n["added_s"] / n["burst_s"]) - 1) < 0.1

    holds_only_with(check)


def test_F33_one_partial_prefill_at_a_time_blocks_the_others() -> None:
    """A 130k prompt in chunks of 512: short prompts behind it wait for all of it, decodes drain."""
    n = numbers("F33")

    def check(one_lane: bool) -> None:
        cap = {} if one_lane else {"long_prefill_token_threshold": int(n["budget"]) // 2}
        result = serve(
            asked("decode", 16, 100, at(*[0.0] * 4)),
            asked("long", n["prompt"], 1, at(0.2)),
            asked("short", 64, 20, at(0.3, 0.4)),
            latency=LINEAR,
            engine="sarathi" if one_lane else "vllm_v1",
            max_num_seqs=16,
            max_model_len=200_000,
            **({"chunk_size": int(n["budget"])} if one_lane else cap),
            **({} if one_lane else {"max_num_batched_tokens": int(n["budget"])}),
        )
        steps = result.recording.steps
        long = result.recording.requests[rows_of(result, "long")[0]]
        during = steps[(steps.start_s >= long.first_scheduled_s) & (steps.start_s < long.end_s)]
        assert abs(len(during) / n["steps"] - 1) < 0.02
        assert ttft_s(result, "short").min() > 0.9 * (long.first_token_s - long.arrival_s)
        assert during[-20:].num_decodes.max() == 0, "those that ran are done, and not replaced"

    holds_only_with(check)


def test_F52_chunking_does_nothing_when_all_prompts_fit() -> None:
    n = numbers("F52")

    def run(budget: float, chunked: bool) -> float:
        result = serve(
            asked("short", n["short"], 10, count=int(n["requests"]) // 2),
            asked("long", n["long"], 10, count=int(n["requests"]) // 2),
            model="Mistral-7B-v0.3",
            gpu="a100",
            max_num_tokens=int(budget),
            max_batch_size=int(n["batch"]),
            enable_chunked_prefill=chunked,
            **TRT,
        )
        return float(result.summary["duration_s"])

    def check(fits: bool) -> None:
        ratio = run(n["budget"] if fits else 256, True) / run(n["budget"], False)
        assert abs(ratio - 1) < abs(n["on_s"] / n["off_s"] - 1) + 1e-9

    holds_only_with(check)


def test_F53_no_evict_reserves_max_tokens_and_serves_one_by_one() -> None:
    """A generous max_tokens reserves the pool: floor(KV / (prompt + max_tokens)) run at once."""
    n = numbers("F53")
    prompt, most = 500, int(n["max_seq_len"]) - 500

    def running(policy: str, max_tokens: int) -> int:
        result = serve(
            asked(
                "user", prompt, 100, count=20, max_tokens={"kind": "fixed", "tokens": max_tokens}
            ),
            model="Qwen2.5-7B",
            gpu="a10g",
            capacity_scheduler_policy=policy,
            max_num_tokens=8192,
            max_batch_size=int(n["max_batch"]),
            num_blocks=600,
            **(TRT | {"max_seq_len": int(n["max_seq_len"])}),
        )
        held = result.recording.items
        step = np.repeat(np.arange(len(result.recording.steps)), result.recording.steps.num_items)
        return int(np.bincount(step, minlength=1).max()) if len(held) else 0

    def check(no_evict: bool) -> None:
        policy = "GUARANTEED_NO_EVICT" if no_evict else "MAX_UTILIZATION"
        assert running(policy, most) == 600 * 32 // (prompt + most) == 1
        assert running("MAX_UTILIZATION", most) > 8
        assert running("GUARANTEED_NO_EVICT", 100) > 8

    holds_only_with(check)


def test_F54_a_prompt_beyond_the_token_budget_is_rejected_unless_chunked() -> None:
    n = numbers("F54")

    def check(whole: bool) -> None:
        result = serve(
            asked("long", n["prompt"], 10, count=1),
            asked("short", 100, 10, count=1),
            max_num_tokens=int(n["max_num_tokens"]),
            max_batch_size=16,
            enable_chunked_prefill=not whole,
            **TRT,
        )
        assert result.summary["rejected_reasons"] == {"prompt_exceeds_token_budget": 1}
        assert result.summary["finished"] == 1

    holds_only_with(check)


def test_F55_reused_tokens_are_not_charged_to_the_token_budget() -> None:
    """Prompts of 4,000 of which 3,840 are cached: many start in one step, not one."""
    n = numbers("F55")

    def check(reuse: bool) -> None:
        result = serve(
            asked("first", 4000, 4, at(0.0), shared_prefix={"tokens": 3840, "groups": 1}),
            asked("many", 4000, 4, at(*[1.0] * 16), shared_prefix={"tokens": 3840, "groups": 1}),
            capacity_scheduler_policy="MAX_UTILIZATION",
            max_num_tokens=4096,
            max_batch_size=32,
            **(TRT | {"enable_block_reuse": reuse}),
        )
        contexts = result.recording.steps.num_chunks[result.recording.steps.start_s >= 1.0]
        assert contexts.max() > 10 * n["per_iteration"]

    holds_only_with(check)

"""Reports on prefill and decode pools."""

from typing import Any

import pytest

from tests.field.field import asked, at, holds_only_with, numbers, rows_of, serve
from tests.tools.pools import TOKEN_BYTES_8B, run_pools

LAYERS = 32  # of Llama-3.1-8B


def test_F23_scattered_blocks_collapse_the_bandwidth_of_a_transfer() -> None:
    """The same KV in contiguous pieces of a fresh decode pool, and block by block in one that has
    been churned. The cost of an entry is set so that 4,096 of them give the reported rate; that a
    fresh pool is fast follows."""
    n = numbers("F23")
    blocks = int(n["scattered_entries"]) // LAYERS
    prompt = 16 * blocks
    num_bytes = prompt * TOKEN_BYTES_8B
    link_rate = 1e6 * n["contiguous_mb_s"]
    seconds = num_bytes / (1e6 * n["scattered_mb_s"]) - num_bytes / link_rate

    def bandwidth(churned: bool, per_entry_s: float) -> tuple[int, float]:
        """Entries and bytes/s of one long prompt's KV. Before it: short ones that are computed on
        the decode server and whose blocks end up in each other's gaps."""
        lengths = {"kind": "uniform", "min": 100, "max": 600}
        many = [asked("short", 12, lengths, count=64)] if churned else []
        result = run_pools(
            asked("long", prompt, 4, at(60.0)),
            *many,
            link={"bandwidth_bytes_per_s": link_rate, "per_descriptor_s": per_entry_s},
            decode_knobs={"num_gpu_blocks": 2 * blocks, "max_model_len": prompt + 64},
        )
        way = result.recording.kv_transfers[rows_of(result, "long")[0]]
        assert way.total_bytes == num_bytes
        return int(way.num_descriptors), float(way.total_bytes / (way.end_s - way.start_s))

    def check(entries_cost: bool) -> None:
        per_entry_s = seconds / n["scattered_entries"] if entries_cost else 0.0
        few, fast = bandwidth(False, per_entry_s)
        many, slow = bandwidth(True, per_entry_s)
        assert few == LAYERS
        assert many > 0.5 * n["scattered_entries"]
        assert slow < 2e6 * n["scattered_mb_s"]
        assert fast > 20 * slow

    holds_only_with(check)


def test_F44_ttft_is_twice_a_lone_servers_when_the_kv_is_not_used() -> None:
    """One user at a time. Healthy: prefill, transfer and one step."""
    n = numbers("F44")
    users = {"kind": "closed_loop", "users": int(n["concurrency"]), "think_time_s": 0.0}
    load = asked("user", 8000, 20, users, 10)

    def check(unused: bool) -> None:
        alone = serve(load, max_model_len=16_384, max_num_batched_tokens=8192)
        pair = run_pools(load, kv_unused_fraction=1.0 if unused else 0.0)
        assert alone.summary["ttft_s"] is not None
        ratio = pair.summary["ttft_s"]["mean"] / alone.summary["ttft_s"]["mean"]
        assert ratio == pytest.approx(n["times"], rel=0.02)
        steps = pair.recording.steps
        prefills = [steps[(steps.replica == k) & (steps.num_chunks > 0)] for k in (0, 1)]
        assert prefills[0].duration_s.mean() == pytest.approx(prefills[1].duration_s.mean())
        assert "KV not used" in [finding.name for finding in pair.findings]

    holds_only_with(check)


def test_F46_too_many_long_prompts_fill_the_decode_pools_and_generation_stops() -> None:
    """Two prefill and two decode servers, these with room for 51 requests each: KV 100%, transfers
    wait for blocks, and while a preempted 16K prompt is computed again every request there waits
    for it. Fewer users at once avoid all of it, a lower max_num_seqs the preemptions. What stopped
    generation for good in the report is not known; here it goes on."""
    n = numbers("F46")
    prompt, output = int(1024 * n["prompt_k"]), 2000
    room = int(n["seqs"]) * (prompt + output) // 16

    def run(users: float, **knobs: Any) -> Any:
        loop = {"kind": "closed_loop", "users": int(users)}
        return run_pools(
            asked("cold", prompt, output, loop, 2 * int(users)),
            prefill=int(n["servers"]),
            decode=int(n["servers"]),
            prefill_knobs={"num_gpu_blocks": 4 * room},
            decode_knobs={"num_gpu_blocks": room, "max_model_len": prompt + 4000, **knobs},
            link={"bandwidth_bytes_per_s": 400e9},
        )

    def check(crowded: bool) -> None:
        users = 1.4 * n["concurrent"] if crowded else 0.8 * n["concurrent"]
        result = run(users)
        modes = {finding.name: finding for finding in result.findings}
        assert "decode pool full" in modes
        full = modes["decode pool full"].numbers
        assert full["kv_peak_fraction"] > 0.98 * n["kv_percent"] / 100
        assert full["mean_wait_s"] > 1.0
        assert result.summary["itl_s"]["max"] > 20 * result.summary["itl_s"]["p50"]
        steps = result.recording.steps[result.recording.steps.replica >= n["servers"]]
        assert 0.8 < steps.num_running.max() / n["seqs"] < 1.2

    holds_only_with(check)
    crowded = 1.4 * numbers("F46")["concurrent"]
    assert run(crowded).summary["preemptions"] > 0
    assert run(crowded, max_num_seqs=40).summary["preemptions"] == 0

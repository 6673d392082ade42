"""Each metric against its definition, on traces small enough to work out on paper."""

from typing import Any

import numpy as np
import pytest

from sim.core import reasons
from sim.core.requests import empty_requests
from sim.latency.efficiency import efficiency
from sim.results import metrics
from sim.results.run import Result, simulate
from sim.scenario.load import parse_scenario
from sim.scenario.spec import Slo

BLOCKS = ("ttft_s", "itl_s", "tpot_s", "e2e_s", "queue_s")


def toy(classes: list[dict[str, Any]], **knobs: Any) -> Result:
    """A run in which a step takes 1 s, a prompt token 0.1 s, a decode 0.01 s."""
    latency = {"kind": "linear", "step_s": 1.0, "prefill_token_s": 0.1, "decode_s": 0.01}
    policy = {
        "engine": "vllm_v1",
        "max_num_batched_tokens": 8,
        "max_num_seqs": 4,
        "max_model_len": 64,
        "num_gpu_blocks": 17,
        "block_size": 4,
        "enable_prefix_caching": False,
        **knobs,
    }
    return simulate(
        parse_scenario(
            {
                "workload": {"classes": classes},
                "replicas": [{"latency": latency, "policy": policy}],
                "slo": {"ttft_s": 2.0, "itl_s": 1.5},
            }
        )
    )


def asked(name: str, at: float, prompt: int, output: int) -> dict[str, Any]:
    return {
        "name": name,
        "arrivals": {"kind": "at", "times_s": [at]},
        "prompt": {"kind": "fixed", "tokens": prompt},
        "output": {"kind": "fixed", "tokens": output},
    }


def test_one_request_by_hand() -> None:
    """Prompt 4, output 3: steps of 1.4, 1.01, 1.01 s; the first one emits the first token."""
    summary = toy([asked("a", 5.0, 4, 3)]).summary
    assert summary["duration_s"] == pytest.approx(3.42)
    assert summary["ttft_s"]["p50"] == pytest.approx(1.4)
    assert summary["itl_s"]["mean"] == summary["itl_s"]["max"] == pytest.approx(1.01)
    assert summary["tpot_s"]["mean"] == pytest.approx(1.01)
    assert summary["e2e_s"]["p99"] == pytest.approx(3.42)
    assert summary["queue_s"]["max"] == 0
    assert summary["steps"] == 3
    assert summary["output_tokens_per_s"] == pytest.approx(3 / 3.42)
    assert summary["goodput_rps"] == pytest.approx(1 / 3.42)
    assert summary["kv_peak_fraction"] == 2 / 16  # 6 tokens: the last one never gets KV
    assert summary["stop_reasons"] == {"queue_empty": 3}
    assert summary["replicas"][0]["busy_fraction"] == pytest.approx(1)
    assert summary["compute_utilisation"] is None


def test_a_long_prompt_holds_a_stream_up() -> None:
    """b's 20 tokens take the rest of the budget, 7, three times: gaps of 1.71, 1.71 and 1.61 s."""
    result = toy([asked("a", 0.0, 4, 6), asked("b", 1.5, 20, 1)])
    values, counts = metrics.itl_values(result.recording)
    assert np.repeat(values, counts).tolist() == pytest.approx([1.01, 1.71, 1.71, 1.61, 1.01])
    assert result.summary["itl_s"]["max"] == pytest.approx(1.71)
    assert result.recording.requests[0].max_gap_s == pytest.approx(1.71)
    assert result.summary["stop_reasons"] == {"queue_empty": 4, "budget": 2}
    assert result.summary["goodput_rps"] == 0


def test_single_token_has_no_tpot_and_no_gap_to_miss() -> None:
    summary = toy([asked("a", 0.0, 4, 1)]).summary
    assert summary["itl_s"] is None
    assert summary["tpot_s"] is None
    assert summary["goodput_rps"] == pytest.approx(1 / 1.4)


def test_rejected_requests_are_counted_and_the_run_goes_on() -> None:
    result = toy(
        [asked("a", 0.0, 4, 1), asked("b", 0.0, 64, 1), asked("c", 0.0, 50, 1)], num_gpu_blocks=12
    )
    assert result.summary["finished"] == 1
    assert result.summary["rejected_reasons"] == {
        "prompt_reaches_max_model_len": 1,
        "prompt_exceeds_kv_pool": 1,
    }
    assert not result.all_rejected


def test_all_rejected() -> None:
    result = toy([asked("a", 0.0, 64, 1)])
    assert result.all_rejected
    assert result.summary["duration_s"] == 0
    assert all(result.summary[name] is None for name in BLOCKS)


def test_preemption_lies_inside_the_gap() -> None:
    """Two requests outgrow 7 blocks; the second starts over and its gap is a row of its own."""
    result = toy([asked("a", 0.0, 4, 14), asked("b", 0.0, 4, 14)], num_gpu_blocks=8)
    assert result.summary["preemptions"] >= 1
    assert result.summary["recomputed_tokens"] > 0
    assert len(result.recording.gaps) >= 1
    values, counts = metrics.itl_values(result.recording)
    assert counts.sum() == result.summary["output_tokens"] - 2
    total = (result.recording.requests.last_token_s - result.recording.requests.first_token_s).sum()
    assert (values * counts).sum() == pytest.approx(total)
    assert result.summary["itl_s"]["max"] == pytest.approx(
        result.recording.requests.max_gap_s.max()
    )


@pytest.mark.parametrize("seed", range(20))
def test_weighted_percentiles_are_numpys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.gamma(1.0, size=rng.integers(1, 40)).round(1)
    counts = rng.integers(0, 5, len(values))
    written_out = np.repeat(values, counts)
    block = metrics.weighted_block(values, counts)
    if len(written_out) == 0:
        assert block is None
        return
    assert block is not None
    assert block.pop("mean") == pytest.approx(written_out.mean())
    assert block.pop("max") == written_out.max()
    for name, value in block.items():
        assert value == pytest.approx(np.percentile(written_out, float(name[1:]))), name


def test_goodput_counts_who_met_every_limit() -> None:
    requests = empty_requests(4)
    requests.status = [reasons.FINISHED, reasons.FINISHED, reasons.ABORTED_REQUEST, 4]
    requests.arrival_s = 1.0
    requests.first_token_s = [1.5, 3.5, 1.5, 1.5]
    requests.last_token_s = [3.5, 5.5, 3.5, 1.5]
    requests.num_output_tokens = [5, 5, 5, 1]
    requests.max_gap_s = [0.6, 0.6, 0.6, 0.0]
    assert metrics.goodput(requests, Slo(ttft_s=1.0)).tolist() == [True, False, False, True]
    assert metrics.goodput(requests, Slo(itl_s=0.5)).tolist() == [False, False, False, True]
    assert metrics.goodput(requests, Slo(tpot_s=0.5, e2e_s=3)).tolist() == [
        True,
        False,
        False,
        True,
    ]


def test_utilisation_of_a_real_server_stays_below_one() -> None:
    result = simulate(
        parse_scenario(
            {
                "workload": {
                    "classes": [
                        {
                            "name": "chat",
                            "count": 20,
                            "arrivals": {"kind": "all_at_once"},
                            "prompt": {"kind": "fixed", "tokens": 500},
                            "output": {"kind": "fixed", "tokens": 50},
                        }
                    ]
                },
                "replicas": [
                    {"model": "Llama-3.1-8B", "gpu": "h100", "policy": {"engine": "vllm_v1"}}
                ],
            }
        )
    )
    assert 0.05 < result.summary["compute_utilisation"] < 1
    assert 0.3 < result.summary["bandwidth_utilisation"] < 1
    known = efficiency("h100_sxm", "bf16")
    assert result.summary["expected_error"] == known.left_out_error
    assert result.summary["goodput_rps"] is None

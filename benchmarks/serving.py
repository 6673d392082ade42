"""Real servers beside the simulation: predicted and measured TTFT, TPOT and throughput.

    python benchmarks/serving.py FOLDER

FOLDER holds reference/serving.csv and traces/vllm019_rtx4090_llama8b_*: figures of real servers
that are not part of this repository. Closed-loop rows ("isl I osl O concurrency C") are simulated
with ten requests per user and two clients: C slots for C users, and C - 1 slots, as if one user
always waited, which matches the measured TTFT. TPOT is the target; TTFT is shown, not fitted."""

import csv
import re
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from sim.results.run import simulate
from sim.scenario.load import parse_scenario

CLOSED_LOOP = re.compile(r"isl (\d+) osl (\d+) concurrency (\d+)")
LOG = "vllm019_rtx4090_llama8b"


def scenario(model: str, gpu: str, tp: int, workload: dict[str, Any], **policy: Any) -> Any:
    replica = {"model": model, "gpu": gpu, "tp": tp, "policy": {"engine": "vllm_v1", **policy}}
    utilization = policy.pop("gpu_memory_utilization", None)
    if utilization:
        replica["policy"] = {"engine": "vllm_v1", **policy}
        replica["gpu_memory_utilization"] = utilization
    return parse_scenario(
        {"version": 1, "workload": workload, "replicas": [replica], "limits": {"max_steps": 10**7}}
    )


def closed_loop(
    gpu: str, tp: int, prompt: int, output: int, users: int, slots: int
) -> dict[str, Any]:
    """The summary of `users` users that send ten requests each to a server with `slots` slots."""
    one_class = {
        "name": "user",
        "count": 10 * users,
        "arrivals": {"kind": "closed_loop", "users": users, "think_time_s": 0},
        "prompt": {"kind": "fixed", "tokens": prompt},
        "output": {"kind": "fixed", "tokens": output},
    }
    asked = scenario(
        "Llama-3.1-8B",
        gpu,
        tp,
        {"classes": [one_class]},
        max_num_batched_tokens=8192,
        max_num_seqs=slots,
        max_model_len=prompt + output + 16,
    )
    return simulate(asked, record_items=False).summary


def closed_loops(table: Path) -> None:
    measured: dict[tuple[str, int, int, int, int], dict[str, float]] = {}
    with table.open() as stream:
        for row in csv.DictReader(stream):
            loop = CLOSED_LOOP.search(row["workload"])
            if loop:
                key = row["gpu"], int(float(row["tp"])), *map(int, loop.groups())
                measured.setdefault(key, {})[row["metric"]] = float(row["value"])
    rows = []
    for (gpu, tp, prompt, output, users), seen in measured.items():
        full = closed_loop(gpu, tp, prompt, output, users, users)
        short = closed_loop(gpu, tp, prompt, output, users, max(users - 1, 1))
        tpot = 1e3 * full["tpot_s"]["mean"]
        ttft, ttft_short = 1e3 * full["ttft_s"]["mean"], 1e3 * short["ttft_s"]["mean"]
        rows.append(
            (gpu, tp, prompt, output, users, tpot, seen["TPOT"], ttft, ttft_short, seen["TTFT"])
        )
    print(
        f"{'gpu':10}{'TP':>3}{'isl':>6}{'osl':>5}{'C':>5}{'TPOT ms':>9}{'measured':>9}{'error':>8}"
        f"{'TTFT ms':>9}{'C - 1':>9}{'measured':>9}"
    )
    by_error = sorted(rows, key=lambda row: -abs(row[5] / row[6] - 1))
    for row in rows:
        print(line(row))
    print("\nthe ten worst by TPOT:")
    for row in by_error[:10]:
        print(line(row))
    for name, ours, theirs in (
        ("TPOT", 5, 6),
        ("TTFT, C slots", 7, 9),
        ("TTFT, C - 1 slots", 8, 9),
    ):
        error = statistics.median(abs(row[ours] / row[theirs] - 1) for row in rows)
        print(f"{name}: median absolute error {error:.1%} over {len(rows)} rows")


def line(row: tuple[Any, ...]) -> str:
    gpu, tp, prompt, output, users, tpot, seen_tpot, ttft, ttft_short, seen_ttft = row
    return (
        f"{gpu:10}{tp:>3}{prompt:>6}{output:>5}{users:>5}{tpot:>9.2f}{seen_tpot:>9.2f}"
        f"{tpot / seen_tpot - 1:>+8.1%}{ttft:>9.1f}{ttft_short:>9.1f}{seen_ttft:>9.1f}"
    )


def rtx_4090_log(traces: Path) -> None:
    """Llama-3.1-8B on an RTX 4090, vLLM 0.19.0: 300 requests, KV-bound."""
    file = f"{LOG}_requests.jsonl"
    asked = scenario(
        "Llama-3.1-8B",
        "rtx_4090",
        1,
        {"file": file, "format": "vllm-log"},
        max_num_batched_tokens=2048,
        max_num_seqs=256,
        max_model_len=32768,
        gpu_memory_utilization=0.9,
    )
    result = simulate(asked, base_folder=traces)
    ours = result.summary
    seen = log_figures(traces / file)
    seen["running, most"] = max_running(traces / f"{LOG}_timeseries.csv")
    blocks = result.resolved.replicas[0].knobs.num_gpu_blocks
    print(f"\nRTX 4090 log: {blocks:,} KV blocks (the server reported 2,588)")
    for name, value in {
        "TTFT mean, s": ours["ttft_s"]["mean"],
        "TPOT mean, ms": 1e3 * ours["tpot_s"]["mean"],
        "output tokens/s": ours["output_tokens_per_s"],
        "running, most": ours["running_peak"],
        "KV, most": ours["kv_peak_fraction"],
    }.items():
        if name in seen:
            print(f"{name:18}{value:>10.1f}{seen[name]:>10.1f}{value / seen[name] - 1:>+8.1%}")
        else:
            print(f"{name:18}{value:>10.2f}{1.0:>10.2f}")


def log_figures(file: Path) -> dict[str, float]:
    """TTFT, TPOT and throughput of a logged run, from its monotonic stamps alone."""
    import json

    rows = [json.loads(text) for text in file.read_text().splitlines()]
    ttft = [row["first_token_ts"] - row["queued_ts"] for row in rows]
    tpot = [
        (row["last_token_ts"] - row["first_token_ts"]) / (row["output_toks"] - 1) for row in rows
    ]
    span = max(row["last_token_ts"] for row in rows) - min(row["queued_ts"] for row in rows)
    return {
        "TTFT mean, s": statistics.mean(ttft),
        "TPOT mean, ms": 1e3 * statistics.mean(tpot),
        "output tokens/s": sum(row["output_toks"] for row in rows) / span,
    }


def max_running(file: Path) -> float:
    with file.open() as stream:
        return max(float(row["running"]) for row in csv.DictReader(stream))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    closed_loops(folder / "reference" / "serving.csv")
    rtx_4090_log(folder / "traces")

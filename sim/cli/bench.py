"""Speed of the core on this machine: named workloads with all records on, cold and warm start.

A request-token is one (request, step) pair with at least one token scheduled. Figures are medians
of five runs in one process, so compare only within one table."""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.cli import bench_cluster
from sim.cluster import simulator
from sim.core.recording import Recording
from sim.core.requests import Table, empty_requests
from sim.core.state import POLICY, records
from sim.engines.knobs.translation import SharedKnobs, knobs_of
from sim.engines.registry import DEFAULT_ENGINE, ENGINES, engine_spec
from sim.latency.model import LATENCY, linear
from sim.workload.prompt_tokens import private_content

RUNS = 5
BLOCK_SIZE, MAX_NUM_SEQS, BUDGET = 16, 256, 8192
LONGEST = 900 + 300
ENOUGH_TOKENS = MAX_NUM_SEQS * LONGEST  # the longest request in every slot


def knobs_with(tokens: int, prefix_caching: bool, engine: str) -> dict[str, Any]:
    """Equal servers of every engine: `tokens` tokens of KV in blocks of 16, 256 requests at once,
    8192 tokens per step. A slot holds the longest request."""
    slots = engine_spec(engine).kv_layout == "slots"
    shared = SharedKnobs(
        budget=BUDGET,
        seqs=MAX_NUM_SEQS,
        length=LONGEST if slots else 8192,
        kv_tokens=tokens,
        block_size=BLOCK_SIZE,
        caching=prefix_caching,
        chunking=True,
    )
    return knobs_of(shared, engine)


@dataclass(frozen=True)
class Load:
    """One named workload: `requests` requests at t = 0, KV for `kv_fraction` of what `steady`
    needs.
    """

    name: str
    requests: int
    kv_fraction: float = 1.0
    record_items: bool = True
    runs: int = RUNS


WORKLOADS = (
    Load("steady", 2_000),
    Load("scarce", 2_000, kv_fraction=0.6),
    Load("million", 1_000_000, record_items=False, runs=1),
)


def request_table(n: int) -> tuple[Table, Table]:
    """Prompts uniform 300 to 900, outputs uniform 100 to 300, seed 0, private contents."""
    draw = np.random.default_rng(0)
    table = empty_requests(n)
    table.num_prompt_tokens = table.num_tokens = draw.integers(300, 901, n)
    table.output_len = table.max_tokens = draw.integers(100, 301, n)
    runs, table.first_run, table.num_runs = private_content(table.num_prompt_tokens)
    return table, runs


def steady_peak(name: str, prefix_caching: bool) -> int:
    """The peak KV of `steady` in tokens, with room for all requests."""
    table, runs = request_table(2_000)
    policy = policy_rows(ENOUGH_TOKENS, prefix_caching, name)
    recording = simulator.run(table, runs, policy, latency_rows(), record_items=False)
    return recording.peak_kv_blocks * recording.block_size


def policy_rows(tokens: int, prefix_caching: bool, name: str = DEFAULT_ENGINE) -> Table:
    """The policy of the engine of that id, with `tokens` tokens of KV."""
    rows: Table = records(1, POLICY)
    knobs = knobs_with(tokens, prefix_caching, name)
    rows[0] = engine_spec(name).knobs.model_validate(knobs).row()
    return rows


def latency_rows() -> Table:
    rows: Table = records(1, LATENCY)
    rows[0] = linear()
    return rows


def seconds_of(run: Callable[[], Any], runs: int) -> float:
    """Median over `runs` calls, after one warm-up call where there are several."""
    if runs > 1:
        run()
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def measure(workload: Load, name: str, prefix_caching: bool, threads: int) -> dict[str, Any]:
    """One row of the table: the same run on each of `threads` threads at once."""
    table, runs = request_table(workload.requests)
    tokens = ENOUGH_TOKENS
    if workload.kv_fraction < 1:
        tokens = int(steady_peak(name, prefix_caching) * workload.kv_fraction)
    policy, latency = policy_rows(tokens, prefix_caching, name), latency_rows()
    last: list[Recording] = []

    def run() -> None:
        recording = simulator.run(
            table,
            runs,
            policy,
            latency,
            limits=simulator.Limits(max_steps=10**9),
            record_items=workload.record_items,
        )
        last[:] = [recording]

    def run_all() -> None:
        with ThreadPoolExecutor(threads) as pool:
            for future in [pool.submit(run) for _ in range(threads)]:
                future.result()

    seconds = seconds_of(run if threads == 1 else run_all, workload.runs)
    recording = last[0]
    if recording.status != "finished":
        raise RuntimeError(f"{workload.name} ended {recording.status}: {recording.reason}")
    steps = recording.steps
    request_tokens = int((steps.num_decodes + steps.num_chunks - steps.num_padding_rows).sum())
    return {
        "workload": workload.name,
        "policy": name,
        "prefix_caching": prefix_caching,
        "threads": threads,
        "requests": workload.requests,
        "steps": len(recording.steps),
        "preemptions": int(recording.requests.num_preemptions.sum()),
        "request_tokens": request_tokens,
        "seconds": seconds,
        "steps_per_s": threads * len(recording.steps) / seconds,
        "request_tokens_per_s": threads * request_tokens / seconds,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


STARTED = """
import time; begin = time.perf_counter()
from sim.cli import bench
from sim.cluster import simulator
table, runs = bench.request_table(10)
simulator.run(table, runs, bench.policy_rows(16_000, True), bench.latency_rows())
print(time.perf_counter() - begin)
"""


def start_seconds() -> tuple[float, float]:
    """(cold, warm): import and a first small run in a new process, without and with compiled
    code.
    """
    with tempfile.TemporaryDirectory(prefix="batchscope-bench-") as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        times = [
            float(
                subprocess.run(
                    [sys.executable, "-c", STARTED],
                    env=environment,
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
            )
            for _ in range(2)
        ]
    return times[0], times[1]


COLUMNS: tuple[tuple[str, int, Callable[[dict[str, Any]], str]], ...] = (
    ("workload", 10, lambda row: row["workload"]),
    ("policy", 15, lambda row: row["policy"]),
    ("caching", 9, lambda row: "on" if row["prefix_caching"] else "off"),
    ("threads", 9, lambda row: str(row["threads"])),
    ("requests", 12, lambda row: f"{row['requests']:,}"),
    ("steps", 13, lambda row: f"{row['steps']:,}"),
    ("preempted", 13, lambda row: f"{row['preemptions']:,}"),
    ("seconds", 9, lambda row: f"{row['seconds']:.4f}"),
    ("steps/s", 13, lambda row: f"{row['steps_per_s']:,.0f}"),
    ("M tokens/s", 12, lambda row: f"{row['request_tokens_per_s'] / 1e6:.1f}"),
    ("MiB", 8, lambda row: f"{row['peak_mib']:,.0f}"),
)


def list_rows(echo: Callable[[str], None]) -> None:
    """Print what `run` measures: one line per engine, then one per workload."""
    for spec in ENGINES:
        echo(f"{spec.id:<24}{spec.title} ({spec.version})")
    for workload in WORKLOADS:
        echo(f"{workload.name:<24}{workload.requests:,} requests")


def run(echo: Callable[[str], None]) -> None:
    """Measure everything; print a table, then one JSON line."""
    cold, warm = start_seconds()
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    echo("".join(f"{title:>{width}}" for title, width, _ in COLUMNS))
    rows = []
    for workload in WORKLOADS:
        for spec in ENGINES:
            for prefix_caching in (True, False) if spec.has_prefix_cache else (False,):
                for count in sorted({1, threads} if workload.runs > 1 else {1}):
                    rows.append(measure(workload, spec.id, prefix_caching, count))
                    echo("".join(f"{shown(rows[-1]):>{width}}" for _, width, shown in COLUMNS))
    clusters = bench_cluster.run(echo, policy_rows(ENOUGH_TOKENS, False))
    echo(f"cold start (compiling) {cold:.1f} s, warm start {warm:.2f} s")
    echo(json.dumps({"rows": rows + clusters, "cold_start_s": cold, "warm_start_s": warm}))

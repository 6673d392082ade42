"""Speed of clusters on this machine: 100,000 requests of 600 prompt and 200 output tokens through a
router, and through prefill and decode pools, for a growing number of servers at the same load per
server. Seconds are process CPU time, which a busy machine changes little."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sim.cluster import simulator
from sim.cluster.cluster_state import BOTH, DECODE, LEAST_TOKENS, PREFILL
from sim.cluster.topology import Topology
from sim.core.requests import Table, empty_requests
from sim.core.state import records
from sim.latency.model import LATENCY, linear
from sim.workload.prompt_tokens import private_content

REQUESTS, PROMPT, OUTPUT = 100_000, 600, 200
SERVERS = (8, 16, 32, 64)
RATE_PER_SERVER = 15.0  # requests/s: about half of the capacity of a server
KV_TOKEN_BYTES, LINK_BYTES_PER_S = 131_072.0, 50e9  # Llama-3.1-8B, 400 Gb/s


def request_table(count: int, rate_per_s: float) -> tuple[Table, Table]:
    """Poisson arrivals of equal requests, seed 0, private contents."""
    table = empty_requests(count)
    gaps = np.random.default_rng(0).exponential(1 / rate_per_s, count)
    table.arrival_s = np.cumsum(gaps)
    table.num_prompt_tokens = table.num_tokens = PROMPT
    table.output_len = table.max_tokens = OUTPUT
    runs, table.first_run, table.num_runs = private_content(table.num_prompt_tokens)
    return table, runs


def fleet_of(servers: int, split: bool) -> Topology:
    """Servers behind a load-aware router; split: half of them prefill."""
    roles = (BOTH,) * servers
    if split:
        roles = (PREFILL,) * (servers // 2) + (DECODE,) * (servers - servers // 2)
    return Topology(
        roles=roles,
        kv_token_bytes=(KV_TOKEN_BYTES,) * servers,
        disaggregated=split,
        router=LEAST_TOKENS,
        decode_router=LEAST_TOKENS,
        bandwidth=LINK_BYTES_PER_S,
        num_layers=32,
    )


def measure(one_policy: Table, servers: int, split: bool, requests: int = REQUESTS) -> Any:
    """One row of the table: the better of two runs, after a small one that compiles."""
    policy: Table = np.concatenate([one_policy] * servers).view(np.recarray)
    latency: Table = records(servers, LATENCY)
    for k in range(servers):
        latency[k] = linear()
    topology = fleet_of(servers, split)
    seconds = []
    for count in (2 * servers, requests, requests):
        table, runs = request_table(count, RATE_PER_SERVER * servers)
        begin = time.process_time()
        recording = simulator.run(
            table,
            runs,
            policy,
            latency,
            topology=topology,
            limits=simulator.Limits(max_steps=10**9),
            record_items=False,
        )
        seconds.append(time.process_time() - begin)
        if recording.status != "finished":
            raise RuntimeError(f"cluster ended {recording.status}: {recording.reason}")
    steps = recording.steps
    request_tokens = int((steps.num_decodes + steps.num_chunks).sum())
    return {
        "workload": "cluster",
        "servers": f"{servers // 2} + {servers - servers // 2}" if split else f"{servers}",
        "disaggregated": split,
        "requests": requests,
        "steps": len(steps),
        "request_tokens": request_tokens,
        "cpu_seconds": min(seconds[1:]),
        "request_tokens_per_s": request_tokens / min(seconds[1:]),
    }


COLUMNS: tuple[tuple[str, int, Callable[[dict[str, Any]], str]], ...] = (
    ("workload", 10, lambda row: row["workload"]),
    ("servers", 15, lambda row: row["servers"]),
    ("requests", 12, lambda row: f"{row['requests']:,}"),
    ("steps", 13, lambda row: f"{row['steps']:,}"),
    ("CPU seconds", 13, lambda row: f"{row['cpu_seconds']:.2f}"),
    ("M tokens/s", 12, lambda row: f"{row['request_tokens_per_s'] / 1e6:.1f}"),
)


def run(echo: Callable[[str], None], one_policy: Table) -> list[dict[str, Any]]:
    """Measure and print line by line; the rows."""
    echo("".join(f"{title:>{width}}" for title, width, _ in COLUMNS))
    rows = []
    for split in (False, True):
        for servers in SERVERS:
            rows.append(measure(one_policy, servers, split))
            echo("".join(f"{shown(rows[-1]):>{width}}" for _, width, shown in COLUMNS))
    return rows

"""Figures as text for the command line: a summary, a workload."""

from collections.abc import Sequence
from typing import Any

from sim.results.diagnosis import Finding

__all__ = ["summary_table", "workload_table"]

BLOCKS = ("ttft_s", "itl_s", "tpot_s", "e2e_s", "queue_s")
POINTS = ("mean", "p50", "p90", "p95", "p99", "max")
LABEL = 24


def number(value: Any) -> str:
    """Four significant digits; whole numbers in full."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def milliseconds(value: float) -> str:
    return f"{value * 1e3:,.2f}"


def figure(value: Any) -> str:
    """Text unchanged, numbers shortened, counts by name in one line."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {count:,}" for key, count in value.items()) or "-"
    return value if isinstance(value, str) else number(value)


def summary_table(summary: dict[str, Any], findings: Sequence[Finding] = ()) -> str:
    """The summary, one line per figure: latencies as a table in ms, failure modes by name."""
    lines = [f"{'latency, ms':<{LABEL}}" + "".join(f"{point:>12}" for point in POINTS)]
    blocks = BLOCKS if summary["kv_transfer_s"] is None else (*BLOCKS, "kv_transfer_s")
    for name in blocks:
        block = summary[name]
        cells = ["-"] * len(POINTS) if block is None else [milliseconds(block[p]) for p in POINTS]
        lines.append(f"{name[:-2]:<{LABEL}}" + "".join(f"{cell:>12}" for cell in cells))
    lines.append("")
    for name, value in summary.items():
        if name not in blocks and name != "replicas":
            lines.append(f"{name:<{LABEL}}{figure(value)}")
    if findings:
        lines.append(f"{'diagnosis':<{LABEL}}{', '.join(each.name for each in findings)}")
    for k, replica in enumerate(summary["replicas"]):
        figures = ", ".join(f"{key} {figure(value)}" for key, value in replica.items())
        lines.append(f"{f'replica {k}':<{LABEL}}{figures}")
    return "\n".join(lines)


def workload_table(description: dict[str, Any]) -> str:
    """The result of workload.describe, percentiles as a table."""
    points = ("mean", "min", "p50", "p90", "p95", "p99", "max")
    lines = [f"{'':<{LABEL}}" + "".join(f"{point:>12}" for point in points)]
    for name in ("prompt_tokens", "output_tokens", "max_tokens", "gap_s"):
        block = description[name] or {}
        cells = "".join(f"{number(block.get(point)):>12}" for point in points)
        lines.append(f"{name:<{LABEL}}{cells}")
    prefix = description["prefix"]
    figures = {
        "requests": description["requests"],
        "duration_s": description["duration_s"],
        "rate_per_s": description["rate_per_s"],
        "zero gaps, share": description["zero_gaps"],
        "shared prefix, share": prefix["share"],
    }
    lines += ["", *(f"{name:<{LABEL}}{number(value)}" for name, value in figures.items())]
    return "\n".join(lines)

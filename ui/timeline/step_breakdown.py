"""Where the time of each step goes, for the inspector: the latency model's own terms, a row a
step."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.core.compiled import njit
from sim.latency.model import LINEAR, MEASURED, MEASURED_TERMS, measured_terms, roofs, terms

ROOFLINE_TEXT = (
    "linear layers {0} (the larger of GEMM {1} and weight reads {2}) · attention {3} · "
    "LM head {4} · overhead {5} ms"
)
LINEAR_TEXT = "a step {0} · prefill tokens {1} · decodes {2} ms"
MEASURED_TEXT = (
    "measured: a step {0} · prefill tokens {1} · decodes {2} · KV read by decodes {3} · attention "
    "of prompts {4}"
)
HINGE_TEXT = " · tokens, or their floor {5}"
EAGER_TEXT = " · operator by operator {6}"


@dataclass(frozen=True)
class Breakdown:
    """`seconds` is (num_steps, num_terms); `text` says them, {0} for the milliseconds of the
    first."""

    seconds: np.ndarray
    text: str


def of_steps(latency: Any, steps: np.recarray) -> Breakdown:
    """Break the steps of one replica down. `latency`: its row of latency.LATENCY."""
    if latency.kind == LINEAR:
        parts = (
            np.full(len(steps), latency.step_s),
            steps.num_prefill_tokens * latency.prefill_token_s,
            steps.num_decodes * latency.decode_s,
        )
        return Breakdown(np.stack(parts, axis=1), LINEAR_TEXT)
    if latency.kind == MEASURED:
        seconds = np.zeros((len(steps), len(MEASURED_TERMS)))
        _measured(latency, steps, seconds)
        hinge = HINGE_TEXT if latency.hinge_token_s > 0 else ""
        eager = EAGER_TEXT if latency.eager_step_s > 0 else ""
        return Breakdown(seconds, f"{MEASURED_TEXT}{hinge}{eager} ms")
    seconds = np.zeros((len(steps), 6))
    _roofline(latency, steps, seconds)
    return Breakdown(seconds, ROOFLINE_TEXT)


@njit
def _roofline(latency: Any, steps: Any, seconds: Any) -> None:
    for s in range(len(steps)):
        gemm, weights, _, _, _, _, _, _ = roofs(latency, steps[s])
        linear, decode, prefill, head, activations, all_reduce, launch, host, swap = terms(
            latency, steps[s]
        )
        seconds[s, 0] = linear
        seconds[s, 1] = gemm
        seconds[s, 2] = weights
        seconds[s, 3] = decode + prefill
        seconds[s, 4] = head
        seconds[s, 5] = activations + all_reduce + launch + host + swap


@njit
def _measured(latency: Any, steps: Any, seconds: Any) -> None:
    for s in range(len(steps)):
        parts = measured_terms(latency, steps[s])
        for k in range(len(parts)):
            seconds[s, k] = parts[k]

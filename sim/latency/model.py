"""How long one step takes: a roofline of GPU and model, the linear toy, or a measured profile.

One row of ``LATENCY`` holds everything about a replica; one row of ``recording.STEP`` everything
about the load of a step. `terms` turns the two into seconds by cause; `step_seconds` adds them up
in the loop of the simulator, latency/roofline.py names them for a page. There is no second
implementation.

The roofline goes through the kernels of a step as a GPU runs them, one after the other, so the
times of the groups add up; within a group compute and memory traffic overlap, so the larger one
counts:

    linear layers      smooth maximum of GEMM compute and reading the weights
    attention          decodes: maximum of compute and KV reads; prompts: the same, separately
    LM head            maximum of both, for sampled rows only
    activations        traffic between the kernels, per token
    all-reduce         tensor parallelism: two calls per layer, each as long as a measured call
                       of its size between these GPUs (log-log interpolation)
    launch             per layer, and a constant per step
    host               what the CPU adds to a step
    swap               KV blocks to host memory and back, one after the other, before the layers

GEMM efficiency grows with the tokens T of the step: mfu * T / (T + mfu_half_tokens).

A measured profile (latency/profiles.py) is linear in the load of a step, with a floor under one
term:

    step + p P + d D + c C + x X + h max(T0, P + D) + e [P > 0 or D > G]

P prefill tokens, D decodes, C decode_context, X prefill_pairs; h = 0 without the hinge. A step of
at most G decodes and nothing else runs as one unit (a CUDA graph, one compiled loop); any other
step runs operator by operator, which costs e more. G = 0: every step does.

Units: seconds, bytes, FLOP. Every quantity of a row is that of one GPU of the tensor-parallel
group. Not modelled: tile quantisation, CUDA-graph padding, clocks that drop under load.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sim.core.compiled import njit, njit_inner
from sim.core.recording import STEP

LINEAR, ROOFLINE, MEASURED = range(3)
ALLREDUCE_POINTS = 12

LATENCY = np.dtype(
    [
        ("kind", np.int64),
        ("num_gpus", np.int64),
        # the linear toy and a measured profile
        ("step_s", np.float64),
        ("prefill_token_s", np.float64),
        ("decode_s", np.float64),
        # a measured profile
        ("decode_context_s", np.float64),  # per token that a decode attends to
        ("prefill_pair_s", np.float64),
        ("hinge_tokens", np.float64),  # T0
        ("hinge_token_s", np.float64),  # h
        ("graph_decodes", np.float64),  # G
        ("eager_step_s", np.float64),  # e
        # work of one GPU
        ("gemm_flop_per_token", np.float64),
        ("head_flop_per_row", np.float64),
        ("attention_flop_per_pair", np.float64),  # a pair: one query token, one token it attends to
        ("weight_bytes", np.float64),  # of the layers
        ("head_bytes", np.float64),
        ("kv_bytes_per_token", np.float64),
        ("activation_bytes_per_token", np.float64),
        ("message_bytes_per_token", np.float64),  # of one all-reduce
        ("allreduce_calls", np.float64),  # calls per step, 0 on one GPU
        # hardware, and the share of it that a kernel reaches
        ("peak_flops", np.float64),  # of the GEMMs' precision
        ("attention_peak_flops", np.float64),  # attention and LM head: bf16
        ("bandwidth", np.float64),
        ("mfu", np.float64),
        ("mfu_half_tokens", np.float64),
        ("attention_mfu", np.float64),
        ("mbu_weights", np.float64),
        ("mbu_kv", np.float64),
        ("smooth_exponent", np.float64),  # infinity: the plain maximum
        ("allreduce_log_bytes", np.float64, (ALLREDUCE_POINTS,)),  # measured messages, ascending
        ("allreduce_log_s", np.float64, (ALLREDUCE_POINTS,)),  # seconds of one call of each size
        ("allreduce_scale", np.float64),
        ("launch_s", np.float64),  # of all layers
        ("fixed_s", np.float64),  # per step, whatever its load
        ("host_s", np.float64),
        ("swap_block_bytes", np.float64),  # of one swapped KV block
        ("host_bandwidth", np.float64),  # between GPU and host memory, each way
        ("host_link_s", np.float64),  # of one copy, before the first byte
    ],
    align=True,
)

TERMS = (
    "linear_layers",
    "decode_attention",
    "prefill_attention",
    "lm_head",
    "activations",
    "all_reduce",
    "launch",
    "host",
    "swap",
)
MEASURED_TERMS = (
    "step",
    "prefill_tokens",
    "decodes",
    "decode_context",
    "prefill_pairs",
    "tokens_or_floor",
    "eager",
)
# Both sides of each maximum: (compute, memory) of the first four terms.
ROOFS = (
    "gemm_compute",
    "weight_reads",
    "decode_compute",
    "decode_kv_reads",
    "prefill_compute",
    "prefill_kv_reads",
    "head_compute",
    "head_reads",
)


@njit
def smooth_maximum(a: float, b: float, exponent: float) -> float:
    """(a^p + b^p)^(1/p): close to the larger one; higher where both are similar."""
    larger = max(a, b)
    if larger <= 0.0:
        return 0.0
    ratio = min(a, b) / larger
    if ratio < 0.05:
        return larger
    return float(larger * (1.0 + ratio**exponent) ** (1.0 / exponent))


@njit
def roofs(latency: Any, step: Any) -> tuple[float, ...]:
    """Seconds of compute and of memory traffic of each group of kernels, in the order of ROOFS."""
    num_tokens = float(step.num_prefill_tokens) + float(step.num_decodes)
    compute = latency.peak_flops * latency.mfu
    attention = latency.attention_peak_flops * latency.attention_mfu
    read_weights = latency.bandwidth * latency.mbu_weights
    read_kv = latency.bandwidth * latency.mbu_kv
    # T / (mfu * T / (T + half)) = (T + half) / mfu: nothing to divide by at T = 0
    gemm = (num_tokens + latency.mfu_half_tokens) * latency.gemm_flop_per_token / compute
    num_sampled = float(step.num_sampled)
    return (
        gemm if num_tokens > 0.0 else 0.0,
        latency.weight_bytes / read_weights if num_tokens > 0.0 else 0.0,
        step.decode_context * latency.attention_flop_per_pair / attention,
        step.decode_context * latency.kv_bytes_per_token / read_kv,
        step.prefill_pairs * latency.attention_flop_per_pair / attention,
        step.prefill_context * latency.kv_bytes_per_token / read_kv,
        num_sampled * latency.head_flop_per_row / (latency.attention_peak_flops * latency.mfu),
        latency.head_bytes / read_weights if num_sampled > 0.0 else 0.0,
    )


@njit_inner
def swap_seconds(latency: Any, step: Any) -> float:
    """Seconds that swapped blocks take over the host link: out, then in; no overlap with layers."""
    blocks = float(step.swapped_out_blocks) + float(step.swapped_in_blocks)
    copies = 1.0 if step.swapped_out_blocks > 0 else 0.0
    copies += 1.0 if step.swapped_in_blocks > 0 else 0.0
    return blocks * latency.swap_block_bytes / latency.host_bandwidth + copies * latency.host_link_s


@njit
def all_reduce_seconds(latency: Any, num_tokens: float) -> float:
    """Seconds of all all-reduces of a step, interpolated between measured calls. Above the largest
    measured size: proportional to bytes; below the smallest: as long as that."""
    if latency.allreduce_calls == 0.0 or num_tokens == 0.0:
        return 0.0
    size = np.log(num_tokens * latency.message_bytes_per_token)
    sizes, seconds = latency.allreduce_log_bytes, latency.allreduce_log_s
    last = ALLREDUCE_POINTS - 1
    if size >= sizes[last]:
        value = seconds[last] + size - sizes[last]
    elif size <= sizes[0]:
        value = seconds[0]
    else:
        k = 1
        while sizes[k] < size:
            k += 1
        share = (size - sizes[k - 1]) / (sizes[k] - sizes[k - 1])
        value = seconds[k - 1] + share * (seconds[k] - seconds[k - 1])
    return float(latency.allreduce_calls * latency.allreduce_scale * np.exp(value))


@njit
def terms(latency: Any, step: Any) -> tuple[float, ...]:
    """Seconds of a step by cause, in the order of TERMS; they add up to the step."""
    num_tokens = float(step.num_prefill_tokens) + float(step.num_decodes)
    gemm, weights, decode, decode_kv, prefill, prefill_kv, head, head_reads = roofs(latency, step)
    traffic = num_tokens * latency.activation_bytes_per_token
    busy = 1.0 if num_tokens > 0.0 else 0.0
    return (
        smooth_maximum(gemm, weights, latency.smooth_exponent),
        max(decode, decode_kv),
        max(prefill, prefill_kv),
        max(head, head_reads),
        traffic / latency.bandwidth,
        all_reduce_seconds(latency, num_tokens),
        busy * (latency.launch_s + latency.fixed_s),
        latency.host_s,
        swap_seconds(latency, step),
    )


@njit
def measured_terms(latency: Any, step: Any) -> tuple[float, ...]:
    """Seconds of a step under a measured profile, in the order of MEASURED_TERMS, swap left out.
    The linear toy has zeros in the last four."""
    num_tokens = float(step.num_prefill_tokens) + float(step.num_decodes)
    eager = step.num_prefill_tokens > 0 or step.num_decodes > latency.graph_decodes
    return (
        latency.step_s,
        step.num_prefill_tokens * latency.prefill_token_s,
        step.num_decodes * latency.decode_s,
        step.decode_context * latency.decode_context_s,
        step.prefill_pairs * latency.prefill_pair_s,
        max(latency.hinge_tokens, num_tokens) * latency.hinge_token_s,
        latency.eager_step_s if eager else 0.0,
    )


@njit
def step_seconds(latency: Any, step: Any) -> float:
    """Duration of one step in seconds. `latency`: a LATENCY row; `step`: a STEP row."""
    if latency.kind != ROOFLINE:
        fixed, prefill, decodes, context, pairs, hinge, eager = measured_terms(latency, step)
        swap = swap_seconds(latency, step)
        return float(fixed + prefill + decodes + context + pairs + hinge + eager + swap)
    linear, decode, prefill, head, activations, all_reduce, launch, host, swap = terms(
        latency, step
    )
    return float(linear + decode + prefill + head + activations + all_reduce + launch + host + swap)


@njit
def steps_seconds(latency: Any, steps: Any, seconds: Any) -> None:
    """`step_seconds` of each row of `steps`, written to `seconds`."""
    for s in range(len(steps)):
        seconds[s] = step_seconds(latency, steps[s])


def load(**fields: float) -> Any:
    """One row of recording.STEP with the given load fields, for a step outside of any run."""
    row = np.zeros(1, STEP).view(np.recarray)
    for name, value in fields.items():
        row[name] = value
    return row[0]


def linear(step_s: float = 0.005, prefill_token_s: float = 1.2e-5, decode_s: float = 4e-5) -> Any:
    """A row of the linear toy; its roofline stays at zero work on a GPU of 1 FLOP/s, 1 B/s."""
    toy = {"step_s": step_s, "prefill_token_s": prefill_token_s, "decode_s": decode_s}
    return measured(toy, LINEAR)


def measured(coefficients: Mapping[str, float], kind: int = MEASURED) -> Any:
    """A row with the coefficients of a measured profile, by the names of their columns."""
    row = unit_row()
    row.kind = kind
    for name, value in coefficients.items():
        row[name] = value
    return row


def unit_row() -> Any:
    """A roofline without work or overhead: every divisor is 1."""
    row = np.zeros(1, LATENCY).view(np.recarray)[0]
    row.kind = ROOFLINE
    row.num_gpus = 1
    for divisor in ("peak_flops", "attention_peak_flops", "bandwidth"):
        row[divisor] = 1.0
    row.host_bandwidth = 1.0
    for share in ("mfu", "attention_mfu", "mbu_weights", "mbu_kv", "smooth_exponent"):
        row[share] = 1.0
    return row

"""The loops of a decode step on a CPU: products of a few rows, and attention over pages.

Weights and pages are as stored_numbers.py reads them. All sums are fp32 and may be taken in any
order (`reassoc`), but NaN stays NaN.
"""

from typing import Any

import numba
import numpy as np
from numba import prange

from gpu_backend.engine.dtypes import narrow, widen
from sim.core.compiled import INNER, OPTIONS

__all__ = ["COMPILES", "decode_layer", "head_product", "use_threads"]

CONFIG: Any = numba.config
KERNEL: Any = OPTIONS | {"fastmath": {"reassoc", "contract", "nsz"}}
njit = numba.njit(**KERNEL)
njit_inner = numba.njit(**KERNEL, **INNER)
PARALLEL: Any = {"parallel": {"prange": True, "fusion": False}}
njit_parallel = numba.njit(**KERNEL, **INNER, **PARALLEL)

COMPILES = not CONFIG.DISABLE_JIT
OUTPUTS = 32  # outputs of a product per task of a thread


# --- a layer's parts ------------------------------------------------------------------------------


@njit_inner
def product(x: Any, weight: Any, first: int, end: int, y: Any) -> None:
    """y[:, first:end] = x (rows, in) times rows [first, end) of weight (out, in); four rows of x
    for each read of a weight, then two, then one."""
    rows, width = x.shape
    r = 0
    while r + 4 <= rows:
        x0, x1, x2, x3 = x[r], x[r + 1], x[r + 2], x[r + 3]
        for o in range(first, end):
            w = weight[o]
            y0 = y1 = y2 = y3 = np.float32(0)
            for k in range(width):
                value = widen(w[k])
                y0 += x0[k] * value
                y1 += x1[k] * value
                y2 += x2[k] * value
                y3 += x3[k] * value
            y[r, o], y[r + 1, o], y[r + 2, o], y[r + 3, o] = y0, y1, y2, y3
        r += 4
    if r + 2 <= rows:
        x0, x1 = x[r], x[r + 1]
        for o in range(first, end):
            w = weight[o]
            y0 = y1 = np.float32(0)
            for k in range(width):
                value = widen(w[k])
                y0 += x0[k] * value
                y1 += x1[k] * value
            y[r, o], y[r + 1, o] = y0, y1
        r += 2
    if r < rows:
        x0 = x[r]
        for o in range(first, end):
            w = weight[o]
            y0 = np.float32(0)
            for k in range(width):
                y0 += x0[k] * widen(w[k])
            y[r, o] = y0


@njit_parallel
def linear(x: Any, weight: Any, bias: Any, y: Any) -> None:
    """y = x W^T + bias, W (out, in); without one `bias` is empty."""
    for task in prange((len(weight) + OUTPUTS - 1) // OUTPUTS):
        first, end = task * OUTPUTS, min((task + 1) * OUTPUTS, len(weight))
        product(x, weight, first, end, y)
        if len(bias):
            for r in range(len(x)):
                for o in range(first, end):
                    y[r, o] += widen(bias[o])


@njit_parallel
def gated(x: Any, gate_up: Any, gate: Any, up: Any) -> None:
    """gate = silu(x W_gate^T) * (x W_up^T); gate_up: one matrix above the other."""
    middle = gate.shape[1]
    for task in prange((middle + OUTPUTS - 1) // OUTPUTS):
        first, end = task * OUTPUTS, min((task + 1) * OUTPUTS, middle)
        product(x, gate_up[:middle], first, end, gate)
        product(x, gate_up[middle:], first, end, up)
        for r in range(len(x)):
            for o in range(first, end):
                gate[r, o] *= up[r, o] / (np.float32(1) + np.exp(-gate[r, o]))


@njit_inner
def add(x: Any, y: Any) -> None:
    """x += y."""
    for r in range(x.shape[0]):
        for k in range(x.shape[1]):
            x[r, k] += y[r, k]


@njit_inner
def rms_norm(x: Any, weight: Any, epsilon: float, y: Any) -> None:
    """y = RMSNorm(x) * weight, row by row."""
    rows, width = x.shape
    for r in range(rows):
        total = np.float32(0)
        for k in range(width):
            total += x[r, k] * x[r, k]
        scale = np.float32(1.0 / np.sqrt(total / width + epsilon))
        for k in range(width):
            y[r, k] = x[r, k] * scale * widen(weight[k])


# --- attention ------------------------------------------------------------------------------------


@njit_inner
def apply_rope(heads: Any, norm: Any, epsilon: float, cos: Any, sin: Any) -> None:
    """RMSNorm of each of `heads` (heads, head_dim) unless `norm` is empty, then the rotary
    embedding of neighbouring pairs, in place."""
    if len(norm):
        rms_norm(heads, norm, epsilon, heads)
    for h in range(heads.shape[0]):
        for k in range(len(cos)):
            a, b = heads[h, 2 * k], heads[h, 2 * k + 1]
            heads[h, 2 * k] = a * cos[k] - b * sin[k]
            heads[h, 2 * k + 1] = a * sin[k] + b * cos[k]


@njit_inner
def softmax(scores: Any, scale: float) -> None:
    """Of one row times `scale`, in place."""
    highest, total = np.float32(-np.inf), np.float32(0)
    for t in range(len(scores)):
        highest = max(highest, scores[t])
    for t in range(len(scores)):
        scores[t] = np.exp((scores[t] - highest) * scale)
        total += scores[t]
    for t in range(len(scores)):
        scores[t] /= total


@njit_inner
def score(q: Any, keys: Any, head: int, block: int, first: int, end: int, scores: Any) -> None:
    """scores[:, first:end] = queries `q` (group, head_dim) times the keys of one block, whose first
    token is the row's `first`; four tokens at a time."""
    group, dim = q.shape
    t = first
    while t + 4 <= end:
        i = t - first
        k0, k1 = keys[block, i, head], keys[block, i + 1, head]
        k2, k3 = keys[block, i + 2, head], keys[block, i + 3, head]
        for g in range(group):
            query = q[g]
            s0 = s1 = s2 = s3 = np.float32(0)
            for k in range(dim):
                s0 += query[k] * widen(k0[k])
                s1 += query[k] * widen(k1[k])
                s2 += query[k] * widen(k2[k])
                s3 += query[k] * widen(k3[k])
            scores[g, t], scores[g, t + 1], scores[g, t + 2], scores[g, t + 3] = s0, s1, s2, s3
        t += 4
    while t < end:
        key = keys[block, t - first, head]
        for g in range(group):
            query, s0 = q[g], np.float32(0)
            for k in range(dim):
                s0 += query[k] * widen(key[k])
            scores[g, t] = s0
        t += 1


@njit_inner
def gather(
    shares: Any, values: Any, head: int, block: int, first: int, end: int, found: Any
) -> None:
    """found (group, head_dim) += shares[:, first:end] times the values of one block, likewise."""
    group, dim = found.shape
    t = first
    while t + 4 <= end:
        i = t - first
        v0, v1 = values[block, i, head], values[block, i + 1, head]
        v2, v3 = values[block, i + 2, head], values[block, i + 3, head]
        for g in range(group):
            total = found[g]
            s0, s1, s2, s3 = shares[g, t], shares[g, t + 1], shares[g, t + 2], shares[g, t + 3]
            for k in range(dim):
                half = s0 * widen(v0[k]) + s1 * widen(v1[k])
                total[k] += half + (s2 * widen(v2[k]) + s3 * widen(v3[k]))
        t += 4
    while t < end:
        value = values[block, t - first, head]
        for g in range(group):
            total, share = found[g], shares[g, t]
            for k in range(dim):
                total[k] += share * widen(value[k])
        t += 1


@njit_inner
def attend(
    q: Any, keys: Any, values: Any, head: int, blocks: Any, context: int, span: int, scores: Any,
    found: Any,
) -> None:  # fmt: skip
    """Attention of one request's queries `q` (group, head_dim) to KV head `head`, into `found`.

    The request sees `context` tokens of its `blocks` and walks `span`: tokens beyond the context
    are computed and masked. scores: (group, at least span)."""
    group, dim = q.shape
    size = keys.shape[1]
    scale = np.float32(1.0 / np.sqrt(dim))
    for first in range(0, span, size):
        score(q, keys, head, blocks[first // size], first, min(first + size, span), scores)
    for g in range(group):
        scores[g, context:span] = -np.inf
        softmax(scores[g, :span], scale)
    found[:] = 0
    for first in range(0, span, size):
        end = min(first + size, span)
        gather(scores, values, head, blocks[first // size], first, end, found)


@njit_parallel
def attention(
    qkv: Any, q_norm: Any, k_norm: Any, epsilon: float, step: Any, keys: Any, values: Any,
    scores: Any, found: Any,
) -> None:  # fmt: skip
    """Rotate queries and keys, write keys and values to their slots, attend; one task per KV head
    of each request."""
    cos, sin, slots, block_table, context, span = step
    rows, num_heads, dim = found.shape
    size, kv_heads = keys.shape[1], keys.shape[2]
    group = num_heads // kv_heads
    for task in prange(rows * kv_heads):
        r, head = task // kv_heads, task % kv_heads
        mine = slice(head * group, (head + 1) * group)
        key = qkv[r, num_heads + head : num_heads + head + 1]
        value = qkv[r, num_heads + kv_heads + head]
        apply_rope(qkv[r, mine], q_norm, epsilon, cos[r], sin[r])
        apply_rope(key, k_norm, epsilon, cos[r], sin[r])
        block, offset = slots[r] // size, slots[r] % size
        for k in range(dim):
            keys[block, offset, head, k] = narrow(key[0, k], keys)
            values[block, offset, head, k] = narrow(value[k], values)
        attend(
            qkv[r, mine], keys, values, head, block_table[r], context[r], span[r],
            scores[r, mine], found[r, mine],
        )  # fmt: skip


# --- what Python calls ----------------------------------------------------------------------------


def use_threads(threads: int) -> None:
    """Set the number of threads for calls from this Python thread, at most as many as numba
    started."""
    numba.set_num_threads(min(threads, CONFIG.NUMBA_NUM_THREADS))


@njit
def decode_layer(
    x: Any, scratch: Any, step: Any, keys: Any, values: Any, weights: Any, epsilon: float
) -> None:
    """One layer over `x` (rows, hidden), in place; the step's keys and values go to their slots.

    scratch, fp32: normed (rows, hidden), qkv (rows, all heads, head_dim), attended (rows, heads,
    head_dim), gate and up (rows, intermediate), added (rows, hidden), scores (rows, heads, most
    tokens). step: cos and sin (rows, head_dim / 2) fp32; slots, block_table, context, span int64.
    keys, values: (blocks, block_size, KV heads, head_dim). weights: input norm; Q, K and V; their
    bias; q norm; k norm; output; MLP norm; gate and up; down. Missing weights are empty arrays.
    """
    normed, qkv, attended, gate, up, added, scores = scratch
    input_norm, qkv_weight, qkv_bias, q_norm, k_norm, output, mlp_norm, gate_up, down = weights
    rows, no_bias = len(x), output[0, :0]
    rms_norm(x, input_norm, epsilon, normed)
    linear(normed, qkv_weight, qkv_bias, qkv.reshape(rows, -1))
    attention(qkv, q_norm, k_norm, epsilon, step, keys, values, scores, attended)
    linear(attended.reshape(rows, -1), output, no_bias, added)
    add(x, added)
    rms_norm(x, mlp_norm, epsilon, normed)
    gated(normed, gate_up, gate, up)
    linear(gate, down, no_bias, added)
    add(x, added)


@njit
def head_product(x: Any, norm: Any, epsilon: float, weight: Any, normed: Any, logits: Any) -> None:
    """logits (rows, vocab_size) of x (rows, hidden), normalised into `normed` first."""
    rms_norm(x, norm, epsilon, normed)
    linear(normed, weight, weight[0, :0], logits)

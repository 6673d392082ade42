"""FLOP and bytes that the model needs for a step, from a LATENCY row and STEP rows."""

from typing import Any

import numpy as np

__all__ = ["model_bytes", "model_flop"]


def model_flop(latency: Any, steps: Any) -> Any:
    """FLOP that the model needs for each step, over all GPUs of the replica (rows or one row).

    Padding of a static batch does not count; its attention is subtracted in proportion."""
    num_tokens = steps.num_prefill_tokens.astype(np.float64) + steps.num_decodes
    wanted = num_tokens - steps.num_padding_tokens
    share = wanted / np.maximum(num_tokens, 1.0)
    pairs = share * (steps.prefill_pairs + steps.decode_context)
    flop = wanted * latency.gemm_flop_per_token + pairs * latency.attention_flop_per_pair
    rows = steps.num_sampled - steps.num_padding_rows
    return latency.num_gpus * (flop + rows * latency.head_flop_per_row)


def model_bytes(latency: Any, steps: Any) -> Any:
    """Bytes that a step must move, over all GPUs: weights once, LM head where rows are sampled,
    KV read and written. Activations are left out: a perfect kernel keeps them on the chip."""
    num_tokens = steps.num_prefill_tokens.astype(np.float64) + steps.num_decodes
    kv = (steps.decode_context + steps.prefill_context + num_tokens) * latency.kv_bytes_per_token
    weights = (num_tokens > 0) * latency.weight_bytes + (steps.num_sampled > 0) * latency.head_bytes
    return latency.num_gpus * (kv + weights)

"""Prompt, output and max_tokens lengths of the requests of a class."""

import numpy as np
from numpy.typing import NDArray

from sim.workload.spec import (
    MAX_TOKENS,
    Empirical,
    EqualTokens,
    FactorTokens,
    Fixed,
    FixedTokens,
    Length,
    Listed,
    Lognormal,
    MaxTokens,
    Uniform,
)

# Rounding a product to six decimals before rounding it up: 1.1 x 10 is 11, not 12.
DECIMALS = 6


def draw_lengths(length: Length, count: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """`count` lengths in tokens, each from 1 to MAX_TOKENS."""
    match length:
        case Fixed():
            drawn = np.full(count, length.tokens, np.int32)
        case Uniform():
            drawn = rng.integers(length.min, length.max, count, np.int32, endpoint=True)
        case Lognormal():
            logs = np.log(length.median) + length.sigma * rng.standard_normal(count)
            tokens = np.rint(np.exp(np.minimum(logs, np.log(MAX_TOKENS))))
            drawn = np.clip(tokens, 1, length.max).astype(np.int32)
        case Empirical():
            drawn = rng.choice(np.array(length.values, np.int32), count)
        case Listed():
            drawn = np.resize(np.array(length.values, np.int32), count)
    return drawn


def ask_for(
    rule: MaxTokens, drawn: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(max_tokens, output_len) for outputs that would be `drawn` long.

    max_tokens is what the client asked for; generation ends there or at EOS, whichever comes
    first, so output_len = min(drawn, max_tokens).
    """
    match rule:
        case EqualTokens():
            max_tokens = drawn.copy()
        case FixedTokens():
            max_tokens = np.full(len(drawn), rule.tokens, np.int32)
        case FactorTokens():
            product = np.ceil(np.round(drawn * rule.factor, DECIMALS))
            max_tokens = np.clip(product, 1, MAX_TOKENS).astype(np.int32)
    return max_tokens, np.minimum(drawn, max_tokens)

"""Real prompts for a workload that only has lengths and shared prefixes.

A workload's content is runs of numbers; number c becomes the token c mod n of a text of n tokens
(a prime n, so that prompts of one length start at different places), or for random weights a
scattered id. Equal numbers are equal tokens, so shared prefixes are shared.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpu_backend.models.zoo import Loaded
from sim.workload.workload import Workload

__all__ = ["prompts_of", "text_tokens"]

TEXT = Path(__file__).parent / "corpus.txt"
SCATTER = 0x9E3779B97F4A7C15
FIRST_SCATTERED = 256  # ids below are the bytes that the byte tokenizer shows as text

Ints = NDArray[np.int64]


def prompts_of(workload: Workload, loaded: Loaded) -> list[Ints]:
    """Token ids of every prompt of a workload."""
    text = None if loaded.random else text_tokens(loaded)
    vocabulary = loaded.model.architecture.shape.vocab_size
    return [tokens_of(workload.content(i), text, vocabulary) for i in range(len(workload))]


def tokens_of(content: list[tuple[int, int]], text: Ints | None, vocabulary: int) -> Ints:
    numbers = np.concatenate([np.arange(base, base + n) for base, n in content])
    if text is not None:
        found: Ints = text[numbers % len(text)]
        return found
    with np.errstate(over="ignore"):
        mixed = numbers.astype(np.uint64) * np.uint64(SCATTER)
    spread: Ints = (mixed >> np.uint64(33)).astype(np.int64)
    ids: Ints = FIRST_SCATTERED + spread % (vocabulary - FIRST_SCATTERED)
    return ids


def text_tokens(loaded: Loaded) -> Ints:
    """The text as tokens of the model, cut to a prime number of them."""
    tokens = np.array(loaded.tokenizer.encode(TEXT.read_text(encoding="utf-8")), np.int64)
    return tokens[: largest_prime(len(tokens))]


def largest_prime(limit: int) -> int:
    """The largest prime up to `limit`, which is at least 2."""
    return next(n for n in range(limit, 1, -1) if all(n % d for d in range(2, int(n**0.5) + 1)))

"""Prompts of a workload for a server with an unknown tokenizer.

Equal content (prompt_tokens.py) gives equal prompts, so the prefix cache of the server hits as the
simulated one does. For /completions a prompt is a list of token ids, which every vocabulary of
at least 21,000 tokens has: its length is exact. For chat it is common English words, about one
token each; the template adds tokens, and the count of the server is reported.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.workload.workload import Workload

__all__ = ["prompt_ids", "prompt_text"]

FIRST_ID = 1000  # ids below are bytes and special tokens
NUM_IDS = 20_000
WORDS = (Path(__file__).parent / "common_words.txt").read_text(encoding="utf-8").split()


def content_ids(workload: Workload, i: int) -> NDArray[np.int64]:
    """(num_prompt_tokens,) The token ids of the prompt of request i in the simulation."""
    return np.concatenate(
        [np.arange(first, first + n, dtype=np.int64) for first, n in workload.content(i)]
    )


def scattered(ids: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Each id as a number below `most`; neighbours are far apart (Fibonacci hashing)."""
    mixed: NDArray[np.int64] = (ids % (1 << 31)) * 2654435761 % (1 << 32) >> 8
    return mixed % most


def prompt_ids(workload: Workload, i: int) -> list[int]:
    """Request i's prompt as token ids, one per prompt token."""
    ids: list[int] = (FIRST_ID + scattered(content_ids(workload, i), NUM_IDS)).tolist()
    return ids


def prompt_text(workload: Workload, i: int) -> str:
    """Request i's prompt as words, one per prompt token."""
    picks: Any = scattered(content_ids(workload, i), len(WORDS)).tolist()
    return " ".join(WORDS[pick] for pick in picks)

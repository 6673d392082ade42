"""Mooncake's hash_ids as prompt content.

An id stands for one block of 512 tokens after a given prefix; the last block of a prompt may be
partial and has an id too (Mooncake, FAST'25, release of the traces). Equal ids are equal tokens.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.core.requests import OUTPUT_BASE
from sim.workload.importers.columns import MAX_SHOWN, Refusals
from sim.workload.prompt_tokens import RENUMBERED_BASE, Content, merge_runs

TOKENS_PER_ID = 512
MAX_ID = OUTPUT_BASE // TOKENS_PER_ID  # above it, [512 h, 512] would overlap generated tokens


def refuse_bad_ids(
    values: Sequence[Any], column: str, num_prompt_tokens: NDArray[np.int32], refusals: Refusals
) -> None:
    """Refuse rows whose ids are not a list with one number per (possibly partial) block of the
    prompt."""
    wanted = (-(-num_prompt_tokens.astype(np.int64) // TOKENS_PER_ID)).tolist()
    for row in np.flatnonzero(refusals.kept).tolist():
        problem = problem_of(values[row], wanted[row], int(num_prompt_tokens[row]))
        if problem:
            refusals.kept[row] = False
            refusals.reasons[row] = f"{column} {problem}"


def problem_of(ids: Any, wanted: int, num_prompt_tokens: int) -> str | None:
    """The problem with the ids of a prompt that needs `wanted` of them, None if there is none."""
    if ids is None:
        return "is missing; allowed is a list of ids"
    if type(ids) is not list:
        return f"is {repr(ids)[:MAX_SHOWN]}; allowed is a list of ids"
    if len(ids) != wanted:
        return (
            f"has {len(ids)} ids; {num_prompt_tokens:,} prompt tokens are {wanted} blocks of "
            f"{TOKENS_PER_ID}"
        )
    if set(map(type, ids)) != {int} or min(ids) < 0 or max(ids) >= 2**63:
        return "holds something else than whole numbers from 0 to 2^63 - 1"
    return None


def hashed_content(ids: Sequence[list[int]], num_prompt_tokens: NDArray[np.int32]) -> Content:
    """Runs [512 h, 512]; ids too large for the region of named content are renumbered."""
    per_prompt = np.fromiter(map(len, ids), np.int64, len(ids))
    flat = np.fromiter(chain.from_iterable(ids), np.int64, int(per_prompt.sum()))
    base = flat * TOKENS_PER_ID if flat.max() < MAX_ID else renumbered(flat)
    num_tokens = np.full(len(flat), TOKENS_PER_ID)
    num_tokens[np.cumsum(per_prompt) - 1] = (num_prompt_tokens - 1) % TOKENS_PER_ID + 1
    owner = np.repeat(np.arange(len(ids)), per_prompt)
    return merge_runs(owner, base, num_tokens, len(ids))


def renumbered(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """First tokens of the blocks when ids are replaced by their ranks."""
    return RENUMBERED_BASE + TOKENS_PER_ID * np.unique(ids, return_inverse=True)[1]

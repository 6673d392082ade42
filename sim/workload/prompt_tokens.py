"""The content of prompts: a table of runs of consecutive token ids (`requests.RUN`).

Requests that share a prefix have equal runs up to its end. Map of the token ids:

    from 0              content that a file names (a Mooncake hash_id h is the run [512 h, 512])
    OUTPUT_BASE         generated tokens
    RENUMBERED_BASE     content that a file names by ids too large for the first region
    SHARED_BASE         shared prefixes of synthetic classes, one run for each (class, group)
    PRIVATE_BASE        content of one request alone
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.core.requests import PRIVATE_BASE, RUN, Table

RENUMBERED_BASE = 1 << 40
SHARED_BASE = 1 << 43

ROW_BYTES = 16  # of a (base, number of tokens) pair

Ints = NDArray[np.int64]


class Content(NamedTuple):
    """Run table of n prompts: request i has rows first_run[i] : first_run[i] + num_runs[i]."""

    runs: Table
    first_run: NDArray[np.int64]  # (n,)
    num_runs: NDArray[np.int32]  # (n,)


def run_table(prompts: Sequence[Iterable[tuple[int, int]]]) -> Content:
    """The table for one list of (base, number of tokens) per prompt."""
    pieces = [list(prompt) for prompt in prompts]
    per_prompt = np.fromiter(map(len, pieces), np.int64, len(pieces))
    flat = np.fromiter(
        chain.from_iterable(chain.from_iterable(pieces)), np.int64, 2 * int(per_prompt.sum())
    )
    owner = np.repeat(np.arange(len(pieces)), per_prompt)
    return merge_runs(owner, flat[0::2], flat[1::2], len(pieces))


def merge_runs(owner: Ints, base: Ints, num_tokens: Ints, num_requests: int) -> Content:
    """The table for pieces of content: num_tokens[k] tokens from base[k] on for request owner[k].

    `owner` ascends; the pieces of a request follow each other. Empty pieces are dropped; a piece
    that continues the previous one is merged with it.
    """
    if (num_tokens == 0).any():
        kept = num_tokens > 0
        owner, base, num_tokens = owner[kept], base[kept], num_tokens[kept]
    position = np.cumsum(num_tokens) - num_tokens  # in the concatenation of all prompts
    begins = np.ones(len(owner), bool)  # of a request
    begins[1:] = owner[1:] != owner[:-1]
    starts_run = begins.copy()
    starts_run[1:] |= base[1:] != base[:-1] + num_tokens[:-1]
    num_runs = np.bincount(owner[starts_run], minlength=num_requests)
    pieces_each = np.diff(np.append(np.flatnonzero(begins), len(owner)))
    prompt_position = np.repeat(position[begins], pieces_each)
    runs = np.empty(np.count_nonzero(starts_run), RUN).view(np.recarray)
    runs["start"] = (position - prompt_position)[starts_run]
    runs["token"] = base[starts_run]
    first_run = np.cumsum(num_runs) - num_runs
    return Content(runs, first_run, num_runs.astype(np.int32))


def private_content(num_prompt_tokens: NDArray[np.int32]) -> Content:
    """Prompts without common tokens: one run each."""
    n = len(num_prompt_tokens)
    runs = np.zeros(n, RUN).view(np.recarray)
    runs["token"] = PRIVATE_BASE + np.cumsum(num_prompt_tokens, dtype=np.int64) - num_prompt_tokens
    return Content(runs, np.arange(n), np.ones(n, np.int32))


def prefixed_content(
    num_prompt_tokens: NDArray[np.int32], prefix_base: Ints, prefix_len: Ints
) -> Content:
    """Prompts of a run [prefix_base, prefix_len], followed by private tokens."""
    private_len = num_prompt_tokens - prefix_len
    private_base = PRIVATE_BASE + np.cumsum(private_len) - private_len
    owner = np.repeat(np.arange(len(num_prompt_tokens)), 2)
    base = np.column_stack([prefix_base, private_base]).ravel()
    num_tokens = np.column_stack([prefix_len, private_len]).ravel()
    return merge_runs(owner, base, num_tokens, len(num_prompt_tokens))


def count_hit_blocks(
    content: Content, num_prompt_tokens: NDArray[np.int32], block_size: int
) -> int:
    """Whole blocks of all prompts that hit in a prefix cache of infinite size.

    A block hits when an earlier prompt has the same block after the same tokens: all blocks but the
    distinct prefixes. With the prompts sorted by content, each adds the prefixes that it does not
    share with its neighbour. (A scheduler hits slightly less: it computes the last token of every
    prompt.)
    """
    counts = Counter(shareable_keys(content, num_prompt_tokens))
    keys = sorted(counts)
    if not keys:
        return 0
    prompts = np.fromiter((counts[key] for key in keys), np.int64, len(keys))
    num_rows = np.fromiter(map(len, keys), np.int64, len(keys)) // ROW_BYTES
    first_row = np.cumsum(num_rows) - num_rows
    rows = np.frombuffer(b"".join(keys), ">i8").reshape(-1, 2).astype(np.int64)
    blocks = np.add.reduceat(rows[:, 1], first_row) // block_size
    common_blocks = common_tokens(rows, first_row, num_rows) // block_size
    distinct = blocks.sum() - common_blocks.sum()
    return int((prompts * blocks).sum() - distinct)


def shareable_keys(content: Content, num_prompt_tokens: NDArray[np.int32]) -> list[bytes]:
    """For each prompt with shared content: its (base, tokens) up to the first private run.

    Big-endian bytes, so that comparing keys compares runs.
    """
    runs, first_run, num_runs = content
    if runs["token"].min(initial=PRIVATE_BASE) >= PRIVATE_BASE:
        return []
    order = np.repeat(first_run - (np.cumsum(num_runs) - num_runs), num_runs)
    rows = order + np.arange(len(order))  # run rows in the order of the prompts
    start, base = runs["start"][rows], runs["token"][rows]
    ends = np.append(start[1:], 0)
    last = np.cumsum(num_runs) - 1
    has_runs = num_runs > 0
    ends[last[has_runs]] = num_prompt_tokens[has_runs]
    private = np.cumsum(base >= PRIVATE_BASE)
    before = np.where(has_runs, np.append(0, private)[last - num_runs + 1], 0)
    shareable = private == np.repeat(before, num_runs)
    leading = np.bincount(np.repeat(np.arange(len(num_runs)), num_runs), shareable, len(num_runs))
    table = np.column_stack([base, ends - start]).astype(">i8").tobytes()
    begins = ROW_BYTES * (last - num_runs + 1)
    stops = begins + ROW_BYTES * leading.astype(np.int64)
    return [table[a:b] for a, b in zip(begins.tolist(), stops.tolist(), strict=True) if b > a]


def common_tokens(rows: Ints, first_row: Ints, num_rows: Ints) -> Ints:
    """Length of the common prefix of each content but the last with the next one.

    Content k is rows (base, number of tokens) first_row[k] : first_row[k] + num_rows[k].
    """
    tokens = np.zeros(len(first_row) - 1, np.int64)
    equal = np.arange(len(tokens))  # contents that equal the next one so far
    depth = 0
    while len(equal):
        equal = equal[np.minimum(num_rows[equal], num_rows[equal + 1]) > depth]
        mine, other = rows[first_row[equal] + depth], rows[first_row[equal + 1] + depth]
        same_base = mine[:, 0] == other[:, 0]
        tokens[equal] += np.where(same_base, np.minimum(mine[:, 1], other[:, 1]), 0)
        equal = equal[same_base & (mine[:, 1] == other[:, 1])]
        depth += 1
    return tokens

"""The request table: one row per request, with its input and its progress.

``REQUEST`` is a structured dtype viewed as ``np.recarray``, so a kernel can write
``request.num_computed_tokens += n``, compiled or not. Rows are in arrival order; the index of a row
is the id of the request. Names are vLLM's (``vllm/v1/request.py``).

Two columns look alike but differ: ``max_tokens`` is what the client asked for, and all that an
engine may read; ``output_len`` is where EOS falls, and only ``complete`` reads it."""

from typing import Any

import numpy as np

# Records in an np.recarray, one attribute per field; numpy's type stubs do not know the fields.
Table = Any

REQUEST = np.dtype(
    [
        # hot: read or written for every scheduled token
        ("num_tokens", np.int32),  # prompt + outputs so far
        ("num_computed_tokens", np.int32),  # tokens whose KV is computed
        ("num_output_tokens", np.int32),
        ("stop_at", np.int32),  # num_tokens at which `complete`, its only reader, ends it
        ("capacity", np.int32),  # tokens that its KV blocks can hold
        (
            "cache_at",
            np.int32,
        ),  # num_computed_tokens at which its next block is full (prefix caching)
        ("high_water", np.int32),  # most tokens ever computed: tokens below it are recomputed
        ("slot", np.int32),  # its row of the block table, -1 while it holds none
        ("last_token_s", np.float64),
        ("max_gap_s", np.float64),  # largest inter-token latency
        ("num_prompt_tokens", np.int32),
        ("context_len", np.int32),  # num_tokens when it was last admitted: it decodes beyond
        ("num_blocks", np.int64),  # KV blocks held
        ("num_host_blocks", np.int64),  # KV blocks in host memory while it is swapped out
        ("num_cached_blocks", np.int64),  # of these, entered in the prefix cache from the start on
        ("tail_hash", np.int64),  # hash of its last entered block
        # given
        ("max_tokens", np.int32),
        ("output_len", np.int32),
        ("priority", np.int32),  # lower is more important
        ("class_id", np.int32),
        ("arrival_s", np.float64),  # inf: released by a closed loop
        ("abort_after_s", np.float64),  # inf: never
        ("first_run", np.int64),  # its content: rows of the run table
        ("load_tokens", np.int64),  # first tokens whose KV is loaded from elsewhere
        ("output_base", np.int64),  # token id of its first output; the following ones count up
        ("num_runs", np.int32),
        ("loop", np.int32),  # closed loop it belongs to, -1 for none
        # so far
        ("status", np.int32),
        ("finish_reason", np.int32),
        ("rejection", np.int32),
        ("replica", np.int64),
        ("arrival_order", np.int64),  # how many were added to its replica before it
        ("next_waiting", np.int64),  # neighbours in the waiting queue, -1 at the ends
        ("previous_waiting", np.int64),
        ("num_preemptions", np.int32),
        ("recomputed_tokens", np.int32),
        ("hit_tokens", np.int32),  # prefix-cache hits at its first admission
        (
            "resumed_hit_tokens",
            np.int32,
        ),  # hits on resumption, mostly its own blocks; counted separately
        ("first_scheduled_s", np.float64),  # nan until it happens, as the two below
        ("first_token_s", np.float64),
        ("end_s", np.float64),
    ],
    align=True,
)

# Content of a prompt: runs of consecutive token ids. A row covers the tokens from ``start``
# (position in the prompt) to the next row's start: ``token, token + 1, ...``. Runs are maximal:
# neighbours never continue each other, so equal content has equal runs.
RUN = np.dtype([("start", np.int64), ("token", np.int64)], align=True)

# Output tokens of request i are one implicit run from OUTPUT_BASE + i * OUTPUT_STRIDE on, as in the
# recorded cases. Content that is not given is a private run from PRIVATE_BASE on.
OUTPUT_BASE = 1_000_000_000
OUTPUT_STRIDE = 100_000
PRIVATE_BASE = 1 << 44
# `output_base` of a request whose real outputs are written into the run table, behind its prompt.
REAL_OUTPUTS = -1


def empty_requests(n: int) -> Table:
    """A table of `n` requests, all fields at their initial values."""
    table: Table = np.zeros(n, REQUEST).view(np.recarray)
    table.output_base = OUTPUT_BASE + OUTPUT_STRIDE * np.arange(n)
    table.slot = table.loop = table.next_waiting = table.previous_waiting = -1
    table.abort_after_s = np.inf
    table.first_scheduled_s = table.first_token_s = table.end_s = table.last_token_s = np.nan
    return table

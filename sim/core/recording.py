"""The records of a run.

Four flat tables, joined by index. Times are seconds on the run's clock, sizes are tokens or KV
blocks. A Workload is the input; a Recording is what happened."""

from dataclasses import dataclass

import numpy as np

from sim.core.requests import Table

# One row per step.
STEP = np.dtype(
    [
        ("start_s", np.float64),
        ("duration_s", np.float64),
        ("first_item", np.int64),  # its items: items[first_item : first_item + num_items]
        ("first_event", np.int64),
        ("num_items", np.int32),
        ("num_events", np.int32),
        ("replica", np.int32),
        ("stop_reason", np.int32),  # index into reasons.STOP_REASONS
        ("num_running", np.int32),  # after schedule()
        ("num_waiting", np.int32),
        ("num_preempted", np.int32),
        ("kv_blocks", np.int32),  # in use while the step runs
        # the cost of the step: all that a latency model reads
        ("num_prefill_tokens", np.int32),
        ("num_decodes", np.int32),
        ("num_chunks", np.int32),  # requests that run prefill tokens
        ("num_sampled", np.int32),  # requests that emit a token: rows of the LM head
        ("decode_context", np.int64),  # sum over decodes of the tokens each attends to
        ("prefill_context", np.int64),  # sum over chunks of start + n: KV tokens read
        ("prefill_pairs", np.float64),  # sum over chunks of n * (start + n / 2): attention work
        ("num_padding_tokens", np.int32),  # included above, of no use (static batching)
        ("num_padding_rows", np.int32),  # of num_sampled: rows of members that have finished
        ("swapped_out_blocks", np.int32),  # KV blocks copied to host memory before the step ...
        ("swapped_in_blocks", np.int32),  # ... and back from it
        (
            "num_regular_gaps",
            np.int32,
        ),  # tokens whose predecessor came at the end of the previous step
    ],
    align=True,
)

# One row per (request, step) pair with at least one scheduled token, in the engine's batch order.
ITEM = np.dtype(
    [
        ("request", np.int32),
        ("num_tokens", np.int32),  # tokens of this step
        ("num_computed_tokens", np.int32),  # tokens computed before
        ("num_needed", np.int32),  # tokens still to compute; equal to num_tokens: it emits a token
    ],
    align=True,
)

# One row per other event of a request in a step; see reasons.EVENTS for value and limit.
EVENT = np.dtype(
    [
        ("step", np.int32),
        ("request", np.int32),
        ("kind", np.int32),
        ("value", np.int32),
        ("limit", np.int32),
    ],
    align=True,
)

# A gap between two tokens of one request that did not come in consecutive steps, and how many
# adjacent requests in the batch had the same gap. All other gaps are the duration of a step
# (num_regular_gaps of them).
GAP = np.dtype(
    [
        ("step", np.int32),
        ("request", np.int32),  # the first of them
        ("count", np.int32),
        ("seconds", np.float64),
    ],
    align=True,
)


@dataclass(frozen=True)
class Recording:
    """The records of one run. `requests` is the final request table (see requests.REQUEST).

    Under disaggregation the prompt of request r is computed by its prefill request: row r of
    `prefill_requests`, request len(requests) + r in items and events. `kv_transfers`
    (cluster_state.KV_TRANSFER) records the path of its KV in row r, and that of a prefix from a KV
    store in row len(requests) + r.

    `items` is empty when item records were off. metrics.py does not need it: gaps between tokens
    are kept as step durations with counts, and as GAP rows where they differ from these."""

    steps: Table
    items: Table
    events: Table
    gaps: Table
    requests: Table
    status: str  # one of reasons.RUN_STATUSES
    reason: str | None  # why it did not finish, with the limit and the request; None when finished
    stuck_request: int  # the request that blocks the run, -1 for none
    block_size: int
    num_blocks: int  # usable KV blocks of a replica (the null block does not count)
    peak_kv_blocks: int
    replica_blocks: np.ndarray  # (R,) the same of each replica
    replica_peaks: np.ndarray  # (R,) most KV blocks in use, or reserved for KV to come
    prefill_requests: Table
    kv_transfers: Table

"""The state of a run: flat arrays that every kernel reads and writes, one row or plane per replica.

A single server is a cluster of one: replica 0. The state contains no clock and no GPU."""

from typing import NamedTuple

import numpy as np

from sim.core.recording import EVENT, GAP, ITEM, STEP
from sim.core.requests import RUN, Table

# Knobs of an engine, one row per replica. Names are vLLM's (`vllm/config/scheduler.py`,
# `cache.py`).
POLICY = np.dtype(
    [
        ("engine", np.int64),  # its number: engines.dispatch.number_of
        ("max_num_batched_tokens", np.int64),
        ("max_num_seqs", np.int64),
        ("max_model_len", np.int64),
        ("enable_chunked_prefill", np.int64),
        ("long_prefill_token_threshold", np.int64),  # 0: no cap
        ("block_size", np.int64),
        ("num_gpu_blocks", np.int64),  # the null block included
        ("enable_prefix_caching", np.int64),
        ("priority", np.int64),  # 1: policy "priority", 0: "fcfs"
        ("watermark_blocks", np.int64),
        ("scheduler_reserve_full_isl", np.int64),
        ("max_prompt_len", np.int64),  # the front end refuses longer prompts; 0: max_model_len - 1
        ("max_request_len", np.int64),  # the same for prompt + max_tokens; 0: no limit
        ("requeue", np.int64),  # where a preempted request waits: queues.TO_HEAD ...
        ("watermark_always", np.int64),  # 0: waived while nothing runs, as in vLLM V1
        ("hold_finished", np.int64),  # 1: static batching, a padded batch ends as one
        ("hold_for_transfer", np.int64),  # 1: a prefill pool, KV stays until it has been moved
        ("num_slots", np.int64),  # requests that may hold KV at once; 0: max_num_seqs
        ("num_host_blocks", np.int64),  # vLLM V0: room for swapped KV, 0: preemption recomputes
        # Sarathi-Serve's chunk schedule: max_num_batched_tokens by position in the prompt
        ("dynamic_low", np.int64),
        ("dynamic_high", np.int64),
        ("dynamic_stages", np.int64),  # 0: one chunk size
        ("dynamic_stage_tokens", np.int64),
        # TensorRT-LLM's
        ("capacity_policy", np.int64),
        ("chunking_policy", np.int64),
        ("chunk_unit", np.int64),
        ("two_step_lookahead", np.int64),
        ("snapshot_every", np.int64),  # FORCE_CHUNK
        # SGLang's
        ("enable_mixed_chunk", np.int64),
        ("max_prefill_tokens", np.int64),
        ("init_new_token_ratio", np.float64),
    ],
    align=True,
)

# Lengths of the lists below and progress of the current step, one row per replica.
COUNTERS = np.dtype(
    [
        ("now_s", np.float64),  # end of the last step
        ("previous_end_s", np.float64),  # end of the step before, nan before the first
        ("num_added", np.int64),  # requests that ever arrived here
        ("num_running", np.int64),
        ("num_waiting", np.int64),
        ("first_waiting", np.int64),  # -1 if the queue is empty
        ("last_waiting", np.int64),
        ("num_free_blocks", np.int64),
        ("num_free_slots", np.int64),
        ("num_scheduled", np.int64),
        ("num_admitted", np.int64),
        ("num_preempted", np.int64),
        ("num_ended", np.int64),
        ("num_swapped", np.int64),
        ("num_swapped_in", np.int64),
        ("num_loading", np.int64),  # wait for KV from elsewhere, or have it and wait to run
        ("num_loaded", np.int64),  # of these, have it
        ("num_reserved", np.int64),  # got blocks in the current step: loads to be started
        ("step", np.int64),  # row of the current step in the recording
        ("num_free_host_blocks", np.int64),
        ("swapped_out_blocks", np.int64),  # of the current step
        ("swapped_in_blocks", np.int64),
        ("stop_reason", np.int64),
        ("peak_kv_blocks", np.int64),
        # SGLang's
        ("new_token_ratio", np.float64),  # share of max_tokens that it expects to be generated
        ("batch_is_full", np.int64),  # no request is admitted until one leaves
        ("batch_size", np.int64),  # requests that ran after the last step was planned
    ],
    align=True,
)

# A KV block. Block 0 is vLLM's null block: never handed out, it closes the ring of free blocks.
BLOCK = np.dtype(
    [
        ("references", np.int32),
        ("next_free", np.int32),
        ("previous_free", np.int32),
        ("hash", np.int64),  # of its content and all before it; -1: not in the prefix cache
        ("owner", np.int64),  # the request whose tokens these are ...
        ("index", np.int32),  # ... and which of its blocks
        ("next_in_bucket", np.int32),  # 0 at the ends
        ("previous_in_bucket", np.int32),
    ],
    align=True,
)

# A request that a step may serve: scratch of engines that choose before they allocate.
CANDIDATE = np.dtype(
    [
        ("request", np.int64),
        ("num_hits", np.int64),  # prefix-cache blocks it starts with
        ("num_needed", np.int64),  # tokens still to compute
        ("num_tokens", np.int64),  # of these, in this step
    ],
    align=True,
)

BUCKET = np.dtype([("first", np.int32), ("last", np.int32)], align=True)

# Rows written so far in the tables of the recording.
LOG = np.dtype(
    [
        ("num_steps", np.int64),
        ("num_items", np.int64),
        ("num_events", np.int64),
        ("num_gaps", np.int64),
        ("num_regular_gaps", np.int64),  # of the current step
    ],
    align=True,
)


class State(NamedTuple):
    """Every array of a run. R replicas, n requests, S = max_num_seqs, H slots (requests that may
    hold KV at once), L = H - S, B blocks of the largest replica.
    """

    requests: Table  # (n,)
    runs: Table  # content of all prompts
    policy: Table  # (R,)
    counters: Table  # (R,)
    running: np.ndarray  # (R, S) request ids in list order
    swapped: np.ndarray  # (R, S) requests whose KV is in host memory, a stack: last out, first in
    loading: np.ndarray  # (R, L) requests that hold blocks for KV from elsewhere, in that order
    heap: np.ndarray  # (R, n) waiting requests under the priority policy, else (R, 0)
    free_slots: np.ndarray  # (R, H) unused rows of the block table, a stack
    block_table: np.ndarray  # (R, H, blocks per request)
    hits: np.ndarray  # (R, blocks per request) scratch of the prefix look-up
    blocks: Table  # (R, B)
    buckets: Table  # (R, power of two) prefix cache: hash -> blocks, oldest first
    scheduled: Table  # (R, S) ITEM rows of the current step
    active: np.ndarray  # (R, S) scratch: running and waiting requests in order of arrival
    candidates: Table  # (R, S) scratch: CANDIDATE rows of the current step
    ended: np.ndarray  # (R, n) requests that ended since the step was begun
    log: Table  # (1,)
    steps: Table
    items: Table  # empty: item records off
    events: Table
    gaps: Table


def records(shape: int | tuple[int, ...], dtype: np.dtype) -> Table:
    """Zeroed records with attribute access."""
    return np.zeros(shape, dtype).view(np.recarray)


def columns(table: Table) -> np.ndarray:
    """The same memory, read by names in brackets: outside a kernel, attributes of records take many
    times as long."""
    found: np.ndarray = table.view(np.ndarray)
    return found


def uninitialised(n: int, dtype: np.dtype) -> Table:
    """Room for `n` records; memory is touched only when a row is written."""
    return np.empty(n, dtype).view(np.recarray)


def events_per_step(policy: Table) -> int:
    """The most events that a step writes: admissions, victims and refusals of every slot."""
    return 4 * int(policy.max_num_seqs.max()) + 16


def new_state(
    requests: Table,
    runs: Table,
    policy: Table,
    *,
    num_steps: int = 0,
    num_items: int = 0,
    num_events: int = 0,
    longest: int | None = None,
) -> State:
    """An idle cluster: `len(policy)` replicas with all blocks free and no request added.

    Shapes as in `State`; `num_*` is the room for records (at least what a step needs of events).
    `longest`: no request ever holds KV of more tokens (None: max_model_len). The request table and
    the run table are used in place, not copied.
    """
    replicas, slots = len(policy), int(policy.max_num_seqs.max())
    num_blocks = int(policy.num_gpu_blocks.max())
    most = policy.max_model_len * np.where(policy.hold_finished, 2, 1)  # two may be padded
    if longest is not None:
        most = np.minimum(most, longest)
    per_request = -(-most // policy.block_size)
    table_width = int(np.minimum(per_request, policy.num_gpu_blocks - 1).max())
    holders = np.maximum(policy.num_slots, policy.max_num_seqs)
    any_priority = bool(policy.priority.any())
    num_buckets = 1
    if policy.enable_prefix_caching.any():
        num_buckets = 1 << max(int(num_blocks - 1).bit_length(), 4)

    counters = records(replicas, COUNTERS)
    counters.first_waiting = counters.last_waiting = -1
    counters.previous_end_s = np.nan
    counters.num_free_slots = holders
    counters.num_free_host_blocks = policy.num_host_blocks
    counters.num_free_blocks = policy.num_gpu_blocks - 1

    blocks = records((replicas, num_blocks), BLOCK)
    blocks.hash = -1
    for replica in range(replicas):
        ring = np.arange(policy[replica].num_gpu_blocks)
        blocks[replica, : len(ring)].next_free = np.roll(ring, -1)
        blocks[replica, : len(ring)].previous_free = np.roll(ring, 1)

    return State(
        requests=requests,
        runs=runs if len(runs) else records(1, RUN),
        policy=policy,
        counters=counters,
        running=np.zeros((replicas, slots), np.int64),
        swapped=np.zeros((replicas, slots), np.int64),
        loading=np.zeros((replicas, int((holders - policy.max_num_seqs).max())), np.int64),
        heap=np.zeros((replicas, len(requests) if any_priority else 0), np.int64),
        free_slots=unused_slots(holders),
        block_table=np.zeros((replicas, int(holders.max()), table_width), np.int32),
        hits=np.zeros((replicas, table_width), np.int32),
        blocks=blocks,
        buckets=records((replicas, num_buckets), BUCKET),
        scheduled=records((replicas, slots), ITEM),
        active=np.zeros((replicas, slots), np.int64),
        candidates=records((replicas, slots), CANDIDATE),
        ended=np.zeros((replicas, len(requests)), np.int64),
        log=records(1, LOG),
        steps=uninitialised(num_steps, STEP),
        items=uninitialised(num_items, ITEM),
        events=uninitialised(max(num_events, events_per_step(policy)), EVENT),
        gaps=uninitialised(4096 + 2 * replicas * slots, GAP),
    )


def unused_slots(holders: np.ndarray) -> np.ndarray:
    """A stack of slot numbers for each replica, its number 0 on top."""
    slots = np.zeros((len(holders), int(holders.max())), np.int32)
    for replica, count in enumerate(holders.tolist()):
        slots[replica, :count] = np.arange(count - 1, -1, -1)
    return slots

"""The state of the loop beyond that of the schedulers: the clock, queued events, servers, the link,
KV transfers.

Engines do not read it. A KV transfer is the path of one request through a cluster: which server
computed its prompt, over which link its KV went, and where it decoded."""

from typing import NamedTuple

import numpy as np

from sim.core.requests import Table

CLOCK = np.dtype(
    [
        ("horizon_s", np.float64),
        ("max_steps", np.int64),
        ("next_arrival", np.int64),  # next row of the request table to arrive on its own
        ("num_arrivals", np.int64),  # rows that do; later rows are released by closed loops
        ("num_queued_events", np.int64),
        ("num_steps_open", np.int64),  # steps that have begun and not ended
        ("first_event", np.int64),  # of the step that begins next
        ("num_active_transfers", np.int64),
        ("transfers_at_s", np.float64),  # the time up to which their bytes are counted
        ("next_transfer_s", np.float64),  # when the next transfer changes, inf for never
        ("replica", np.int64),  # the one to step; a constant would compile every callee again
        ("stuck_request", np.int64),
        ("record_items", np.int64),
    ],
    align=True,
)

# An event that will happen at a time: an entry of a binary heap, see event_queue.py.
QUEUED_EVENT = np.dtype(
    [
        ("time_s", np.float64),
        ("since_s", np.float64),  # earlier than time_s if it waited for the end of a step
        ("subject", np.int64),  # a request, or the replica whose step begins or ends
        ("kind", np.int64),
    ],
    align=True,
)
# 64-bit: plain numbers would compile their receivers once per value
STEP_ENDS, ARRIVAL, ABORT, HANDOVER, STEP_BEGINS = np.arange(5)

# A closed loop: requests next .. end-1 are not released yet; one is released when another ends.
LOOP = np.dtype([("next", np.int64), ("end", np.int64), ("think_s", np.float64)], align=True)

# A server, as the loop and the router see it.
SERVER = np.dtype(
    [
        ("role", np.int64),
        ("activity", np.int64),
        ("busy_until_s", np.float64),
        ("num_unfinished", np.int64),  # requests sent to it and not ended there
        ("unfinished_tokens", np.int64),  # their prompts and max_tokens
        ("unfinished_prompts", np.int64),  # their prompts alone
        ("num_sending", np.int64),  # transfers that share its link at present, one way ...
        ("num_receiving", np.int64),  # ... and the other
        ("kv_token_bytes", np.float64),  # over all its GPUs
    ],
    align=True,
)
ROLES = ("both", "prefill", "decode", "store")
BOTH, PREFILL, DECODE, STORE = range(len(ROLES))
# No work; a step to begin; a step running; blocked until an event.
IDLE, READY, BUSY, BLOCKED = range(4)

ROUTERS = ("round_robin", "least_tokens", "shortest_queue", "prefix_aware", "random", "free_kv")
ROUND_ROBIN, LEAST_TOKENS, SHORTEST_QUEUE, PREFIX_AWARE, RANDOM, FREE_KV = range(len(ROUTERS))

CLUSTER_CONFIG = np.dtype(
    [
        ("num_requests", np.int64),  # rows of users; prefill requests follow them
        ("num_replicas", np.int64),  # without the store
        ("disaggregated", np.int64),
        ("router", np.int64),
        ("decode_router", np.int64),
        ("next_prefill", np.int64),  # of the round-robin routers
        ("next_decode", np.int64),
        ("bandwidth", np.float64),  # of one server's link, bytes/s each way
        ("latency_s", np.float64),
        ("per_descriptor_s", np.float64),
        ("handover_s", np.float64),
        ("num_layers", np.int64),  # descriptors of a piece of KV
        ("streaming", np.int64),
        ("first_token_at_prefill", np.int64),
        ("recompute_failed_loads", np.int64),
        ("store", np.int64),  # the replica index of the KV store, -1 for none
        ("early_rejection", np.int64),
        ("slo_ttft_s", np.float64),
        ("slo_gap_s", np.float64),
    ],
    align=True,
)

# The path of a request's KV: one row per request, or a single unused row in a co-located cluster.
KV_TRANSFER = np.dtype(
    [
        ("pick", np.float64),  # random numbers of the routers, 0 to 1
        ("decode_pick", np.float64),
        ("fate", np.int64),  # the outcome of its KV, drawn in advance
        ("stage", np.int64),
        ("outcome", np.int64),
        ("source", np.int64),  # where its prompt was computed, -1 before
        ("target", np.int64),  # where it decodes, -1 before
        ("prefill_end_s", np.float64),
        ("start_s", np.float64),  # of the transfer
        ("end_s", np.float64),
        ("num_tokens", np.int64),  # of KV that are moved
        ("num_descriptors", np.int64),
        ("total_bytes", np.float64),
        # while it moves
        ("setup_s", np.float64),  # latency and descriptors, before bytes flow
        ("ready_bytes", np.float64),  # computed and not yet sent
        ("unready_bytes", np.float64),  # not yet computed
        ("rate", np.float64),  # bytes/s
    ],
    align=True,
)
STAGES = ("none", "prefill", "handover", "queued", "moving", "there", "over")
NOT_STARTED, PREFILLING, HANDED_OVER, QUEUED, MOVING, KV_ARRIVED, DONE = range(len(STAGES))
PLANNED_OUTCOMES = ("used", "unused", "load_fails")
USED, UNUSED, LOAD_FAILS = range(len(PLANNED_OUTCOMES))
OUTCOMES = (
    "none",
    "moved",
    "finished_at_prefill",
    "too_short",
    "unused",  # its KV was ready and was not used
    "load_failed",
    "load_failed_recomputed",
)
(
    NOTHING_MOVED,
    MOVED,
    FINISHED_AT_PREFILL,
    TOO_SHORT,
    KV_UNUSED,
    LOAD_FAILED,
    LOAD_RECOMPUTED,
) = range(len(OUTCOMES))


class ClusterState(NamedTuple):
    """Every array that only the loop reads and writes. R replicas (the store, if any, is the last
    one), n requests of users."""

    clock: Table  # (1,)
    latency: Table  # (R,) latency.LATENCY rows
    event_queue: Table
    loops: Table
    flags: np.ndarray  # (S,) how the items of the current step end: zeros when simulated
    servers: Table  # (R,)
    config: Table  # (1,)
    kv_transfers: Table  # (n,), or (1,) where requests stay where they are sent
    active_transfers: np.ndarray  # (n,) or (1,): requests whose KV is on its way
    forecast: Table  # (1,) a recording.STEP row for the prediction of early rejection

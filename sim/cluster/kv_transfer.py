"""KV transfers from one server to another, over links that concurrent transfers share.

A transfer first takes its setup (latency, and a cost for each descriptor: contiguous ranges of KV,
once for each layer), then its bytes flow. Every server has one link, full duplex; a transfer gets
the smaller of an equal share of its sender's link and of its receiver's. With streaming, bytes
become ready chunk by chunk; a transfer that has sent all that is ready waits."""

import numpy as np

from sim.cluster.cluster_state import ClusterState
from sim.core.compiled import njit_inner
from sim.core.state import State


@njit_inner
def count_contiguous_ranges(state: State, prefill_request: int, r: int, num_tokens: int) -> int:
    """The number of contiguous ranges among the blocks of the last `num_tokens` tokens of the
    prompt of `r`: within a range, block ids increase by one on both servers."""
    source, target = state.requests[prefill_request], state.requests[r]
    block_size = state.policy[target.replica].block_size
    first = (target.load_tokens - num_tokens) // block_size
    blocks = (target.load_tokens + block_size - 1) // block_size
    target_blocks = state.block_table[target.replica, target.slot]
    source_blocks = state.block_table[source.replica, source.slot]
    ranges = 0
    for k in range(first, blocks):
        known = k < source.num_blocks  # a prompt in progress has blocks only for its chunks
        is_contiguous = k > first and target_blocks[k] == target_blocks[k - 1] + 1
        if known and k > first:
            is_contiguous = is_contiguous and source_blocks[k] == source_blocks[k - 1] + 1
        ranges += not is_contiguous
    return ranges


@njit_inner
def start(cluster: ClusterState, r: int, ready: float, unready: float, now_s: float) -> None:
    """Start the transfer of the KV of `r`: `ready` bytes are computed, `unready` are not."""
    clock, config, transfer = cluster.clock[0], cluster.config[0], cluster.kv_transfers[r]
    advance(cluster, now_s)
    transfer.start_s = now_s
    transfer.total_bytes = ready + unready
    transfer.ready_bytes, transfer.unready_bytes = ready, unready
    transfer.setup_s = config.latency_s + transfer.num_descriptors * config.per_descriptor_s
    transfer.rate = 0.0
    cluster.active_transfers[clock.num_active_transfers] = r
    clock.num_active_transfers += 1
    share_links(cluster)


@njit_inner
def add_ready(cluster: ClusterState, r: int, unready: float, now_s: float) -> None:
    """Another chunk of the prompt of `r` is computed; `unready` bytes are still missing."""
    transfer = cluster.kv_transfers[r]
    if unready < transfer.unready_bytes:
        advance(cluster, now_s)
        if transfer.ready_bytes == 0.0 and transfer.setup_s == 0.0:
            transfer.setup_s = cluster.config[0].latency_s
        transfer.ready_bytes += transfer.unready_bytes - unready
        transfer.unready_bytes = unready
        share_links(cluster)


@njit_inner
def advance(cluster: ClusterState, now_s: float) -> None:
    """Count the bytes transferred by `now_s` at the present rates."""
    clock = cluster.clock[0]
    seconds = now_s - clock.transfers_at_s
    for i in range(clock.num_active_transfers):
        transfer = cluster.kv_transfers[cluster.active_transfers[i]]
        if transfer.setup_s > 0.0:
            ends_s = clock.transfers_at_s + transfer.setup_s
            transfer.setup_s = 0.0 if ends_s <= now_s else transfer.setup_s - seconds
        elif transfer.ready_bytes > 0.0:
            ends_s = clock.transfers_at_s + transfer.ready_bytes / transfer.rate
            left = transfer.ready_bytes - transfer.rate * seconds
            transfer.ready_bytes = 0.0 if ends_s <= now_s else left
    clock.transfers_at_s = now_s


@njit_inner
def share_links(cluster: ClusterState) -> None:
    """Share the links again and find when the next transfer changes."""
    clock, config, servers = cluster.clock[0], cluster.config[0], cluster.servers
    for i in range(clock.num_active_transfers):
        transfer = cluster.kv_transfers[cluster.active_transfers[i]]
        servers[transfer.source].num_sending = servers[transfer.target].num_receiving = 0
    for i in range(clock.num_active_transfers):
        transfer = cluster.kv_transfers[cluster.active_transfers[i]]
        if transfer.setup_s == 0.0 and transfer.ready_bytes > 0.0:
            servers[transfer.source].num_sending += 1
            servers[transfer.target].num_receiving += 1
    clock.next_transfer_s = np.inf
    for i in range(clock.num_active_transfers):
        transfer = cluster.kv_transfers[cluster.active_transfers[i]]
        seconds = np.inf
        if transfer.setup_s > 0.0:
            seconds = transfer.setup_s
        elif transfer.ready_bytes > 0.0:
            sharers = servers[transfer.target].num_receiving
            if transfer.source != config.store:  # it is spread over the memory of many machines
                sharers = max(sharers, servers[transfer.source].num_sending)
            transfer.rate = config.bandwidth / sharers
            seconds = transfer.ready_bytes / transfer.rate
        elif transfer.unready_bytes == 0.0:
            seconds = 0.0
        clock.next_transfer_s = min(clock.next_transfer_s, clock.transfers_at_s + seconds)


@njit_inner
def pop_finished(cluster: ClusterState, now_s: float) -> int:
    """Remove a transfer that is complete by `now_s` and return its request. Returns -1 if there is
    none, after sharing the links again."""
    clock = cluster.clock[0]
    advance(cluster, now_s)
    for i in range(clock.num_active_transfers):
        r = cluster.active_transfers[i]
        transfer = cluster.kv_transfers[r]
        if (
            transfer.setup_s == 0.0
            and transfer.ready_bytes == 0.0
            and transfer.unready_bytes == 0.0
        ):
            remove(cluster, r)
            transfer.end_s = now_s
            return r
    share_links(cluster)
    return -1


@njit_inner
def remove(cluster: ClusterState, r: int) -> None:
    """Remove `r` from the list of transfers; the others keep their order."""
    clock, active_transfers = cluster.clock[0], cluster.active_transfers
    place = 0
    while active_transfers[place] != r:
        place += 1
    for k in range(place, clock.num_active_transfers - 1):
        active_transfers[k] = active_transfers[k + 1]
    clock.num_active_transfers -= 1


@njit_inner
def cancel(cluster: ClusterState, r: int, now_s: float) -> None:
    """Cancel the transfer of the KV of `r`; the others share its part of the links."""
    advance(cluster, now_s)
    remove(cluster, r)
    share_links(cluster)

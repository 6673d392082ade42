"""KV on its way from one server to another, over links that concurrent transfers share.

A transfer first takes its setup (latency, and a cost for each descriptor: contiguous pieces of KV,
once for each layer), then its bytes flow. Every server has one link, full duplex; a transfer gets
the smaller of an equal share of its sender's and of its receiver's. With streaming, bytes become
ready chunk by chunk; a transfer that has sent all that is ready waits."""

import numpy as np

from sim.cluster.cluster_state import World
from sim.core.compiled import njit_inner
from sim.core.state import State


@njit_inner
def count_pieces(state: State, leg: int, r: int, num_tokens: int) -> int:
    """Into how many contiguous pieces the last `num_tokens` tokens of the prompt of `r` fall: both
    ends' block ids must go up by one from block to block."""
    giver, taker = state.requests[leg], state.requests[r]
    block_size = state.policy[taker.replica].block_size
    first = (taker.load_tokens - num_tokens) // block_size
    blocks = (taker.load_tokens + block_size - 1) // block_size
    ours = state.block_table[taker.replica, taker.slot]
    theirs = state.block_table[giver.replica, giver.slot]
    pieces = 0
    for k in range(first, blocks):
        known = k < giver.num_blocks  # a prompt being computed has blocks for its chunks alone
        joins = k > first and ours[k] == ours[k - 1] + 1
        if known and k > first:
            joins = joins and theirs[k] == theirs[k - 1] + 1
        pieces += not joins
    return pieces


@njit_inner
def begin(world: World, r: int, ready: float, unready: float, now_s: float) -> None:
    """Start to move the KV of `r`: so many bytes of it are computed, so many are not yet."""
    clock, cluster, journey = world.clock[0], world.cluster[0], world.journeys[r]
    advance(world, now_s)
    journey.start_s = now_s
    journey.total_bytes = ready + unready
    journey.ready_bytes, journey.unready_bytes = ready, unready
    journey.setup_s = cluster.latency_s + journey.num_descriptors * cluster.per_descriptor_s
    journey.rate = 0.0
    world.moving[clock.num_transfers] = r
    clock.num_transfers += 1
    share(world)


@njit_inner
def add_ready(world: World, r: int, unready: float, now_s: float) -> None:
    """A chunk more of the prompt of `r` is computed; `unready` bytes are still to come."""
    journey = world.journeys[r]
    if unready < journey.unready_bytes:
        advance(world, now_s)
        if journey.ready_bytes == 0.0 and journey.setup_s == 0.0:
            journey.setup_s = world.cluster[0].latency_s
        journey.ready_bytes += journey.unready_bytes - unready
        journey.unready_bytes = unready
        share(world)


@njit_inner
def advance(world: World, now_s: float) -> None:
    """Count what has flown by `now_s` at the rates of the moment."""
    clock = world.clock[0]
    seconds = now_s - clock.transfers_at_s
    for i in range(clock.num_transfers):
        journey = world.journeys[world.moving[i]]
        if journey.setup_s > 0.0:
            ends_s = clock.transfers_at_s + journey.setup_s
            journey.setup_s = 0.0 if ends_s <= now_s else journey.setup_s - seconds
        elif journey.ready_bytes > 0.0:
            ends_s = clock.transfers_at_s + journey.ready_bytes / journey.rate
            left = journey.ready_bytes - journey.rate * seconds
            journey.ready_bytes = 0.0 if ends_s <= now_s else left
    clock.transfers_at_s = now_s


@njit_inner
def share(world: World) -> None:
    """Share the links anew and find out when the next transfer gets on."""
    clock, cluster, servers = world.clock[0], world.cluster[0], world.servers
    for i in range(clock.num_transfers):
        journey = world.journeys[world.moving[i]]
        servers[journey.source].num_sending = servers[journey.target].num_receiving = 0
    for i in range(clock.num_transfers):
        journey = world.journeys[world.moving[i]]
        if journey.setup_s == 0.0 and journey.ready_bytes > 0.0:
            servers[journey.source].num_sending += 1
            servers[journey.target].num_receiving += 1
    clock.next_transfer_s = np.inf
    for i in range(clock.num_transfers):
        journey = world.journeys[world.moving[i]]
        seconds = np.inf
        if journey.setup_s > 0.0:
            seconds = journey.setup_s
        elif journey.ready_bytes > 0.0:
            sharers = servers[journey.target].num_receiving
            if journey.source != cluster.store:  # it lies in the memory of many machines
                sharers = max(sharers, servers[journey.source].num_sending)
            journey.rate = cluster.bandwidth / sharers
            seconds = journey.ready_bytes / journey.rate
        elif journey.unready_bytes == 0.0:
            seconds = 0.0
        clock.next_transfer_s = min(clock.next_transfer_s, clock.transfers_at_s + seconds)


@njit_inner
def next_arrived(world: World, now_s: float) -> int:
    """Take out a transfer that is complete by `now_s`; -1 for none, and the links are shared
    anew."""
    clock = world.clock[0]
    advance(world, now_s)
    for i in range(clock.num_transfers):
        r = world.moving[i]
        journey = world.journeys[r]
        if journey.setup_s == 0.0 and journey.ready_bytes == 0.0 and journey.unready_bytes == 0.0:
            remove(world, r)
            journey.end_s = now_s
            return r
    share(world)
    return -1


@njit_inner
def remove(world: World, r: int) -> None:
    """Take `r` out of the list of transfers; the order of the others stays."""
    clock, moving = world.clock[0], world.moving
    place = 0
    while moving[place] != r:
        place += 1
    for k in range(place, clock.num_transfers - 1):
        moving[k] = moving[k + 1]
    clock.num_transfers -= 1


@njit_inner
def cancel(world: World, r: int, now_s: float) -> None:
    """The KV of `r` is not wanted any more; the others share its part of the links."""
    advance(world, now_s)
    remove(world, r)
    share(world)

"""Routers: which server a request is sent to.

A router knows of each server: the number of requests sent there that have not ended, their prompts
and max_tokens, the free blocks, and the prefixes in its cache. Ties go to the lower index."""

import numpy as np

from sim.cluster.cluster_state import (
    FREE_KV,
    PREFIX_AWARE,
    RANDOM,
    ROUND_ROBIN,
    SHORTEST_QUEUE,
    ClusterState,
)
from sim.core import kv_cache as kv
from sim.core.compiled import njit_inner
from sim.core.state import State


@njit_inner
def choose(
    state: State, cluster: ClusterState, r: int, role: int, kind: int, turn: int, pick: float
) -> int:
    """The server of `role` for request `r`. `turn`: how many requests the pool received before;
    `pick`: a random number from 0 to 1."""
    servers, pool, last = cluster.servers, 0, 0
    for k in range(len(servers)):
        if servers[k].role == role:
            pool += 1
            last = k
    if pool == 1:
        return last
    if kind in (ROUND_ROBIN, RANDOM):
        place = turn % pool if kind == ROUND_ROBIN else min(int(pick * pool), pool - 1)
        for k in range(len(servers)):
            if servers[k].role == role:
                if place == 0:
                    return k
                place -= 1
    best, least = last, np.inf
    for k in range(len(servers)):
        if servers[k].role == role:
            load = cost(state, cluster, r, k, kind)
            if load < least:
                best, least = k, load
    return best


@njit_inner
def cost(state: State, cluster: ClusterState, r: int, replica: int, kind: int) -> float:
    """The load of a server as the router sees it; the least loaded one is chosen."""
    server, policy = cluster.servers[replica], state.policy[replica]
    if kind == SHORTEST_QUEUE:
        return float(server.num_unfinished)
    if kind == FREE_KV:
        room = (policy.num_gpu_blocks - 1) * policy.block_size - server.unfinished_prompts
        return -float(min(room, state.counters[replica].num_free_blocks * policy.block_size))
    tokens = float(server.unfinished_tokens)
    if kind == PREFIX_AWARE and policy.enable_prefix_caching:
        tokens -= kv.find_longest_cache_hit(state, replica, r) * policy.block_size
    return tokens


@njit_inner
def request_sent(state: State, cluster: ClusterState, replica: int, r: int) -> None:
    """Request `r` was sent to a server."""
    server, request = cluster.servers[replica], state.requests[r]
    server.num_unfinished += 1
    server.unfinished_tokens += request.num_prompt_tokens + request.max_tokens
    server.unfinished_prompts += request.num_prompt_tokens


@njit_inner
def request_ended(state: State, cluster: ClusterState, replica: int, r: int) -> None:
    """Request `r` has ended there, for any reason."""
    server, request = cluster.servers[replica], state.requests[r]
    server.num_unfinished -= 1
    server.unfinished_tokens -= request.num_prompt_tokens + request.max_tokens
    server.unfinished_prompts -= request.num_prompt_tokens

"""Prefill on one server, decode on another: the path of a request between them.

A proxy turns a user's request into two requests to the engines: a prefill request with
max_tokens = 1 to a prefill server, then the request itself to a decode server, which loads the KV
that the prefill request computed. The prefill request is a row of the request table of its own.

Either server may emit the first token: vLLM with NIXL discards the token of the prefill server; in
DistServe and Splitwise that token is the first one.

Prompts shorter than a block are not transferred (vLLM's NixlConnector up to 0.10; later versions
transfer partial blocks too). The decode server computes them."""

from sim.cluster import kv_transfer, router
from sim.cluster.admission import rejection_reason
from sim.cluster.closed_loop import release_next
from sim.cluster.cluster_state import (
    BUSY,
    DECODE,
    DONE,
    FINISHED_AT_PREFILL,
    HANDED_OVER,
    HANDOVER,
    KV_ARRIVED,
    KV_UNUSED,
    LOAD_FAILED,
    LOAD_FAILS,
    LOAD_RECOMPUTED,
    MOVED,
    MOVING,
    PREFILLING,
    QUEUED,
    TOO_SHORT,
    UNUSED,
    ClusterState,
)
from sim.cluster.event_queue import push_event
from sim.cluster.replica import wake
from sim.core import kv_cache as kv
from sim.core import kv_loading, reasons, waiting_queue
from sim.core import scheduler_ops as ops
from sim.core.compiled import njit_inner
from sim.core.state import State


@njit_inner
def send_to_prefill(
    state: State, cluster: ClusterState, r: int, replica: int, now_s: float
) -> None:
    """Request `r` was accepted: its prefill request joins the queue of a prefill server."""
    config, transfer, request = cluster.config[0], cluster.kv_transfers[r], state.requests[r]
    prefill_request = r + config.num_requests
    request.status = reasons.PREFILLING
    request.replica = replica
    transfer.stage, transfer.source = PREFILLING, replica
    ops.add(state, replica, prefill_request)
    if config.store >= 0:
        hits = kv.find_longest_cache_hit(state, config.store, prefill_request)
        state.requests[prefill_request].load_tokens = hits * state.policy[replica].block_size
    router.request_sent(state, cluster, replica, prefill_request)
    transfer.outcome = transfer_outcome(state, r, replica, transfer.fate)
    if config.streaming and transfer.outcome == MOVED:
        push_event(cluster, now_s + config.handover_s, now_s, r, HANDOVER)


@njit_inner
def transfer_outcome(state: State, r: int, replica: int, fate: int) -> int:
    """The outcome of the KV of `r`: moved, too short, or unused."""
    if state.requests[r].num_prompt_tokens < state.policy[replica].block_size:
        return TOO_SHORT
    return KV_UNUSED if fate == UNUSED else MOVED


@njit_inner
def prefill_finished(state: State, cluster: ClusterState, r: int, now_s: float) -> None:
    """The prefill request of `r` has ended: hand the request over, or end it."""
    config, transfer, request = cluster.config[0], cluster.kv_transfers[r], state.requests[r]
    prefill_request = r + config.num_requests
    served = state.requests[prefill_request]
    router.request_ended(state, cluster, transfer.source, prefill_request)
    transfer.prefill_end_s = now_s
    if served.status != reasons.FINISHED:  # rejected or aborted there
        reject(state, cluster, r, served.rejection, now_s)
        return
    if config.store >= 0:
        save_to_store(state, cluster, r)
    if config.first_token_at_prefill:
        request.num_output_tokens = 1
        request.num_tokens = request.num_prompt_tokens + 1
        request.first_token_s = request.last_token_s = now_s
        limit = state.policy[transfer.source].max_model_len
        if min(request.max_tokens, request.output_len) == 1 or request.num_tokens >= limit:
            finish_at_prefill(state, cluster, r, now_s)
            return
    if transfer.outcome != MOVED:
        free_prefill_request(state, cluster, r, now_s)
    if transfer.stage == PREFILLING and not (config.streaming and transfer.outcome == MOVED):
        transfer.stage = HANDED_OVER
        push_event(cluster, now_s + config.handover_s, now_s, r, HANDOVER)


@njit_inner
def finish_at_prefill(state: State, cluster: ClusterState, r: int, now_s: float) -> None:
    """The request ends with its first token: there is nothing to decode."""
    transfer, request = cluster.kv_transfers[r], state.requests[r]
    abort_decode_request(state, cluster, r, now_s)
    request.finish_reason = reasons.MODEL_LEN
    if request.max_tokens == 1:
        request.finish_reason = reasons.LENGTH
    elif request.output_len == 1:
        request.finish_reason = reasons.STOP
    request.status = reasons.FINISHED
    request.end_s = now_s
    transfer.stage, transfer.outcome = DONE, FINISHED_AT_PREFILL
    free_prefill_request(state, cluster, r, now_s)
    release_next(state, cluster, r, now_s)


@njit_inner
def send_to_decode(state: State, cluster: ClusterState, r: int, now_s: float) -> None:
    """The proxy sends `r` to a decode server, which loads its KV."""
    config, transfer, request = cluster.config[0], cluster.kv_transfers[r], state.requests[r]
    if request.status != reasons.PREFILLING:
        return
    config.next_decode += 1
    turn, kind = config.next_decode - 1, config.decode_router
    target = router.choose(state, cluster, r, DECODE, kind, turn, transfer.decode_pick)
    rejection = rejection_reason(state, target, r)
    if rejection != reasons.NOT_REJECTED:
        if in_running_step(state, cluster, r):
            push_event(cluster, cluster.servers[transfer.source].busy_until_s, now_s, r, HANDOVER)
        else:
            reject(state, cluster, r, rejection, now_s)
        return
    request.load_tokens = request.num_prompt_tokens if transfer.outcome == MOVED else 0
    transfer.target, transfer.stage = target, QUEUED
    ops.add(state, target, r)
    if config.first_token_at_prefill:  # emitted with the KV, unless it was emitted before
        request.num_tokens = request.num_prompt_tokens + 1
    router.request_sent(state, cluster, target, r)
    wake(state, cluster, target, now_s)


@njit_inner
def start_transfers(state: State, cluster: ClusterState, replica: int, now_s: float) -> None:
    """Start the transfers for which blocks were reserved in the step just planned."""
    counters, config = state.counters[replica], cluster.config[0]
    token_bytes = cluster.servers[replica].kv_token_bytes
    for k in range(counters.num_loading - counters.num_reserved, counters.num_loading):
        r = state.loading[replica, k]
        request, transfer = state.requests[r], cluster.kv_transfers[r]
        transfer.num_tokens = request.load_tokens - request.hit_tokens
        transfer.stage, transfer.target = MOVING, replica
        ready = transfer.num_tokens
        if r >= config.num_requests:  # a prefill request: its prefix comes from the store
            transfer.source, transfer.outcome = config.store, MOVED
            pieces = ready // state.policy[replica].block_size
        else:
            prefill_request = r + config.num_requests
            computed = state.requests[prefill_request].num_computed_tokens
            if state.requests[prefill_request].status != reasons.FINISHED:
                ready = max(min(computed, request.load_tokens) - request.hit_tokens, 0)
            pieces = kv_transfer.count_contiguous_ranges(
                state, prefill_request, r, transfer.num_tokens
            )
        transfer.num_descriptors = pieces * config.num_layers
        unready = (transfer.num_tokens - ready) * token_bytes
        kv_transfer.start(cluster, r, ready * token_bytes, unready, now_s)


@njit_inner
def chunk_computed(state: State, cluster: ClusterState, prefill_request: int, now_s: float) -> None:
    """A step computed a chunk of a prefill request: with streaming, its KV can be sent."""
    config = cluster.config[0]
    r = prefill_request - config.num_requests
    transfer, request = cluster.kv_transfers[r], state.requests[r]
    if transfer.stage == MOVING:
        computed = max(state.requests[prefill_request].num_computed_tokens, request.hit_tokens)
        unready = max(request.load_tokens - computed, 0)
        kv_transfer.add_ready(
            cluster, r, unready * cluster.servers[transfer.target].kv_token_bytes, now_s
        )


@njit_inner
def transfer_finished(state: State, cluster: ClusterState, r: int, now_s: float) -> None:
    """The KV of `r` has arrived, or its load fails."""
    transfer, config = cluster.kv_transfers[r], cluster.config[0]
    target, transfer.stage = transfer.target, KV_ARRIVED
    if r >= config.num_requests:
        kv_loading.mark_loaded(state, target, r)
    elif transfer.fate != LOAD_FAILS:
        free_prefill_request(state, cluster, r, now_s)
        kv_loading.mark_loaded(state, target, r)
    elif config.recompute_failed_loads:
        transfer.outcome = LOAD_RECOMPUTED
        free_prefill_request(state, cluster, r, now_s)
        kv_loading.cancel(state, target, r)
        state.requests[r].status = reasons.WAITING
        waiting_queue.put_first(state, target, r)
    else:
        transfer.stage, transfer.outcome = DONE, LOAD_FAILED
        free_prefill_request(state, cluster, r, now_s)
        kv_loading.cancel(state, target, r)
        state.requests[r].status = reasons.FAILED
        state.requests[r].end_s = now_s
        router.request_ended(state, cluster, target, r)
        release_next(state, cluster, r, now_s)
    wake(state, cluster, target, now_s)


@njit_inner
def free_prefill_request(state: State, cluster: ClusterState, r: int, now_s: float) -> None:
    """Free the KV that the prefill server holds for `r`."""
    prefill_request = r + cluster.config[0].num_requests
    source = cluster.kv_transfers[r].source
    if kv.free(state, source, prefill_request) > 0:
        state.counters[source].batch_is_full = 0
        wake(state, cluster, source, now_s)


@njit_inner
def abort_decode_request(state: State, cluster: ClusterState, r: int, now_s: float) -> bool:
    """Abort `r` on its decode server; False if it is not there."""
    transfer = cluster.kv_transfers[r]
    if transfer.stage == MOVING:
        kv_transfer.cancel(cluster, r, now_s)
    if transfer.target < 0 or not ops.abort(state, r, now_s):
        return False
    router.request_ended(state, cluster, transfer.target, r)
    wake(state, cluster, transfer.target, now_s)
    return True


@njit_inner
def reject(state: State, cluster: ClusterState, r: int, rejection: int, now_s: float) -> None:
    """A server rejects `r` after its prompt was sent to another one."""
    request = state.requests[r]
    abort_decode_request(state, cluster, r, now_s)
    abort_prefill_request(state, cluster, r, now_s)
    request.rejection, request.status, request.end_s = rejection, reasons.REJECTED, now_s
    cluster.kv_transfers[r].stage = DONE
    release_next(state, cluster, r, now_s)


@njit_inner
def abort_prefill_request(state: State, cluster: ClusterState, r: int, now_s: float) -> None:
    """The KV of `r` is no longer needed: abort its prefill request, or free its KV."""
    prefill_request = r + cluster.config[0].num_requests
    transfer, fetch = cluster.kv_transfers[r], cluster.kv_transfers[prefill_request]
    if fetch.stage == MOVING:
        kv_transfer.cancel(cluster, prefill_request, now_s)
        fetch.stage = DONE
    if ops.abort(state, prefill_request, now_s):
        router.request_ended(state, cluster, transfer.source, prefill_request)
        wake(state, cluster, transfer.source, now_s)
    else:
        free_prefill_request(state, cluster, r, now_s)


@njit_inner
def in_running_step(state: State, cluster: ClusterState, r: int) -> bool:
    """Whether a running step has `r`, or its prefill request, in it."""
    transfer = cluster.kv_transfers[r]
    prefill_request = r + cluster.config[0].num_requests
    return (
        transfer.source >= 0
        and state.requests[prefill_request].status == reasons.RUNNING
        and cluster.servers[transfer.source].activity == BUSY
    ) or (
        transfer.target >= 0
        and state.requests[r].status == reasons.RUNNING
        and cluster.servers[transfer.target].activity == BUSY
    )


@njit_inner
def abort_request(state: State, cluster: ClusterState, r: int, now_s: float) -> bool:
    """The client of `r` disconnected; False if `r` had ended. It must not be in a running step."""
    request = state.requests[r]
    if request.status == reasons.PREFILLING:
        abort_prefill_request(state, cluster, r, now_s)
        request.status, request.finish_reason = reasons.ABORTED_REQUEST, reasons.ABORT
        request.end_s = now_s
        ops.record_event(state, r, reasons.ABORTED, 0, 0)
    elif abort_decode_request(state, cluster, r, now_s):
        abort_prefill_request(state, cluster, r, now_s)
    else:
        return False
    cluster.kv_transfers[r].stage = DONE
    return True


@njit_inner
def save_to_store(state: State, cluster: ClusterState, r: int) -> None:
    """Put the full blocks of a prompt into the KV store; the least recently used blocks are
    evicted."""
    config = cluster.config[0]
    store, row = config.store, r + 2 * config.num_requests
    block_size = state.policy[store].block_size
    whole = state.requests[r].num_prompt_tokens // block_size * block_size
    hits = kv.find_longest_cache_hit(state, store, row)
    kv.take_slot(state, store, row, hits)
    if kv.allocate_slots(state, store, row, whole):
        kv.cache_full_blocks(state, store, row, whole)
    kv.free(state, store, row)

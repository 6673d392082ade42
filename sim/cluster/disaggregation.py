"""Prefill on one server, decode on another: the way of a request between them.

A request of a user is two requests to the engines, as a proxy sends them: its prefill leg with
max_tokens = 1 to a prefill server, then the request itself, under the same id, to a decode server,
which loads the KV that the leg has left behind. The leg is a row of the request table of its own.

Whose token is the first one is a choice: vLLM with NIXL discards the leg's answer, and the first
token comes from the decode server; in DistServe and Splitwise the leg's token is the first one.

Prompts shorter than a block are not moved (vLLM's NixlConnector up to 0.10; later versions move
partial blocks too), the decode server computes them."""

from sim.cluster import kv_transfer, router
from sim.cluster.admission import refusal, release_next
from sim.cluster.cluster_state import (
    BUSY,
    DECODE,
    FINISHED_AT_PREFILL,
    HANDED_OVER,
    HANDOVER,
    KV_UNUSED,
    LOAD_FAILED,
    LOAD_FAILS,
    LOAD_RECOMPUTED,
    MOVED,
    MOVING,
    OVER,
    PREFILLING,
    QUEUED,
    THERE,
    TOO_SHORT,
    UNUSED,
    World,
)
from sim.cluster.event_queue import set_timer
from sim.cluster.replica import wake
from sim.core import kv_cache as kv
from sim.core import kv_loading, reasons, waiting_queue
from sim.core import scheduler_ops as ops
from sim.core.compiled import njit_inner
from sim.core.state import State


@njit_inner
def send_to_prefill(state: State, world: World, r: int, replica: int, now_s: float) -> None:
    """Request `r` was accepted: its leg joins the queue of a prefill server."""
    cluster, journey, request = world.cluster[0], world.journeys[r], state.requests[r]
    leg = r + cluster.num_requests
    request.status = reasons.PREFILLING
    request.replica = replica
    journey.stage, journey.source = PREFILLING, replica
    ops.add(state, replica, leg)
    if cluster.store >= 0:
        hits = kv.look_up(state, cluster.store, leg)
        state.requests[leg].load_tokens = hits * state.policy[replica].block_size
    router.sent(state, world, replica, leg)
    journey.outcome = what_moves(state, r, replica, journey.fate)
    if cluster.streaming and journey.outcome == MOVED:
        set_timer(world, now_s + cluster.handover_s, now_s, r, HANDOVER)


@njit_inner
def what_moves(state: State, r: int, replica: int, fate: int) -> int:
    """What will become of the KV of `r`: moved, or too short, or never asked for."""
    if state.requests[r].num_prompt_tokens < state.policy[replica].block_size:
        return TOO_SHORT
    return KV_UNUSED if fate == UNUSED else MOVED


@njit_inner
def prefilled(state: State, world: World, r: int, now_s: float) -> None:
    """The leg of `r` has ended at its prefill server: hand the request over, or end it."""
    cluster, journey, request = world.cluster[0], world.journeys[r], state.requests[r]
    leg = r + cluster.num_requests
    served = state.requests[leg]
    router.over(state, world, journey.source, leg)
    journey.prefill_end_s = now_s
    if served.status != reasons.FINISHED:  # dropped by its policy
        refuse(state, world, r, served.rejection, now_s)
        return
    if cluster.store >= 0:
        keep_in_store(state, world, r)
    if cluster.first_token_at_prefill:
        request.num_output_tokens = 1
        request.num_tokens = request.num_prompt_tokens + 1
        request.first_token_s = request.last_token_s = now_s
        limit = state.policy[journey.source].max_model_len
        if min(request.max_tokens, request.output_len) == 1 or request.num_tokens >= limit:
            finish_at_prefill(state, world, r, now_s)
            return
    if journey.outcome != MOVED:
        free_leg(state, world, r, now_s)
    if journey.stage == PREFILLING and not (cluster.streaming and journey.outcome == MOVED):
        journey.stage = HANDED_OVER
        set_timer(world, now_s + cluster.handover_s, now_s, r, HANDOVER)


@njit_inner
def finish_at_prefill(state: State, world: World, r: int, now_s: float) -> None:
    """The first token was the last: nothing is left to decode."""
    journey, request = world.journeys[r], state.requests[r]
    withdraw(state, world, r, now_s)
    request.finish_reason = reasons.MODEL_LEN
    if request.max_tokens == 1:
        request.finish_reason = reasons.LENGTH
    elif request.output_len == 1:
        request.finish_reason = reasons.STOP
    request.status = reasons.FINISHED
    request.end_s = now_s
    journey.stage, journey.outcome = OVER, FINISHED_AT_PREFILL
    free_leg(state, world, r, now_s)
    release_next(state, world, r, now_s)


@njit_inner
def hand_over(state: State, world: World, r: int, now_s: float) -> None:
    """The proxy sends `r` to a decode server, with what it needs to find its KV."""
    cluster, journey, request = world.cluster[0], world.journeys[r], state.requests[r]
    if request.status != reasons.PREFILLING:
        return
    cluster.next_decode += 1
    turn, kind = cluster.next_decode - 1, cluster.decode_router
    target = router.choose(state, world, r, DECODE, kind, turn, journey.decode_pick)
    rejection = refusal(state, target, r)
    if rejection != reasons.NOT_REJECTED:
        if runs_now(state, world, r):
            set_timer(world, world.servers[journey.source].busy_until_s, now_s, r, HANDOVER)
        else:
            refuse(state, world, r, rejection, now_s)
        return
    request.load_tokens = request.num_prompt_tokens if journey.outcome == MOVED else 0
    journey.target, journey.stage = target, QUEUED
    ops.add(state, target, r)
    if cluster.first_token_at_prefill:  # it comes with the KV, where it has not come before
        request.num_tokens = request.num_prompt_tokens + 1
    router.sent(state, world, target, r)
    wake(state, world, target, now_s)


@njit_inner
def start_loads(state: State, world: World, replica: int, now_s: float) -> None:
    """Start to move the KV for which blocks were reserved in the step just planned."""
    counters, cluster = state.counters[replica], world.cluster[0]
    token_bytes = world.servers[replica].kv_token_bytes
    for k in range(counters.num_loading - counters.num_reserved, counters.num_loading):
        r = state.loading[replica, k]
        request, journey = state.requests[r], world.journeys[r]
        journey.num_tokens = request.load_tokens - request.hit_tokens
        journey.stage, journey.target = MOVING, replica
        ready = journey.num_tokens
        if r >= cluster.num_requests:  # a leg: its prefix comes from the store
            journey.source, journey.outcome = cluster.store, MOVED
            pieces = ready // state.policy[replica].block_size
        else:
            leg = r + cluster.num_requests
            computed = state.requests[leg].num_computed_tokens
            if state.requests[leg].status != reasons.FINISHED:
                ready = max(min(computed, request.load_tokens) - request.hit_tokens, 0)
            pieces = kv_transfer.count_pieces(state, leg, r, journey.num_tokens)
        journey.num_descriptors = pieces * cluster.num_layers
        unready = (journey.num_tokens - ready) * token_bytes
        kv_transfer.begin(world, r, ready * token_bytes, unready, now_s)


@njit_inner
def chunk_computed(state: State, world: World, leg: int, now_s: float) -> None:
    """A step has computed a chunk of a leg: with streaming its KV may go."""
    cluster = world.cluster[0]
    r = leg - cluster.num_requests
    journey, request = world.journeys[r], state.requests[r]
    if journey.stage == MOVING:
        computed = max(state.requests[leg].num_computed_tokens, request.hit_tokens)
        unready = max(request.load_tokens - computed, 0)
        kv_transfer.add_ready(
            world, r, unready * world.servers[journey.target].kv_token_bytes, now_s
        )


@njit_inner
def load_ended(state: State, world: World, r: int, now_s: float) -> None:
    """The KV of `r` is there, or what was sent of it is of no use."""
    journey, cluster = world.journeys[r], world.cluster[0]
    target, journey.stage = journey.target, THERE
    if r >= cluster.num_requests:
        kv_loading.arrived(state, target, r)
    elif journey.fate != LOAD_FAILS:
        free_leg(state, world, r, now_s)
        kv_loading.arrived(state, target, r)
    elif cluster.recompute_failed_loads:
        journey.outcome = LOAD_RECOMPUTED
        free_leg(state, world, r, now_s)
        kv_loading.lose(state, target, r)
        state.requests[r].status = reasons.WAITING
        waiting_queue.put_first(state, target, r)
    else:
        journey.stage, journey.outcome = OVER, LOAD_FAILED
        free_leg(state, world, r, now_s)
        kv_loading.lose(state, target, r)
        state.requests[r].status = reasons.FAILED
        state.requests[r].end_s = now_s
        router.over(state, world, target, r)
        release_next(state, world, r, now_s)
    wake(state, world, target, now_s)


@njit_inner
def free_leg(state: State, world: World, r: int, now_s: float) -> None:
    """The prefill server gives up the KV that it has held for `r`."""
    leg = r + world.cluster[0].num_requests
    source = world.journeys[r].source
    if kv.release(state, source, leg) > 0:
        state.counters[source].batch_is_full = 0
        wake(state, world, source, now_s)


@njit_inner
def withdraw(state: State, world: World, r: int, now_s: float) -> bool:
    """Take `r` back from its decode server, if it is there; False if it was not."""
    journey = world.journeys[r]
    if journey.stage == MOVING:
        kv_transfer.cancel(world, r, now_s)
    if journey.target < 0 or not ops.abort(state, r, now_s):
        return False
    router.over(state, world, journey.target, r)
    wake(state, world, journey.target, now_s)
    return True


@njit_inner
def refuse(state: State, world: World, r: int, rejection: int, now_s: float) -> None:
    """A server refuses `r` after its prompt was sent to another one."""
    request = state.requests[r]
    withdraw(state, world, r, now_s)
    stop_prefill(state, world, r, now_s)
    request.rejection, request.status, request.end_s = rejection, reasons.REJECTED, now_s
    world.journeys[r].stage = OVER
    release_next(state, world, r, now_s)


@njit_inner
def stop_prefill(state: State, world: World, r: int, now_s: float) -> None:
    """Nobody wants the KV of `r` any more: its leg stops, or gives it up."""
    leg = r + world.cluster[0].num_requests
    journey, fetch = world.journeys[r], world.journeys[leg]
    if fetch.stage == MOVING:
        kv_transfer.cancel(world, leg, now_s)
        fetch.stage = OVER
    if ops.abort(state, leg, now_s):
        router.over(state, world, journey.source, leg)
        wake(state, world, journey.source, now_s)
    else:
        free_leg(state, world, r, now_s)


@njit_inner
def runs_now(state: State, world: World, r: int) -> bool:
    """Whether a step that is running has `r`, or its leg, in it."""
    journey = world.journeys[r]
    leg = r + world.cluster[0].num_requests
    return (
        journey.source >= 0
        and state.requests[leg].status == reasons.RUNNING
        and world.servers[journey.source].activity == BUSY
    ) or (
        journey.target >= 0
        and state.requests[r].status == reasons.RUNNING
        and world.servers[journey.target].activity == BUSY
    )


@njit_inner
def client_left(state: State, world: World, r: int, now_s: float) -> bool:
    """The client of `r` went away; False if `r` had ended. Nothing of it may be in a running
    step."""
    request = state.requests[r]
    if request.status == reasons.PREFILLING:
        stop_prefill(state, world, r, now_s)
        request.status, request.finish_reason = reasons.ABORTED_REQUEST, reasons.ABORT
        request.end_s = now_s
        ops.note(state, r, reasons.ABORTED, 0, 0)
    elif withdraw(state, world, r, now_s):
        stop_prefill(state, world, r, now_s)
    else:
        return False
    world.journeys[r].stage = OVER
    return True


@njit_inner
def keep_in_store(state: State, world: World, r: int) -> None:
    """Put the whole blocks of a prompt into the KV store; the least recently used make room."""
    cluster = world.cluster[0]
    store, row = cluster.store, r + 2 * cluster.num_requests
    block_size = state.policy[store].block_size
    whole = state.requests[r].num_prompt_tokens // block_size * block_size
    hits = kv.look_up(state, store, row)
    kv.take_slot(state, store, row, hits)
    if kv.grow(state, store, row, whole):
        kv.enter_full_blocks(state, store, row, whole)
    kv.release(state, store, row)

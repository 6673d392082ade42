"""Rules shared by the schedulers of Sarathi-Serve: its own, and its copies of vLLM V0's and Orca's.

All run requests in order of arrival and admit first come, first served, with KV blocks for the
whole prompt (and the tokens it had generated, after a preemption) at once. In a step's batch
prompts come before decodes.

A decode needs one free block, even where its last block has room (vLLM's `can_append_slot`).
Without one the last request to have arrived is preempted, prefilling or not; the decode itself, if
no request is behind it.

Source: microsoft/sarathi-serve @ 96f9911790ec, `sarathi/core/scheduler/base_scheduler.py` and
`sarathi/core/block_space_manager/`. Not modelled: pipeline stages, and two defects: a victim that
generates max_tokens once more, and a victim whose progress is not reset when the step stays empty
or when it is admitted again in the same step. Here a victim restarts cleanly, and a step that
preempts admits no request."""

from sim.core import kv_cache as kv
from sim.core import reasons, waiting_queue
from sim.core import scheduler_ops as ops
from sim.core.compiled import njit_inline, njit_inner
from sim.core.state import State


@njit_inline
def is_decoding(request) -> bool:
    """Whether all tokens known at its admission are computed: each step then emits one."""
    return request.num_tokens > request.context_len


# --- admission -----------------------------------------------------------------------------------


@njit_inner
def first_admissible(state: State, replica: int, limit: int) -> int:
    """The head of the waiting queue, -1 if it is empty. Requests of more than `limit` tokens are
    ignored for good."""
    counters, rejection = state.counters[replica], reasons.REJECT_TOKEN_BUDGET
    if limit == state.policy[replica].max_model_len:
        rejection = reasons.REJECT_MODEL_LEN
    while counters.num_waiting > 0:
        r = waiting_queue.head(state, replica)
        if state.requests[r].num_tokens <= limit:
            return r
        ops.ignore(state, replica, r, rejection, limit)
    return -1


@njit_inner
def refusal_reason(state: State, replica: int, r: int, blocks: int) -> int:
    """The reason why `r` gets no place in the batch with `blocks` blocks, NONE if it does. A
    refusal is recorded."""
    policy, counters = state.policy[replica], state.counters[replica]
    if blocks + policy.watermark_blocks > counters.num_free_blocks:
        needed = blocks + policy.watermark_blocks
        ops.record_refusal(state, r, reasons.REFUSED_KV_BLOCKS, needed, counters.num_free_blocks)
        return reasons.KV_BLOCKS
    if counters.num_running >= policy.max_num_seqs:
        limit = policy.max_num_seqs
        ops.record_refusal(state, r, reasons.REFUSED_MAX_NUM_SEQS, counters.num_running, limit)
        return reasons.MAX_NUM_SEQS
    return reasons.NONE


@njit_inner
def admit(state: State, replica: int, r: int, kv_tokens: int, n: int) -> None:
    """Admit `r` with blocks for `kv_tokens` tokens, and schedule `n` tokens of its prompt."""
    ops.admit(state, replica, r, kv.NO_HITS)
    kv.allocate_slots(state, replica, r, kv_tokens)
    ops.schedule_tokens(state, replica, r, n, state.requests[r].num_tokens)


# --- decodes -------------------------------------------------------------------------------------


@njit_inner
def allocate_decode_blocks(state: State, replica: int) -> int:
    """Allocate a block for every decode, preempting the last to have arrived; returns how many
    requests decode."""
    counters, running = state.counters[replica], state.running[replica]
    num_decodes, i = 0, 0
    while i < counters.num_running:
        request = state.requests[running[i]]
        if is_decoding(request):
            while counters.num_free_blocks == 0 and counters.num_running > i:
                preempt_last(state, replica)
            if counters.num_running == i:
                break
            if request.num_tokens > request.capacity:
                kv.allocate_slots(state, replica, running[i], request.num_tokens)
            num_decodes += 1
        i += 1
    return num_decodes


@njit_inner
def preempt_last(state: State, replica: int) -> None:
    """Preempt the last running request: by swap if its blocks fit in host memory and could be
    swapped in again, else by recompute."""
    policy, counters = state.policy[replica], state.counters[replica]
    last = counters.num_running - 1
    held = state.requests[state.running[replica, last]].num_blocks
    returns = held + 1 + policy.watermark_blocks < policy.num_gpu_blocks
    if held <= counters.num_free_host_blocks and returns and policy.num_host_blocks > 0:
        ops.swap_out(state, replica, last)
    else:
        ops.preempt(state, replica, last)


@njit_inner
def schedule_decodes(state: State, replica: int, num_places: int) -> None:
    """Schedule one token for each decode among the first `num_places` of `running`."""
    running = state.running[replica]
    for i in range(num_places):
        if is_decoding(state.requests[running[i]]):
            ops.schedule_tokens(state, replica, running[i], 1, 1)

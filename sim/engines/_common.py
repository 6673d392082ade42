"""What the schedulers of Sarathi-Serve share, its own and its copies of vLLM V0's and Orca's.

All serve in order of arrival and admit first come, first served, with KV blocks for the whole
prompt (and what it had generated, after a preemption) at once. In a step's batch prompts stand
before decodes.

A decode asks for one free block, even where its last block has room (vLLM's `can_append_slot`);
without one the last to have arrived is preempted, prefilling or not, and the asking one itself when
nobody is left behind it.

Source: microsoft/sarathi-serve @ 96f9911790ec, `sarathi/core/scheduler/base_scheduler.py` and
`sarathi/core/block_space_manager/`. Not modelled: pipeline stages, and two defects: a victim that
generates max_tokens once more, and one whose progress is not reset when the step stays empty or it
is admitted again in the same step. Here a victim restarts cleanly, and nobody is admitted in a step
that preempted somebody.
"""

from sim.core import kv_cache as kv
from sim.core import reasons, waiting_queue
from sim.core import scheduler_ops as ops
from sim.core.compiled import njit_inline, njit_inner
from sim.core.state import State


@njit_inline
def decodes(request) -> bool:
    """Whether all that was known of it at its admission is computed; each step then emits."""
    return request.num_tokens > request.context_len


# --- admission -----------------------------------------------------------------------------------


@njit_inner
def next_in_line(state: State, replica: int, limit: int) -> int:
    """The head of the waiting queue, -1 for nobody. Who has more than `limit` tokens is dropped."""
    counters, why = state.counters[replica], reasons.REJECT_TOKEN_BUDGET
    if limit == state.policy[replica].max_model_len:
        why = reasons.REJECT_MODEL_LEN
    while counters.num_waiting > 0:
        r = waiting_queue.head(state, replica)
        if state.requests[r].num_tokens <= limit:
            return r
        ops.drop(state, replica, r, why, limit)
    return -1


@njit_inner
def lacks_room(state: State, replica: int, r: int, blocks: int) -> int:
    """Why `r` cannot have `blocks` blocks and a place in the batch; QUEUE_EMPTY where it can."""
    policy, counters = state.policy[replica], state.counters[replica]
    if blocks + policy.watermark_blocks > counters.num_free_blocks:
        needed = blocks + policy.watermark_blocks
        ops.note(state, r, reasons.REFUSED_KV_BLOCKS, needed, counters.num_free_blocks)
        return reasons.KV_BLOCKS
    if counters.num_running >= policy.max_num_seqs:
        limit = policy.max_num_seqs
        ops.note(state, r, reasons.REFUSED_MAX_NUM_SEQS, counters.num_running, limit)
        return reasons.MAX_NUM_SEQS
    return reasons.QUEUE_EMPTY


@njit_inner
def admit(state: State, replica: int, r: int, kv_tokens: int, n: int) -> None:
    """`r` joins the batch with blocks for `kv_tokens` tokens, and `n` tokens of its prompt run."""
    ops.admit(state, replica, r, kv.NO_HITS)
    kv.grow(state, replica, r, kv_tokens)
    ops.plan(state, replica, r, n, state.requests[r].num_tokens)


# --- decodes -------------------------------------------------------------------------------------


@njit_inner
def make_room_for_decodes(state: State, replica: int) -> int:
    """Let every decode have its block, the last to have arrived paying; returns how many decode."""
    counters, running = state.counters[replica], state.running[replica]
    num_decodes, i = 0, 0
    while i < counters.num_running:
        request = state.requests[running[i]]
        if decodes(request):
            while counters.num_free_blocks == 0 and counters.num_running > i:
                preempt_last(state, replica)
            if counters.num_running == i:
                break
            if request.num_tokens > request.capacity:
                kv.grow(state, replica, running[i], request.num_tokens)
            num_decodes += 1
        i += 1
    return num_decodes


@njit_inner
def preempt_last(state: State, replica: int) -> None:
    """Preempt the last in line: to host memory where its blocks fit there and could ever come back,
    else by recompute.
    """
    policy, counters = state.policy[replica], state.counters[replica]
    last = counters.num_running - 1
    held = state.requests[state.running[replica, last]].num_blocks
    returns = held + 1 + policy.watermark_blocks < policy.num_gpu_blocks
    if held <= counters.num_free_host_blocks and returns and policy.num_host_blocks > 0:
        ops.swap_out(state, replica, last)
    else:
        ops.preempt(state, replica, last)


@njit_inner
def plan_decodes(state: State, replica: int, num_places: int) -> None:
    """One token for each decode among the first `num_places` of `running`."""
    running = state.running[replica]
    for i in range(num_places):
        if decodes(state.requests[running[i]]):
            ops.plan(state, replica, running[i], 1, 1)

"""Orca: iteration-level scheduling. Requests join and leave the batch at every step.

Each step runs one token of every request that decodes and the whole prompt of every new request
with a free slot; no request waits for a batch to end. A slot is KV memory for max_model_len tokens,
reserved while the request runs, whatever its length. No blocks are shared, so no request is ever
preempted. There is no token budget: a long prompt makes the step long for every request.

Source: Yu et al., OSDI'22; microsoft/sarathi-serve @ 96f9911790ec,
`sarathi/core/scheduler/orca_scheduler.py` and
`sarathi/core/block_space_manager/orca_block_space_manager.py`. Not modelled: Orca's pipeline.
"""

from sim.core import kv_cache as kv
from sim.core import reasons, waiting_queue
from sim.core.compiled import njit_inner
from sim.core.state import State
from sim.engines._common import admit, first_admissible, refusal_reason, schedule_decodes


@njit_inner
def schedule(state: State, replica: int) -> None:
    """Plan one step."""
    counters = state.counters[replica]
    waiting_queue.sort_by_arrival(state, replica)
    num_before = counters.num_running
    counters.stop_reason = fill_slots(state, replica)
    schedule_decodes(state, replica, num_before)


@njit_inner
def fill_slots(state: State, replica: int) -> int:
    """Admit whole prompts while slots and max_num_seqs allow; returns the stop reason."""
    policy = state.policy[replica]
    slot = policy.max_model_len
    while True:
        r = first_admissible(state, replica, policy.max_model_len)
        if r < 0:
            return reasons.QUEUE_EMPTY
        refusal = refusal_reason(state, replica, r, kv.blocks_for(slot, policy.block_size))
        if refusal != reasons.NONE:
            return refusal
        whole = state.requests[r].num_tokens - state.requests[r].num_computed_tokens
        admit(state, replica, r, slot, whole)

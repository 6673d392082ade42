"""vLLM V0: prompts first. A step is either whole prompts or decodes, never both.

While a request can be admitted, the step runs prompts only: as many whole prompts as the token
limit, max_num_seqs and the KV blocks (all but a watermark of 1 %) allow, and every decode waits.
Only when no request can be admitted does every decode get its token.

A victim is recomputed, or swapped: its blocks are copied to host memory and back. While a request
is swapped out no request is admitted. Swapped requests return in the first decode step that
preempts none and leaves one block more than they had above the watermark.

Source: Kwon et al., SOSP'23; microsoft/sarathi-serve @ 96f9911790ec,
`sarathi/core/scheduler/vllm_scheduler.py`, which is vLLM 0.1's rule; the swap from vLLM 0.2,
`vllm/core/scheduler.py` (`_schedule`, `_swap_out`) and `vllm/core/block_manager.py`
(`can_swap_in`). There a full host pool ends the engine; here such a victim is recomputed. Not
modelled: V0's own chunked mode (see sarathi.py), beam search, prefix caching, overlap of a swap
with the layers.
"""

from sim.core import kv_cache as kv
from sim.core import reasons, waiting_queue
from sim.core import scheduler_ops as ops
from sim.core.compiled import njit_inner
from sim.core.state import State
from sim.engines._common import (
    admit,
    allocate_decode_blocks,
    first_admissible,
    refusal_reason,
    schedule_decodes,
)


@njit_inner
def schedule(state: State, replica: int) -> None:
    """Plan one step."""
    counters = state.counters[replica]
    if counters.num_swapped > 0:
        counters.stop_reason = reasons.KV_BLOCKS
    else:
        counters.stop_reason = admit_prompts(state, replica)
        if counters.num_admitted > 0 or counters.num_ended > 0:
            return
    waiting_queue.sort_by_arrival(state, replica)
    allocate_decode_blocks(state, replica)
    if counters.num_preempted > 0:
        counters.stop_reason = reasons.PREEMPTED
    else:
        swap_in(state, replica)
    schedule_decodes(state, replica, counters.num_running)


@njit_inner
def admit_prompts(state: State, replica: int) -> int:
    """Admit whole prompts while tokens, blocks and max_num_seqs allow; returns the stop reason."""
    policy = state.policy[replica]
    left = policy.max_num_batched_tokens
    while True:
        r = first_admissible(
            state, replica, min(policy.max_num_batched_tokens, policy.max_model_len)
        )
        if r < 0:
            return reasons.QUEUE_EMPTY
        request = state.requests[r]
        whole = request.num_tokens - request.num_computed_tokens
        refusal = refusal_reason(state, replica, r, kv.blocks_for(whole, policy.block_size))
        if refusal != reasons.NONE:
            return refusal
        if whole > left:
            ops.record_refusal(state, r, reasons.REFUSED_WHOLE_PROMPT, whole, left)
            return reasons.WHOLE_PROMPT if left > 0 else reasons.BUDGET
        admit(state, replica, r, whole, whole)
        left -= whole


@njit_inner
def swap_in(state: State, replica: int) -> None:
    """Swap in by order of arrival, each request with a block to spare above the watermark."""
    counters = state.counters[replica]
    while counters.num_swapped > 0:
        r = state.swapped[replica, counters.num_swapped - 1]
        blocks = state.requests[r].num_host_blocks + 1
        refusal = refusal_reason(state, replica, r, blocks)
        if refusal != reasons.NONE:
            counters.stop_reason = refusal
            return
        ops.swap_in(state, replica)
        if state.requests[r].num_tokens > state.requests[r].capacity:
            kv.allocate_slots(state, replica, r, state.requests[r].num_tokens)

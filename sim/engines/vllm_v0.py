"""vLLM V0: prompts first. A step is either whole prompts or decodes, never both.

While anybody can be admitted, the step is theirs alone: as many whole prompts as the token limit,
max_num_seqs and the KV blocks allow, all but a watermark of 1 %, and every decode waits. Only when
nobody can be admitted do all decodes get their token.

A victim is recomputed, or swapped: its blocks are copied to host memory and back. While somebody
is swapped out nobody is admitted; the swapped return in the first decode step that preempts nobody
and leaves one block more than they had above the watermark.

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
    lacks_room,
    make_room_for_decodes,
    next_in_line,
    plan_decodes,
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
    make_room_for_decodes(state, replica)
    if counters.num_preempted > 0:
        counters.stop_reason = reasons.PREEMPTED
    else:
        swap_in(state, replica)
    plan_decodes(state, replica, counters.num_running)


@njit_inner
def admit_prompts(state: State, replica: int) -> int:
    """Whole prompts while tokens, blocks and max_num_seqs last; returns why no more."""
    policy = state.policy[replica]
    left = policy.max_num_batched_tokens
    while True:
        r = next_in_line(state, replica, min(policy.max_num_batched_tokens, policy.max_model_len))
        if r < 0:
            return reasons.QUEUE_EMPTY
        request = state.requests[r]
        whole = request.num_tokens - request.num_computed_tokens
        lacking = lacks_room(state, replica, r, kv.blocks_for(whole, policy.block_size))
        if lacking != reasons.QUEUE_EMPTY:
            return lacking
        if whole > left:
            ops.note(state, r, reasons.REFUSED_WHOLE_PROMPT, whole, left)
            return reasons.WHOLE_PROMPT if left > 0 else reasons.BUDGET
        admit(state, replica, r, whole, whole)
        left -= whole


@njit_inner
def swap_in(state: State, replica: int) -> None:
    """The swapped return in order of arrival, each with a block to spare above the watermark."""
    counters = state.counters[replica]
    while counters.num_swapped > 0:
        r = state.swapped[replica, counters.num_swapped - 1]
        blocks = state.requests[r].num_host_blocks + 1
        lacking = lacks_room(state, replica, r, blocks)
        if lacking != reasons.QUEUE_EMPTY:
            counters.stop_reason = lacking
            return
        ops.swap_in(state, replica)
        if state.requests[r].num_tokens > state.requests[r].capacity:
            kv.grow(state, replica, r, state.requests[r].num_tokens)

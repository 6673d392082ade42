"""Sarathi-Serve: prompts are cut into chunks, so that no step stalls the decodes.

Every step has a budget of `chunk_size` tokens. All decodes are in it. The rest goes to prompts in
progress in order of arrival, then to new prompts. Prompts piggyback on the decodes, and no step
takes longer than a full chunk.

A dynamic schedule makes chunks smaller towards the end of a prompt, since later tokens attend to
more: sizes fall from `high` to `low` in `stages` steps.

Source: Agrawal et al., OSDI'24; microsoft/sarathi-serve @ 96f9911790ec,
`sarathi/core/scheduler/sarathi_scheduler.py`. If the smaller chunk of a late stage is already used
up, the prompt gets no tokens; upstream fails an assertion."""

import math

from sim.core import kv_cache as kv
from sim.core import reasons, waiting_queue
from sim.core import scheduler_ops as ops
from sim.core.compiled import njit_inline, njit_inner
from sim.core.state import State
from sim.engines._common import (
    admit,
    allocate_decode_blocks,
    first_admissible,
    is_decoding,
    refusal_reason,
    schedule_decodes,
)


@njit_inner
def schedule(state: State, replica: int) -> None:
    """Plan one step."""
    counters = state.counters[replica]
    waiting_queue.sort_by_arrival(state, replica)
    used = allocate_decode_blocks(state, replica)
    num_before = counters.num_running
    used = continue_prompts(state, replica, used)
    if counters.num_preempted > 0:
        counters.stop_reason = reasons.PREEMPTED
    else:
        counters.stop_reason = admit_prompts(state, replica, used)
    schedule_decodes(state, replica, num_before)


@njit_inner
def continue_prompts(state: State, replica: int, used: int) -> int:
    """Schedule the next chunk of each prompt in progress; returns the tokens used."""
    running, counters = state.running[replica], state.counters[replica]
    for i in range(counters.num_running):
        r = running[i]
        request = state.requests[r]
        if is_decoding(request):
            continue
        needed = request.num_tokens - request.num_computed_tokens
        left = chunk_size(state.policy[replica], request.num_computed_tokens) - used
        n = min(needed, left)
        if n < needed:
            counters.stop_reason = reasons.BUDGET
        if n > 0:
            ops.schedule_tokens(state, replica, r, n, needed)
            used += n
        else:
            ops.record_refusal(state, r, reasons.REFUSED_BUDGET, needed, max(left, 0))
    return used


@njit_inner
def admit_prompts(state: State, replica: int, used: int) -> int:
    """Admit new prompts while the chunk, blocks and max_num_seqs allow; returns the stop reason, if
    any."""
    policy, counters = state.policy[replica], state.counters[replica]
    while True:
        r = first_admissible(state, replica, policy.max_model_len)
        if r < 0:
            return counters.stop_reason
        request = state.requests[r]
        whole = request.num_tokens - request.num_computed_tokens
        refusal = refusal_reason(state, replica, r, kv.blocks_for(whole, policy.block_size))
        if refusal != reasons.NONE:
            return refusal
        start = 0
        n = min(whole, chunk_size(policy, start) - used)
        if n <= 0:
            ops.record_refusal(state, r, reasons.REFUSED_BUDGET, whole, 0)
            return reasons.BUDGET
        if n < whole:
            counters.stop_reason = reasons.BUDGET
        admit(state, replica, r, whole, n)
        used += n


@njit_inline
def chunk_size(policy, position: int) -> int:
    """The token budget of a step in which a prompt continues at `position`."""
    if policy.dynamic_stages == 0:
        return policy.max_num_batched_tokens
    low, high, stages = policy.dynamic_low, policy.dynamic_high, policy.dynamic_stages
    stage = min(position // policy.dynamic_stage_tokens, stages - 1)
    size = low
    if stages > 1:
        # as numpy.linspace(low, high, stages, dtype=int) read backwards
        size = math.floor((stages - 1 - stage) * ((high - low) / (stages - 1)) + low)
        if stage == 0:
            size = high
    unit = min(low, 32)
    return round(size / unit) * unit

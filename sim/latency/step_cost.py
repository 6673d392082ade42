"""The cost of a scheduled step: what a latency model reads, as columns of its STEP row."""

from sim.core import reasons
from sim.core.compiled import njit, njit_inner
from sim.core.state import State


@njit
def measure_step(state: State, replica: int, step) -> None:
    """Fill in the columns. A decode is one token of a request that has emitted before."""
    prefill_tokens = decodes = chunks = sampled = 0
    decode_context = prefill_context = 0
    pairs = 0.0
    for i in range(state.counters[replica].num_scheduled):
        item = state.scheduled[replica, i]
        n, start = item.num_tokens, item.num_computed_tokens
        sampled += n == item.num_needed
        if item.num_needed == 1 and state.requests[item.request].num_output_tokens > 0:
            decodes += 1
            decode_context += start + 1
        else:
            chunks += 1
            prefill_tokens += n
            prefill_context += start + n
            pairs += n * (start + 0.5 * n)
    step.num_prefill_tokens, step.num_decodes = prefill_tokens, decodes
    step.num_chunks, step.num_sampled = chunks, sampled
    step.decode_context, step.prefill_context = decode_context, prefill_context
    step.prefill_pairs = pairs
    step.num_padding_tokens = step.num_padding_rows = 0
    step.swapped_out_blocks = state.counters[replica].swapped_out_blocks
    step.swapped_in_blocks = state.counters[replica].swapped_in_blocks
    if state.policy[replica].hold_finished:
        pad_load(state, replica, step)


@njit_inner
def pad_load(state: State, replica: int, step) -> None:
    """A static batch computes a rectangle: every member, finished or not, is as long as the
    longest."""
    members, running = state.counters[replica].num_running, state.running[replica]
    if members == 0:
        return
    longest = outputs = live = 0
    for i in range(members):
        request = state.requests[running[i]]
        longest = max(longest, request.num_prompt_tokens)
        outputs = max(outputs, request.num_output_tokens)
        live += request.status == reasons.RUNNING
    step.num_padding_rows = members - live
    step.num_sampled = members
    if outputs == 0:
        step.num_padding_tokens = members * longest - step.num_prefill_tokens
        step.num_prefill_tokens = step.prefill_context = members * longest
        step.num_chunks = members
        step.prefill_pairs = members * (0.5 * longest * longest)
    else:
        step.num_padding_tokens = members - live
        step.num_decodes = members
        step.decode_context = members * (longest + outputs)

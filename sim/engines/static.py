"""Static batching: a batch runs to its end before the next one starts.

The batch is the longest stretch of the queue whose padded KV fits: n members, each as long as the
longest prompt and the longest output asked for. All prompts run in one step, padded to the longest;
then every step computes one token for every member, finished or not, until the last member has
finished. All leave together. The next batch is formed of the requests that have arrived by then.

The waste is counted: padding of the prompts, and tokens computed for members that have finished.
Live members are scheduled with their real tokens; the cost of a step is that of the padded batch.

Source: the textbook rule (Hugging Face `generate`, FasterTransformer without in-flight batching),
as the recorded `static_padded` cases define it. Not modelled: how a real server waits to fill a
batch."""

from sim.core import kv_cache as kv
from sim.core import reasons, waiting_queue
from sim.core import scheduler_ops as ops
from sim.core.compiled import njit_inner
from sim.core.state import State


@njit_inner
def schedule(state: State, replica: int) -> None:
    """Plan one step."""
    counters = state.counters[replica]
    if counters.num_running == 0:
        counters.stop_reason = form_batch(state, replica)
    else:
        next_tokens(state, replica)


@njit_inner
def form_batch(state: State, replica: int) -> int:
    """Admit the longest stretch of the queue that fits, whole prompts only; returns the stop
    reason."""
    policy, counters, requests = state.policy[replica], state.counters[replica], state.requests
    length = longest_prompt = longest_output = 0
    r, stop = counters.first_waiting, reasons.QUEUE_EMPTY
    while r >= 0:
        request = requests[r]
        if counters.num_admitted == policy.max_num_seqs:
            stop = reasons.MAX_BATCH_SIZE
            members = counters.num_admitted
            ops.record_refusal(state, r, reasons.REFUSED_MAX_NUM_SEQS, members, policy.max_num_seqs)
            break
        longest_prompt = max(longest_prompt, request.num_prompt_tokens)
        output = min(request.max_tokens, policy.max_model_len - request.num_prompt_tokens)
        longest_output = max(longest_output, output)
        padded = longest_prompt + longest_output
        rows = counters.num_admitted + 1
        blocks = rows * kv.blocks_for(padded, policy.block_size)
        if blocks > policy.num_gpu_blocks - 1:
            stop = reasons.KV_BLOCKS
            ops.record_refusal(
                state, r, reasons.REFUSED_KV_BLOCKS, blocks, policy.num_gpu_blocks - 1
            )
            break
        length = padded
        ops.admit(state, replica, r, kv.NO_HITS)
        ops.schedule_tokens(state, replica, r, request.num_prompt_tokens, request.num_prompt_tokens)
        r = counters.first_waiting
    for i in range(counters.num_running):
        kv.allocate_slots(state, replica, state.running[replica, i], length)
    return stop


@njit_inner
def next_tokens(state: State, replica: int) -> None:
    """Schedule one token for each live member; no request joins."""
    counters, running = state.counters[replica], state.running[replica]
    for i in range(counters.num_running):
        if state.requests[running[i]].status == reasons.RUNNING:
            ops.schedule_tokens(state, replica, running[i], 1, 1)
    if counters.num_waiting > 0:
        r = waiting_queue.head(state, replica)
        live, members = counters.num_scheduled, counters.num_running
        ops.record_refusal(state, r, reasons.REFUSED_CLOSED_BATCH, live, members)
        counters.stop_reason = reasons.MAX_BATCH_SIZE

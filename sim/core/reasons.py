"""The codes that explain a step, shared by all engines.

A kernel records the integer with the step; it is never inferred afterwards. A code is the index
into its tuple: ``STOP_REASONS[BUDGET] == "budget"``."""

# Why a step did no more than it did. One per step.
STOP_REASONS = (
    "queue_empty",  # every known request was fully served
    "budget",  # the token budget of the step is spent
    "chunk_cap",  # budget left over, but a per-request cap cut a chunk
    "kv_blocks",  # the next request in line does not get its KV blocks
    "max_num_seqs",  # the most requests that may run are running
    "max_batch_size",  # the same limit in TensorRT-LLM and static batching, or a batch
    # that admits no request until its members are done
    "whole_prompt",  # a prompt that may not be split exceeds the remaining budget
    "preempted",  # a request was preempted in this step, so none is admitted
)
(
    QUEUE_EMPTY,
    BUDGET,
    CHUNK_CAP,
    KV_BLOCKS,
    MAX_NUM_SEQS,
    MAX_BATCH_SIZE,
    WHOLE_PROMPT,
    PREEMPTED,
) = range(len(STOP_REASONS))
NONE = -1  # no reason to stop: nothing is refused

# What happened to one request in one step, apart from scheduled tokens. ``value`` and ``limit`` of
# an event are the numbers in the rule; their meaning follows each kind.
EVENTS = (
    "admitted",  # first admission; value = prefix-hit tokens, limit = 0
    "resumed",  # admission after a preemption; value = prefix-hit tokens, limit = 0
    "preempted",  # value = computed tokens lost, limit = blocks given back
    "unscheduled",  # a preempted request had tokens in this step; value = those tokens
    "aborted",  # value = computed tokens lost
    "refused_budget",  # value = tokens it wanted, limit = tokens left
    "refused_kv_blocks",  # value = free blocks it would have needed, limit = free blocks
    "refused_full_prompt",  # the full-prompt gate; value and limit as above
    "refused_max_num_seqs",  # value = requests running, limit = how many may run
    "refused_whole_prompt",  # value = tokens of the prompt, limit = tokens left
    "refused_preempted",  # the step ended with a preemption; value = tokens it wanted, limit = 0
    "stuck_at_max_model_len",  # the clamp to max_model_len leaves it nothing to compute
    "swapped_out",  # preempted to host memory; value = computed tokens kept, limit = blocks moved
    "swapped_in",  # back from host memory; value and limit as above
    "ignored",  # dropped from the queue for ever; value = tokens to compute, limit = most allowed
    "refused_closed_batch",  # a batch runs to its end first; value = live members, limit = members
    "loading_kv",  # blocks reserved for KV from elsewhere; value = tokens to come, limit = blocks
    "kv_loaded",  # runs with KV from elsewhere; value = tokens computed there, limit = 0
    "refused_slots",  # no more may wait for KV from elsewhere; value = how many do
)
(
    ADMITTED,
    RESUMED,
    PREEMPTION,
    UNSCHEDULED,
    ABORTED,
    REFUSED_BUDGET,
    REFUSED_KV_BLOCKS,
    REFUSED_FULL_PROMPT,
    REFUSED_MAX_NUM_SEQS,
    REFUSED_WHOLE_PROMPT,
    REFUSED_PREEMPTED,
    STUCK_AT_MAX_MODEL_LEN,
    SWAPPED_OUT,
    SWAPPED_IN,
    IGNORED,
    REFUSED_CLOSED_BATCH,
    LOADING_KV,
    KV_LOADED,
    REFUSED_SLOTS,
) = range(len(EVENTS))

# The status of a request, and after its end the reason.
STATUSES = (
    "expected",
    "waiting",
    "running",
    "preempted",
    "finished",
    "aborted",
    "rejected",
    "swapped",  # preempted, its KV in host memory
    "prefilling",  # its prompt is computed by a prefill server, or is about to be handed over
    "loading",  # its blocks are reserved, its KV is on its way (vLLM: WAITING_FOR_REMOTE_KVS)
    "loaded",  # its KV has arrived, it waits for a step
    "failed",  # its KV was lost on the way
)
(
    EXPECTED,
    WAITING,
    RUNNING,
    PREEMPTED_WAITING,
    FINISHED,
    ABORTED_REQUEST,
    REJECTED,
    SWAPPED,
    PREFILLING,
    LOADING,
    LOADED,
    FAILED,
) = range(len(STATUSES))

FINISH_REASONS = ("none", "length", "stop", "max_model_len", "abort")
NOT_FINISHED, LENGTH, STOP, MODEL_LEN, ABORT = range(len(FINISH_REASONS))

# Why a front end rejects a request before a scheduler sees it, or a scheduler drops it.
REJECTIONS = (
    "none",
    "prompt_reaches_max_model_len",
    "prompt_exceeds_kv_pool",
    "prompt_exceeds_token_budget",  # it may not be split, and no step has room for it
    "request_exceeds_kv_pool",  # prompt + max_tokens: the engine reserves for both
    "slo_out_of_reach",  # early rejection: it is predicted to miss its SLO
)
(
    NOT_REJECTED,
    REJECT_MODEL_LEN,
    REJECT_KV_POOL,
    REJECT_TOKEN_BUDGET,
    REJECT_REQUEST_KV,
    REJECT_SLO,
) = range(len(REJECTIONS))

# How a run ends.
RUN_STATUSES = ("running", "finished", "stalled", "bounded", "cancelled")
RUN_RUNNING, RUN_FINISHED, RUN_STALLED, RUN_BOUNDED, RUN_CANCELLED = range(len(RUN_STATUSES))

"""The sentences in which a step explains itself: templates, filled in by Python and by the
browser."""

# kind: (chip, colour of the chip, sentence). {request} is the request's label, {a} {b} {c} are the
# numbers of the fact, {budget} and {cap} the limits of the run; **...** is set bold. Their order is
# the value of the kind, and the order in which a step tells its facts.
SENTENCES = {
    "chunk": (
        "{request}",
        "prefill",
        "{a} = min({b} still to compute, {c} left of {budget}, cap {cap})",
    ),
    "chunk_completes": (
        "{request}",
        "prefill",
        "{a} = min({b} still to compute, {c} left of {budget}, cap {cap}); "
        "nothing more is to compute, so this step also emits a token",
    ),
    "chunk_clamped": ("{request}", "prefill", "{a} of {b} tokens still to compute"),
    "hit": ("{request}", "cached", "{a} tokens found in the prefix cache, not computed again"),
    "resumed": ("{request}", "preempted", "back after a preemption; {a} tokens found in the cache"),
    "preempted": (
        "{request}",
        "preempted",
        "**preempted**: {a} computed tokens lost, {b} KV blocks given back",
    ),
    "unscheduled": (
        "{request}",
        "preempted",
        "{a} tokens taken out of this very step and returned to the budget",
    ),
    "aborted": ("{request}", "muted", "**aborted** by its client: {a} computed tokens lost"),
    "stuck": ("{request}", "stall", "nothing left to compute below max_model_len: it hangs"),
    "stop_queue_empty": (
        "stopped by",
        "muted",
        "**nothing left to do**: every request was served, {a} of {budget} tokens unused",
    ),
    "stop_budget": (
        "stopped by",
        "muted",
        "**budget spent**: {request} waits, {a} of {budget} tokens left",
    ),
    "stop_budget_cut": (
        "stopped by",
        "muted",
        "**budget spent**: {request} has {b} tokens still to compute, {a} of {budget} left",
    ),
    "stop_budget_cut_new": (  # the same, of a request admitted in this very step
        "stopped by",
        "muted",
        "**budget spent**: {request} has {b} tokens still to compute, {a} of {budget} left",
    ),
    "stop_budget_plain": ("stopped by", "muted", "**budget spent**: {a} of {budget} tokens left"),
    "stop_chunk_cap": (
        "stopped by",
        "muted",
        "**cap per request**: {request} may take {cap} per step, {a} of {budget} tokens unused",
    ),
    "stop_chunk_cap_new": (
        "stopped by",
        "muted",
        "**cap per request**: {request} may take {cap} per step, {a} of {budget} tokens unused",
    ),
    "stop_kv_blocks": (
        "stopped by",
        "muted",
        "**KV blocks**: {request} needs {a} free blocks, there are {b}",
    ),
    "stop_full_prompt": (
        "stopped by",
        "muted",
        "**KV blocks**: the whole prompt of {request} needs {a} free blocks, there are {b}",
    ),
    "stop_max_num_seqs": (
        "stopped by",
        "muted",
        "**max_num_seqs**: {a} of {b} requests run, {request} waits",
    ),
    "stop_max_batch_size": (
        "stopped by",
        "muted",
        "**max_batch_size**: {a} of {b} requests run, {request} waits",
    ),
    "stop_whole_prompt": (
        "stopped by",
        "muted",
        "**whole prompts only**: {request} needs {a} tokens in one step, {b} of {budget} are left",
    ),
    "stop_preempted": (
        "stopped by",
        "muted",
        "**a preemption**: no request is admitted in a step that preempts, {request} waits",
    ),
    "stop_preempted_plain": (
        "stopped by",
        "muted",
        "**a preemption**: no request is admitted in a step that preempts",
    ),
    "stop_plain": ("stopped by", "muted", "**{reason}**"),
}

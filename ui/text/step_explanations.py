"""The sentences in which a step explains itself: templates, filled in by Python and by the
browser."""

# kind: (chip, colour of the chip, sentence). {who} is the request's label, {a} {b} {c} the numbers
# of the fact, {budget} and {cap} the limits of the run; **...** is set bold. Order is the value of
# the kind and the order in which a step tells its facts.
SENTENCES = {
    "chunk": (
        "{who}",
        "prefill",
        "{a} = min({b} still to compute, {c} left of {budget}, cap {cap})",
    ),
    "chunk_completes": (
        "{who}",
        "prefill",
        "{a} = min({b} still to compute, {c} left of {budget}, cap {cap}); "
        "nothing more is to compute, so this step also emits a token",
    ),
    "chunk_clamped": ("{who}", "prefill", "{a} of {b} tokens still to compute"),
    "hit": ("{who}", "cached", "{a} tokens found in the prefix cache, not computed again"),
    "resumed": ("{who}", "preempted", "back after a preemption; {a} tokens found in the cache"),
    "preempted": (
        "{who}",
        "preempted",
        "**preempted**: {a} computed tokens lost, {b} KV blocks given back",
    ),
    "unscheduled": (
        "{who}",
        "preempted",
        "{a} tokens taken out of this very step and returned to the budget",
    ),
    "aborted": ("{who}", "muted", "**aborted** by its client: {a} computed tokens lost"),
    "stuck": ("{who}", "stall", "nothing left to compute below max_model_len: it hangs"),
    "stop_queue_empty": (
        "stopped by",
        "muted",
        "**nothing left to do**: everyone was served, {a} of {budget} tokens unused",
    ),
    "stop_budget": (
        "stopped by",
        "muted",
        "**budget spent**: {who} waits, {a} of {budget} tokens left",
    ),
    "stop_budget_cut": (
        "stopped by",
        "muted",
        "**budget spent**: {who} has {b} tokens still to compute, {a} of {budget} left",
    ),
    "stop_budget_cut_new": (  # the same, of a request admitted in this very step
        "stopped by",
        "muted",
        "**budget spent**: {who} has {b} tokens still to compute, {a} of {budget} left",
    ),
    "stop_budget_plain": ("stopped by", "muted", "**budget spent**: {a} of {budget} tokens left"),
    "stop_chunk_cap": (
        "stopped by",
        "muted",
        "**cap per request**: {who} may take {cap} a step, {a} of {budget} tokens unused",
    ),
    "stop_chunk_cap_new": (
        "stopped by",
        "muted",
        "**cap per request**: {who} may take {cap} a step, {a} of {budget} tokens unused",
    ),
    "stop_kv_blocks": (
        "stopped by",
        "muted",
        "**KV blocks**: {who} needs {a} free blocks, there are {b}",
    ),
    "stop_full_prompt": (
        "stopped by",
        "muted",
        "**KV blocks**: the whole prompt of {who} needs {a} free blocks, there are {b}",
    ),
    "stop_max_num_seqs": (
        "stopped by",
        "muted",
        "**max_num_seqs**: {a} of {b} requests run, {who} waits",
    ),
    "stop_max_batch_size": (
        "stopped by",
        "muted",
        "**max_batch_size**: {a} of {b} requests run, {who} waits",
    ),
    "stop_whole_prompt": (
        "stopped by",
        "muted",
        "**whole prompts only**: {who} needs {a} tokens in one step, {b} of {budget} are left",
    ),
    "stop_preempted": (
        "stopped by",
        "muted",
        "**a preemption**: nobody is admitted in a step that preempts, {who} waits",
    ),
    "stop_preempted_plain": (
        "stopped by",
        "muted",
        "**a preemption**: nobody is admitted in a step that preempts",
    ),
    "stop_plain": ("stopped by", "muted", "**{reason}**"),
}

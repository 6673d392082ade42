"""Rejected requests in words: how many, which limit, the numbers on both sides, what to change."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from sim.core import reasons
from sim.core.recording import Recording
from sim.core.requests import Table
from sim.scenario.load import Resolved
from sim.scenario.resolve import ResolvedReplica

__all__ = ["rejection_sentences"]


def rejection_sentences(recording: Recording, resolved: Resolved) -> tuple[str, ...]:
    """One sentence per limit and kind of replica, in the words of the replica's engine; empty where
    no request was rejected."""
    rejected = recording.requests[recording.requests.status == reasons.REJECTED]
    found: dict[str, int] = {}
    for replica, reason, rows in by_limit(rejected):
        server = resolved.replicas[min(replica, len(resolved.replicas) - 1)]
        text = server.knobs.in_its_words(sentence(server, reason, rows))
        found[text] = found.get(text, 0) + len(rows)
    return tuple(f"{n:,} of {len(recording.requests):,} {text}" for text, n in found.items())


def by_limit(rejected: Table) -> Iterator[tuple[int, int, Table]]:
    """(replica, reason, its requests) for every pair that occurs."""
    pairs = np.unique(np.column_stack([rejected.replica, rejected.rejection]), axis=0)
    for replica, reason in pairs.tolist():
        yield (
            replica,
            reason,
            rejected[(rejected.replica == replica) & (rejected.rejection == reason)],
        )


def sentence(server: ResolvedReplica, reason: int, rows: Table) -> str:
    """What the requests exceed and what lets them in; sizes are tokens or KV blocks."""
    row, longest = server.row, int(rows.num_prompt_tokens.max())
    prompts = f"requests rejected: prompts of up to {longest:,} tokens"
    if reason == reasons.REJECT_MODEL_LEN:
        length = int(row.max_model_len)
        return (
            f"{prompts} leave no room for an output in max_model_len ({length:,}); raise "
            f"max_model_len above {longest:,} or send shorter prompts"
        )
    if reason == reasons.REJECT_TOKEN_BUDGET:
        budget = int(row.max_prompt_len) or min(
            int(row.max_num_batched_tokens), int(row.max_model_len)
        )
        return (
            f"{prompts} do not fit whole in max_num_batched_tokens ({budget:,}), and this engine "
            f"does not split them; raise max_num_batched_tokens to at least {longest:,} or send "
            "shorter prompts"
        )
    if reason == reasons.REJECT_KV_POOL:
        return f"{prompts} {pool_limit(row, longest)}"
    if reason == reasons.REJECT_REQUEST_KV:
        whole = int((rows.num_prompt_tokens + rows.max_tokens).max())
        return (
            f"requests rejected: prompt plus max_tokens is up to {whole:,} tokens, and the KV of "
            f"one request is limited to {int(row.max_request_len):,}; raise the KV memory or lower "
            "max_tokens"
        )
    return (
        "requests rejected early: they were not expected to meet the SLO; raise its limits, lower "
        "the load, or add servers"
    )


def pool_limit(row: Any, longest: int) -> str:
    """How the KV pool is too small for a prompt of `longest` tokens."""
    size = int(row.block_size)
    usable = int(row.num_gpu_blocks) - 1
    if row.watermark_always:
        usable -= int(row.watermark_blocks)
    return (
        f"need {-(-longest // size):,} KV blocks of {size} tokens and the pool has {usable:,}; use "
        "more KV memory (a larger gpu_memory_utilization, tp or GPU) or send shorter prompts"
    )

"""Rejected requests in words: how many, which limit, the numbers on both sides, what to change."""

from collections.abc import Callable, Iterator
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
        server = rejecting_server(resolved, replica, reason)
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


def rejecting_server(resolved: Resolved, replica: int, reason: int) -> ResolvedReplica:
    """The server whose limit a request exceeds. A request that a prefill server was sent may be
    rejected by a decode server, which the recording does not name: the one with the lower limit."""
    servers = resolved.replicas
    first = servers[min(replica, len(servers) - 1)]
    others = [s for s in servers if s.replica.role == "decode" and s is not first]
    if first.replica.role != "prefill" or reason not in LIMITS:
        return first
    return min((first, *others), key=lambda server: LIMITS[reason](server.row))


def usable_blocks(row: Any) -> int:
    """Blocks that one prompt may take."""
    usable = int(row.num_gpu_blocks) - 1
    return usable - int(row.watermark_blocks) if row.watermark_always else usable


LIMITS: dict[int, Callable[[Any], int]] = {
    reasons.REJECT_MODEL_LEN: lambda row: int(row.max_model_len),
    reasons.REJECT_KV_POOL: lambda row: usable_blocks(row) * int(row.block_size),
}


def sentence(server: ResolvedReplica, reason: int, rows: Table) -> str:
    """Which limit the requests exceed and what to change; sizes are tokens or KV blocks."""
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
    size, usable = int(row.block_size), usable_blocks(row)
    needs = f"{-(-longest // size):,} KV blocks of {size} tokens and the pool has {usable:,}"
    if size == 1:
        needs = f"KV memory for {longest:,} tokens and the pool has {usable:,}"
    return (
        f"need {needs}; use more KV memory (a larger gpu_memory_utilization, tp or GPU) or send "
        "shorter prompts"
    )

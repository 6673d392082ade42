"""A replay as packed bytes for the block map: what changed from step to step. NumPy in, bytes
out."""

import numpy as np

from sim import reasons
from ui.memory.replay import FREE, Replay
from ui.timeline.packet import smallest, write
from ui.units import count

Line = tuple[str, str, str]  # chip, tone, words


def pack(replay: Replay) -> bytes:
    """The packet: block changes, block tables, the steps' times, what happened in words."""
    steps, policy = replay.trace.steps[: replay.num_steps], replay.resolved.policy[0]
    header = {
        "num_blocks": replay.kinds.shape[1],
        "block_size": int(policy.block_size),
        "watermark": int(policy.watermark_blocks),
        "gate": bool(policy.scheduler_reserve_full_isl),
        "labels": [replay.workload.label(r)[:40] for r in range(len(replay.trace.requests))],
        "lines": lines(replay),
        "first": most_telling(replay),
    }
    return write({"lanes": [header], "texts": [], "reasons": []}, arrays(replay, steps))


def arrays(replay: Replay, steps: np.recarray) -> dict[str, np.ndarray]:
    found = {
        "0.start": steps.start_s.astype(np.float32),
        "0.duration": steps.duration_s.astype(np.float32),
        "0.prefill": smallest(steps.num_prefill_tokens),
        "0.decodes": smallest(steps.num_decodes),
        "0.waiting": smallest(steps.num_waiting),
    }
    kinds, owners = replay.kinds, replay.owners
    before = np.vstack([np.full((1, kinds.shape[1]), FREE, kinds.dtype), kinds[:-1]])
    owned = np.vstack([np.full((1, kinds.shape[1]), -1, owners.dtype), owners[:-1]])
    step, block = np.nonzero((kinds != before) | (owners != owned))
    found |= {
        "0.change_step": smallest(step),
        "0.change_block": smallest(block),
        "0.change_kind": kinds[step, block],
        "0.change_owner": smallest(owners[step, block] + 1),
    }
    flat = [
        (held.step, held.request, held.position, k, block)
        for held in replay.held
        for k, block in enumerate(held.blocks or (-1,))
    ]
    table = np.array(flat, np.int64).reshape(-1, 5)
    return found | {
        "0.table_step": smallest(table[:, 0]),
        "0.table_request": smallest(table[:, 1]),
        "0.table_position": smallest(table[:, 2] + table[:, 3]),
        "0.table_block": smallest(table[:, 4] + 1),  # 0: gave all back
    }


def most_telling(replay: Replay) -> int:
    """The step to open at: the first preemption, else the fullest."""
    lost = np.flatnonzero(replay.trace.steps.num_preempted[: replay.num_steps])
    if len(lost):
        return int(lost[0])
    return int(np.argmax((replay.kinds != FREE).sum(axis=1))) if replay.num_steps else 0


def lines(replay: Replay) -> list[list[Line]]:
    """What each step did to memory, in words, with the numbers of the rule."""
    found: list[list[Line]] = [[] for _ in range(replay.num_steps)]
    for event in replay.trace.events:
        if 0 <= event.step < replay.num_steps:
            told = told_of(replay, event)
            if told is not None:
                found[event.step].append(told)
    for step in sorted({step for step, _ in replay.evictions}):
        gone = [block for at, block in replay.evictions if at == step]
        which = ", ".join(map(str, gone[:8])) + (" …" if len(gone) > 8 else "")
        many = f"blocks {which}" if len(gone) > 1 else f"block {which}"
        whose = "their" if len(gone) > 1 else "its"
        words = f"{many}: unused for longest, {whose} content is forgotten to make room"
        found[step].append(("evicted", "cached", words))
    return found


def told_of(replay: Replay, event: np.record) -> Line | None:
    """One event as chip, tone and words; None for those that are not about memory."""
    name = replay.workload.label(int(event.request))
    value, limit = count(int(event.value)), count(int(event.limit))
    prompt = int(replay.trace.requests[event.request].prompt_len)
    size = int(replay.resolved.policy[0].block_size)
    watermark = int(replay.resolved.policy[0].watermark_blocks)
    kept = f", {count(watermark)} of them kept back by the watermark" if watermark else ""
    whole = count(-(-prompt // size))
    hits = f", {value} tokens found in the cache" if event.value else ""
    texts: dict[int, Line] = {
        reasons.ADMITTED: ("admitted", "decode", f"{name}: its prompt needs {whole} blocks{hits}"),
        reasons.RESUMED: (
            "resumed",
            "decode",
            f"{name} comes back and computes everything again"
            + (f" but {value} tokens found in the cache: mostly its own" if event.value else ""),
        ),
        reasons.PREEMPTION: (
            "preempted",
            "preempted",
            f"{name} is the victim: the last in line. {value} computed tokens are lost, "
            f"{limit} blocks come free",
        ),
        reasons.REFUSED_KV_BLOCKS: (
            "no blocks",
            "stall",
            f"{name} needs {value} free blocks, {limit} are free{kept}",
        ),
        reasons.REFUSED_FULL_PROMPT: (
            "gate",
            "stall",
            f"{name} stays out: its whole prompt needs {value} free blocks, {limit} are free{kept}",
        ),
        reasons.SWAPPED_OUT: ("swapped out", "preempted", f"{name}: {limit} blocks go to the host"),
        reasons.SWAPPED_IN: ("swapped in", "decode", f"{name}: {limit} blocks come back"),
    }
    return texts.get(int(event.kind))

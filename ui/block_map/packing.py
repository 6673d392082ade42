"""A replay of KV memory as packed bytes: what changed in each step, and what it did in words.
NumPy in, bytes out."""

from dataclasses import dataclass

import numpy as np

from sim.core import reasons
from ui.block_map.replay import BLOCK_STATES, FREE, NO_HASH, Replay
from ui.text.units import count
from ui.timeline.packet import smallest, write

Line = tuple[str, str, str]  # chip, tone, words


@dataclass(frozen=True)
class Words:
    """An engine's rules in words: what decides over admission, which request is preempted, and
    whether a request gets a slot for the longest one, whatever it needs."""

    admission: str
    victim: str
    has_slots: bool = False


def pack(replay: Replay, words: Words, prefixes_open: bool = False) -> bytes:
    """The packet: block changes, block tables, hashes, the steps' times, what happened in words.
    `prefixes_open`: hash chains and radix tree are shown at first."""
    steps, policy = replay.recording.steps[: replay.num_steps], replay.resolved.policy[0]
    ids = {NO_HASH: 0} | {value: k for k, value in enumerate(replay.parents, start=1)}
    watermark = int(policy.watermark_blocks)
    kept = (
        f" {count(watermark)} block{'s' if watermark > 1 else ''} kept back." if watermark else ""
    )
    header = {
        "num_blocks": replay.kinds.shape[1],
        "block_size": int(policy.block_size),
        "rules": words.admission + kept,
        "labels": [replay.workload.label(r)[:40] for r in range(len(replay.recording.requests))],
        "lines": lines(replay, words),
        "lost": lost(replay),
        "first": most_telling(replay),
        "hashes": [short(value) for value in replay.parents],
        "parents": [ids[parent] for parent in replay.parents.values()],
        "found": found_blocks(replay),
        "open": prefixes_open,
    }
    tables = {"texts": [], "reasons": [], "names": {"change_state": BLOCK_STATES}}
    return write(tables | {"lanes": [header]}, arrays(replay, steps, ids))


def arrays(replay: Replay, steps: np.recarray, ids: dict[int, int]) -> dict[str, np.ndarray]:
    found = {
        "0.start": steps.start_s.astype(np.float32),
        "0.duration": steps.duration_s.astype(np.float32),
        "0.prefill": smallest(steps.num_prefill_tokens),
        "0.decodes": smallest(steps.num_decodes),
        "0.waiting": smallest(steps.num_waiting),
    }
    kinds, owners = replay.kinds, replay.owners
    # a hash that was in no request's chain is not drawn
    hashes = np.array([ids.get(int(value), 0) for value in replay.hashes.flat], np.int64)
    hashes = hashes.reshape(kinds.shape)
    step, block = np.nonzero(changed(kinds, FREE) | changed(owners, -1) | changed(hashes, 0))
    found |= {
        "0.change_step": smallest(step),
        "0.change_block": smallest(block),
        "0.change_state": kinds[step, block],
        "0.change_owner": smallest(owners[step, block] + 1),
        "0.change_hash": smallest(hashes[step, block]),
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


def changed(values: np.ndarray, at_first: int) -> np.ndarray:
    """Where a step differs from the one before it."""
    before = np.vstack([np.full((1, values.shape[1]), at_first, values.dtype), values[:-1]])
    differs: np.ndarray = values != before
    return differs


def lost(replay: Replay) -> list[list[int]]:
    """The requests that lost all blocks in each step."""
    found: list[list[int]] = [[] for _ in range(replay.num_steps)]
    for event in replay.recording.events:
        if event.kind == reasons.PREEMPTION and 0 <= event.step < replay.num_steps:
            found[event.step].append(int(event.request))
    return found


def found_blocks(replay: Replay) -> list[tuple[int, int, int]]:
    """(step, request, blocks): what each request found in the cache when it was let in."""
    size = int(replay.resolved.policy[0].block_size)
    return [
        (int(event.step), int(event.request), int(event.value) // size)
        for event in replay.recording.events
        if event.kind in (reasons.ADMITTED, reasons.RESUMED) and event.value > 0
    ]


def most_telling(replay: Replay) -> int:
    """The step to open at: the first preemption, else the fullest."""
    lost = np.flatnonzero(replay.recording.steps.num_preempted[: replay.num_steps])
    if len(lost):
        return int(lost[0])
    return int(np.argmax((replay.kinds != FREE).sum(axis=1))) if replay.num_steps else 0


def lines(replay: Replay, words: Words) -> list[list[Line]]:
    """What each step did to memory, in words, with the numbers of the rule."""
    found: list[list[Line]] = [[] for _ in range(replay.num_steps)]
    for event in replay.recording.events:
        if 0 <= event.step < replay.num_steps:
            told = told_of(replay, event, words)
            if told is not None:
                found[event.step].append(told)
    for step in sorted({step for step, _ in replay.evictions}):
        gone = [block for at, block in replay.evictions if at == step]
        which = ", ".join(map(str, gone[:8])) + (" …" if len(gone) > 8 else "")
        many = f"blocks {which}" if len(gone) > 1 else f"block {which}"
        whose = "their" if len(gone) > 1 else "its"
        text = f"{many}: unused for longest, {whose} content is dropped to make room"
        found[step].append(("evicted", "cached", text))
    return found


def told_of(replay: Replay, event: np.record, words: Words) -> Line | None:
    """One event as chip, tone and words; None for those that are not about memory."""
    name = replay.workload.label(int(event.request))
    value, limit = count(int(event.value)), count(int(event.limit))
    prompt = int(replay.recording.requests[event.request].num_prompt_tokens)
    size = int(replay.resolved.policy[0].block_size)
    watermark = int(replay.resolved.policy[0].watermark_blocks)
    kept = f", {count(watermark)} of them kept back by the watermark" if watermark else ""
    whole = count(-(-prompt // size))
    needs = f"its prompt needs {whole} blocks"
    if words.has_slots:
        slot = -(-int(replay.resolved.policy[0].max_model_len) // size)
        needs = f"it gets a slot of {count(slot)} blocks, its prompt needs {whole}"
    hits = f", {value} tokens found in the cache" if event.value else ""
    texts: dict[int, Line] = {
        reasons.ADMITTED: ("admitted", "decode", f"{name}: {needs}{hits}"),
        reasons.RESUMED: (
            "resumed",
            "decode",
            f"{name} comes back and computes everything again"
            + (f" but {value} tokens found in the cache: mostly its own" if event.value else ""),
        ),
        reasons.PREEMPTION: (
            "preempted",
            "preempted",
            f"{name} is the victim: {words.victim}. {value} computed tokens are lost, "
            f"{limit} blocks are freed",
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


def short(value: int) -> str:
    """The last four hex digits of a hash."""
    return f"{value & 0xFFFF:04x}"

"""Prefix caching from a replay, in words; the browser draws its chains and its tree."""

from ui.memory.replay import Replay
from ui.units import count


def short(value: int) -> str:
    """The last four hex digits of a hash."""
    return f"{value & 0xFFFF:04x}"


def sentence(replay: Replay) -> str:
    """What the cache saved, and what it never gives."""
    requests = replay.recording.requests
    size = int(replay.resolved.policy[0].block_size)
    hits, prompts = int(requests.hit_tokens.sum()), int(requests.num_prompt_tokens.sum())
    return (
        f":orange[**{count(hits)} of {count(prompts)} prompt tokens**] were found in the cache: "
        f"whole blocks of {size} only, and never the last token of a prompt, which must be "
        f"computed to know the next one. Blocks that nobody holds stay until somebody needs the "
        f"room; the one unused for longest goes first: {count(len(replay.evictions))} evictions "
        "here."
    )

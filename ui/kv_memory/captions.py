"""What the page says of its runs. Pure functions."""

from sim.scenario.load import Scenario
from ui.block_map.replay import Replay
from ui.kv_memory.engines import PREEMPTION, Rules
from ui.scenarios.settings import vllm_v1
from ui.text.units import count, seconds


def end_s(found: Replay) -> float:
    last = found.recording.steps[-1]
    return float(last.start_s + last.duration_s)


def lost(found: Replay) -> tuple[int, int]:
    """Preemptions, and tokens computed a second time."""
    requests = found.recording.requests
    return int(requests.num_preemptions.sum()), int(requests.recomputed_tokens.sum())


def memory_sentence(found: Replay, rules: Rules) -> str:
    """How full it gets and what that costs."""
    blocks = found.kinds.shape[1]
    peak = found.recording.peak_kv_blocks
    times, tokens = lost(found)
    full = f"At most {count(peak)} of {count(blocks)} blocks are held"
    if not times:
        hits = int(found.recording.requests.hit_tokens.sum())
        again = f"; {count(hits)} prompt tokens were found in the cache" if hits else ""
        return f"{full}, {'so' if peak < blocks else 'yet'} no request is preempted{again}."
    plural = "s" if times > 1 else ""
    out = f"{full}: memory runs out :orange[**{times} time{plural}**], "
    if rules.value(PREEMPTION) == "swap":
        moved = int(found.recording.steps.swapped_out_blocks.sum())
        return (
            f"{out}{rules.spec.victim} goes to the host, :orange[**{count(moved)} blocks**] in all."
        )
    return (
        f"{out}{rules.spec.victim} loses its blocks, and :orange[**{count(tokens)} tokens**] are "
        "computed again."
    )


def gate_sentence(off: Replay, on: Replay, gate: bool) -> str:
    """The thrash and its cure, in numbers."""
    times, tokens = lost(off)
    cured, again = lost(on)
    now = "on" if gate else "off"
    return (
        f"Without the full-prompt gate a prompt is admitted as soon as its first chunk fits, and "
        f"preempted at the next: :orange[**{count(times)} preemptions**], "
        f":orange[**{count(tokens)} tokens**] computed again, done after {seconds(end_s(off))}. "
        f"With it: :green[**{count(cured)} preemptions**], {count(again)} tokens again, "
        f":green[**{seconds(end_s(on))}**]. Shown: gate {now}."
    )


def prefix_sentence(replay: Replay) -> str:
    """What the cache saved, and what it never gives."""
    requests = replay.recording.requests
    size = int(replay.resolved.policy[0].block_size)
    hits, prompts = int(requests.hit_tokens.sum()), int(requests.num_prompt_tokens.sum())
    return (
        f":orange[**{count(hits)} of {count(prompts)} prompt tokens**] were found in the cache: "
        f"whole blocks of {size} only, and never the last token of a prompt, which must be "
        f"computed to know the next one. Blocks that no request holds stay cached until "
        f"their space is needed; the one unused for longest is evicted first: "
        f"{count(len(replay.evictions))} evictions here."
    )


def promise_note(base: Scenario) -> str:
    """The workload and the memory behind the table."""
    spec, policy = (base.workload.classes or ())[0], vllm_v1(base.replicas[0].policy)
    tokens = ((policy.num_gpu_blocks or 1) - 1) * policy.block_size
    return (
        f"{count(spec.count)} requests at once, 128 prompt and 64 output tokens each, "
        f"{count(tokens)} tokens of KV memory. No-evict reserves prompt + max_tokens for each "
        "request that it admits; max-utilization and vLLM V1 reserve nothing and preempt when "
        "blocks run out."
    )

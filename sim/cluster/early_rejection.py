"""Early rejection: a request that would miss its limits is turned away before anything is computed.

Source: Mooncake (FAST'25), overload-oriented scheduling."""

from sim.cluster import router
from sim.cluster.cluster_state import DECODE, SHORTEST_QUEUE, World
from sim.core.compiled import njit_inner
from sim.core.state import State
from sim.latency.model import step_seconds


@njit_inner
def out_of_reach(state: State, world: World, r: int, replica: int) -> bool:
    """Early rejection: would `r` miss its limits, as far as the load of the moment tells?

    Time to the first token: all prompts ahead of it and its own, in full steps, then the transfer
    and a decode step. Gaps: a decode step of the emptiest decode server with `r` in it. Source:
    Mooncake (FAST'25) section on overload-oriented scheduling; it predicts the decode load at the
    time when the prefill ends, here it is the load of now."""
    cluster, step = world.cluster[0], world.forecast[0]
    num_prompt_tokens = state.requests[r].num_prompt_tokens
    target = router.choose(state, world, r, DECODE, SHORTEST_QUEUE, 0, 0.0)
    step.num_prefill_tokens = step.num_chunks = step.prefill_context = 0
    step.prefill_pairs = 0.0
    step.num_decodes = step.num_sampled = world.servers[target].num_unfinished + 1
    step.decode_context = world.servers[target].unfinished_prompts + num_prompt_tokens
    gap_s = step_seconds(world.latency[target], step)
    tokens = world.servers[replica].unfinished_prompts + num_prompt_tokens
    chunk = min(tokens, state.policy[replica].max_num_batched_tokens)
    step.num_decodes = step.decode_context = 0
    step.num_prefill_tokens = step.prefill_context = chunk
    step.num_chunks = step.num_sampled = 1
    step.prefill_pairs = 0.5 * chunk * chunk
    ttft_s = step_seconds(world.latency[replica], step) * tokens / chunk
    if not cluster.first_token_at_prefill:
        num_bytes = num_prompt_tokens * world.servers[replica].kv_token_bytes
        ttft_s += cluster.handover_s + cluster.latency_s + num_bytes / cluster.bandwidth + gap_s
    return ttft_s > cluster.slo_ttft_s or gap_s > cluster.slo_gap_s

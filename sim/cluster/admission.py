"""What a front end decides before a scheduler sees a request: whether it can run, and, with early
rejection, whether it can meet its SLO."""

from sim.cluster import router
from sim.cluster.cluster_state import DECODE, SHORTEST_QUEUE, ClusterState
from sim.core import kv_cache as kv
from sim.core import reasons
from sim.core.compiled import njit_inner
from sim.core.state import State
from sim.latency.model import step_seconds


@njit_inner
def rejection_reason(state: State, replica: int, r: int) -> int:
    """The reason why `r` can never run on a replica, NOT_REJECTED if it can. A limit of 0 is
    off."""
    request, policy = state.requests[r], state.policy[replica]
    usable = policy.num_gpu_blocks - 1
    if policy.watermark_always:
        usable -= policy.watermark_blocks
    most_outputs = min(request.max_tokens, policy.max_model_len - request.num_prompt_tokens)
    if request.num_prompt_tokens >= policy.max_model_len:
        return reasons.REJECT_MODEL_LEN
    if 0 < policy.max_prompt_len < request.num_prompt_tokens:
        return reasons.REJECT_TOKEN_BUDGET
    if kv.blocks_for(request.num_prompt_tokens, policy.block_size) > usable:
        return reasons.REJECT_KV_POOL
    if 0 < policy.max_request_len < request.num_prompt_tokens + most_outputs:
        return reasons.REJECT_REQUEST_KV
    return reasons.NOT_REJECTED


@njit_inner
def slo_unreachable(state: State, cluster: ClusterState, r: int, replica: int) -> bool:
    """Early rejection: whether `r` is predicted to miss its SLO, from the present load.

    TTFT: all prompts before it and its own, in full steps, then the transfer and a decode step.
    ITL: a decode step of the least loaded decode server with `r` in it. Source: Mooncake (FAST'25),
    overload-oriented scheduling; Mooncake predicts the decode load at the end of the prefill; here
    it is the present load."""
    config, step = cluster.config[0], cluster.forecast[0]
    num_prompt_tokens = state.requests[r].num_prompt_tokens
    target = router.choose(state, cluster, r, DECODE, SHORTEST_QUEUE, 0, 0.0)
    step.num_prefill_tokens = step.num_chunks = step.prefill_context = 0
    step.prefill_pairs = 0.0
    step.num_decodes = step.num_sampled = cluster.servers[target].num_unfinished + 1
    step.decode_context = cluster.servers[target].unfinished_prompts + num_prompt_tokens
    gap_s = step_seconds(cluster.latency[target], step)
    tokens = cluster.servers[replica].unfinished_prompts + num_prompt_tokens
    chunk = min(tokens, state.policy[replica].max_num_batched_tokens)
    step.num_decodes = step.decode_context = 0
    step.num_prefill_tokens = step.prefill_context = chunk
    step.num_chunks = step.num_sampled = 1
    step.prefill_pairs = 0.5 * chunk * chunk
    ttft_s = step_seconds(cluster.latency[replica], step) * tokens / chunk
    if not config.first_token_at_prefill:
        num_bytes = num_prompt_tokens * cluster.servers[replica].kv_token_bytes
        ttft_s += config.handover_s + config.latency_s + num_bytes / config.bandwidth + gap_s
    return ttft_s > config.slo_ttft_s or gap_s > config.slo_gap_s

"""What a front end does before a scheduler sees a request, and a closed loop after it has ended."""

from sim.cluster.cluster_state import ARRIVAL, World
from sim.cluster.event_queue import set_timer
from sim.core import kv_cache as kv
from sim.core import reasons
from sim.core.compiled import njit_inner
from sim.core.state import State


@njit_inner
def refusal(state: State, replica: int, r: int) -> int:
    """Why `r` can never run there, NOT_REJECTED if it can. Limits of 0 are off."""
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
def release_next(state: State, world: World, r: int, now_s: float) -> None:
    """In a closed loop the user whose request `r` ended thinks, then sends the next one."""
    if state.requests[r].loop < 0:
        return
    loop = world.loops[state.requests[r].loop]
    if loop.next < loop.end:
        arrival_s = now_s + loop.think_s
        state.requests[loop.next].arrival_s = arrival_s
        set_timer(world, arrival_s, arrival_s, loop.next, ARRIVAL)
        loop.next += 1

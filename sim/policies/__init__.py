"""The policies, one file an engine. A new one is its file and one line here.
 A policy answers two questions: who may have KV memory, and who gets tokens of this step's budget.
It sees requests, KV blocks and its own knobs; never a clock, a GPU or a page."""

from sim import moves
from sim.compiled import njit
from sim.policies import vllm_v1
from sim.state import State

POLICIES = ("vllm_v1",)
(VLLM_V1,) = range(len(POLICIES))


@njit
def schedule(state: State, replica: int) -> None:
    """Plan one step of a replica: `plan`, `counters.num_planned` and `counters.stop_reason` are its
    answer.

    The choice by number, in one place, is what lets compiled code be cached: a function passed as
    an argument never is."""
    moves.begin_step(state, replica)
    if state.policy[replica].engine == VLLM_V1:
        vllm_v1.schedule(state, replica)

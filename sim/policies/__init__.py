"""The policies, one file an engine. A new one is its file and one line here.
 A policy answers two questions: who may have KV memory, and who gets tokens of this step's budget.
It sees requests, KV blocks and its own knobs; never a clock, a GPU or a page."""

from sim import moves
from sim.compiled import njit
from sim.policies import orca, sarathi, sglang, static, tensorrt_llm, vllm_v0, vllm_v1
from sim.state import State

POLICIES = (
    "vllm_v1",
    "tensorrt_llm",
    "static",
    "orca",
    "vllm_v0",
    "sarathi",
    "sglang",
)
(
    VLLM_V1,
    TENSORRT_LLM,
    STATIC,
    ORCA,
    VLLM_V0,
    SARATHI,
    SGLANG,
) = range(len(POLICIES))


@njit
def schedule(state: State, replica: int) -> None:
    """Plan one step of a replica: `plan`, `counters.num_planned` and `counters.stop_reason` are its
    answer.

    The choice by number, in one place, is what lets compiled code be cached: a function passed as
    an argument never is."""
    moves.begin_step(state, replica)
    engine = state.policy[replica].engine
    if engine == VLLM_V1:
        vllm_v1.schedule(state, replica)
    elif engine == TENSORRT_LLM:
        tensorrt_llm.schedule(state, replica)
    elif engine == STATIC:
        static.schedule(state, replica)
    elif engine == ORCA:
        orca.schedule(state, replica)
    elif engine == VLLM_V0:
        vllm_v0.schedule(state, replica)
    elif engine == SARATHI:
        sarathi.schedule(state, replica)
    elif engine == SGLANG:
        sglang.schedule(state, replica)

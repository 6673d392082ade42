"""The policies, one file an engine. A new one is its file and one line here.

A policy answers two questions: who may have KV memory, and who gets tokens of this step's budget.
It sees requests, KV blocks and its own knobs; never a clock, a GPU or a page."""

from collections.abc import Iterable

from sim.core import scheduler_ops as ops
from sim.core.compiled import njit, njit_inner
from sim.core.state import State
from sim.engines import orca, sarathi, sglang, static, tensorrt_llm, vllm_v0, vllm_v1

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


ANY = ()


def only(engine: int) -> tuple[int, ...]:
    """What tells `schedule_for` at compile time that every replica runs this engine."""
    return (0,) * (engine + 1)


def used(engines: Iterable[int]) -> tuple[int, ...]:
    """The same for a table of replicas: ANY where they do not all run one engine."""
    kinds = {int(engine) for engine in engines}
    return only(kinds.pop()) if len(kinds) == 1 else ANY


@njit
def schedule(state: State, replica: int) -> None:
    """Plan one step of a replica into `plan`, `counters.num_scheduled`, `counters.stop_reason`."""
    schedule_for(state, replica, ANY)


@njit_inner
def schedule_for(state: State, replica: int, engines: tuple[int, ...]) -> None:
    """The same, compiled for one engine alone when `engines` is `only(engine)`.

    The choice by number, in one place, is what lets compiled code be cached: a function passed as
    an argument never is. The length of a tuple is known to the compiler, which leaves out the
    branches that cannot be taken: a loop over one engine compiles in a third of the time."""
    ops.begin_step(state, replica)
    engine = state.policy[replica].engine
    if (len(engines) == 0 or len(engines) == 1) and engine == VLLM_V1:
        vllm_v1.schedule(state, replica)
    elif (len(engines) == 0 or len(engines) == 2) and engine == TENSORRT_LLM:
        tensorrt_llm.schedule(state, replica)
    elif (len(engines) == 0 or len(engines) == 3) and engine == STATIC:
        static.schedule(state, replica)
    elif (len(engines) == 0 or len(engines) == 4) and engine == ORCA:
        orca.schedule(state, replica)
    elif (len(engines) == 0 or len(engines) == 5) and engine == VLLM_V0:
        vllm_v0.schedule(state, replica)
    elif (len(engines) == 0 or len(engines) == 6) and engine == SARATHI:
        sarathi.schedule(state, replica)
    elif (len(engines) == 0 or len(engines) == 7) and engine == SGLANG:
        sglang.schedule(state, replica)

"""The loop of the real engine: the scheduler and clock of the simulator, steps executed by PyTorch.

    while cluster.next_step(...) == PLANNED:          arrivals, aborts, schedule()
        executed = executor.execute(...)              prepare, forward, sample
        cluster.finish_step(..., executed.seconds)    complete(), on one virtual clock

The clock advances by the measured duration of each step, and arrivals follow it: idle time is
skipped, and a simulation of the same workload is comparable step by step. At the end of a run,
after a limit, a cancel or an error, all blocks are freed.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_backend.device import OutOfMemory
from gpu_backend.engine.executor import Executor, StepOutput
from gpu_backend.engine.request_inputs import RequestInputs
from gpu_backend.engine.step_timer import STEP_TIME, OtherProcesses, contamination
from sim.cluster import loop, simulator
from sim.cluster.cluster_state import ClusterState
from sim.core import reasons
from sim.core import scheduler_ops as ops
from sim.core.recording import Recording
from sim.core.requests import Table
from sim.core.state import State, records
from sim.engines import dispatch
from sim.latency.model import LATENCY

__all__ = ["Cancelled", "RunOutput", "serve"]

LIVE = (reasons.RUNNING, reasons.WAITING, reasons.PREEMPTED_WAITING, reasons.SWAPPED)


class Cancelled(Exception):
    """Raised inside a step to stop it. `status`: "cancelled", or "bounded" when time is up."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, eq=False)
class RunOutput:
    """The result of a real run. `recording.status` is its status; `error` describes a failure.
    times: STEP_TIME rows, one per finished step. outputs: generated token ids per request."""

    recording: Recording
    times: NDArray[np.void]
    outputs: tuple[tuple[int, ...], ...]
    error: str | None
    contaminated_why: str | None
    free_blocks: int

    @property
    def contaminated(self) -> bool:
        return self.contaminated_why is not None


def serve(
    inputs: RequestInputs,
    policy: Table,
    executor: Executor,
    *,
    loop_think_s: tuple[float, ...] = (),
    limits: simulator.Limits = simulator.NO_LIMITS,
    cancelled: Callable[[], bool] = lambda: False,
    on_step: Callable[[State, StepOutput], None] = lambda state, executed: None,
) -> RunOutput:
    """Serve all requests under one policy row. Out of memory or a crash during the run does not
    raise: it ends the run with `error` set.

    cancelled: polled before every layer; on_step: called when the tokens of a step are on the host,
    with the state after `complete`. limits.deadline_s: wall seconds of the whole run."""
    state, cluster = simulator.prepare(
        inputs.requests.copy(),
        inputs.runs.copy(),
        policy,
        records(1, LATENCY),
        loop_think_s=loop_think_s,
        limits=limits,
    )
    engines = dispatch.only(int(policy[0].engine))
    times: list[np.void] = []
    give_up = time.monotonic() + limits.deadline_s
    others_seen, started_s = OtherProcesses(), time.perf_counter()

    def check() -> None:
        if cancelled():
            raise Cancelled("cancelled", "cancelled by the user")
        if time.monotonic() > give_up:
            raise Cancelled(
                "bounded", f"deadline: {limits.deadline_s:g} s of computing time are used up"
            )

    executor.check = check
    error: str | None = None
    planned = False  # a step that has not been executed
    try:
        while True:
            outcome = loop.next_step(state, cluster, engines)
            if outcome == loop.RECORDING_FULL:
                state = simulator.with_more_room(state, cluster)
                continue
            if outcome != loop.PLANNED:
                status, reason = simulator.explain_outcome(outcome, state, cluster)
                break
            planned = True
            check()
            executed = executor.execute(state, 0, cluster.flags)
            loop.finish_step(state, cluster, 0, executed.seconds)
            planned = False
            cluster.flags[:] = reasons.NOT_FINISHED
            times.append(executed.times)
            on_step(state, executed)
    except Cancelled as stop:
        status, reason = stop.status, str(stop)
    except (OutOfMemory, MemoryError, torch.OutOfMemoryError) as lack:
        status, reason = "cancelled", "out of memory"
        error = f"out of memory in step {len(times)}: {first_line(lack)}"
    except Exception as crash:
        status, reason = "cancelled", "the run failed"
        error = f"step {len(times)} failed: {type(crash).__name__}: {first_line(crash)}"
    if planned:
        undo_step(state)
    state = abort_all(state, cluster)
    rows = np.array(times, STEP_TIME)
    others, stolen = others_seen.usage()
    flagged = float(rows["flagged"].mean()) if len(rows) else 0.0
    wall_s = time.perf_counter() - started_s
    return RunOutput(
        recording=simulator.close(state, cluster, status, reason),
        times=rows,
        outputs=outputs_of(state.requests, executor.tokens),
        error=error,
        contaminated_why=contamination(flagged, others, stolen, wall_s),
        free_blocks=int(state.counters[0].num_free_blocks),
    )


def undo_step(state: State) -> None:
    """Undo the scheduled step, its prefix-cache entries and its row in the recording."""
    step, log = state.steps[state.counters[0].step], state.log[0]
    log.num_steps = state.counters[0].step
    log.num_items, log.num_events = step.first_item, step.first_event
    ops.cancel_step(state, 0)


def abort_all(state: State, cluster: ClusterState) -> State:
    """Free the blocks of all remaining requests."""
    left = [r for r in range(len(state.requests)) if state.requests[r].status in LIVE]
    if left:
        state = simulator.with_more_room(state, cluster)
        for r in left:
            ops.abort(state, r, float(state.counters[0].now_s))
    return state


def outputs_of(requests: Table, tokens: NDArray[np.int64]) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(
            tokens[
                r, request.num_prompt_tokens : request.num_prompt_tokens + request.num_output_tokens
            ].tolist()
        )
        for r, request in enumerate(requests)
    )


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]

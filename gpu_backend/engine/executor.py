"""Execute one scheduled step: prepare, forward, sample.

The executor reads the scheduler's plan and block tables and never changes them; it returns the
duration of the step, the sampled tokens, and a flag for each request whose token is EOS. KV of
requests that the scheduler swapped out since the last step is copied to host memory first; KV of
requests that it swapped in is copied back."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_backend.engine.request_inputs import RequestInputs, append_output
from gpu_backend.engine.runner import Runner
from gpu_backend.engine.sampling import sample
from gpu_backend.engine.step_timer import Stopwatch
from gpu_backend.models.batch import Batch, make_batch, rows_of
from gpu_backend.models.kv_pool import KvPool
from sim.core import reasons
from sim.core.state import State

__all__ = ["Executor", "StepOutput"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class StepOutput:
    """An executed step: its STEP_TIME row, and (request, token) in plan order."""

    times: np.void
    emitted: tuple[tuple[int, int], ...]

    @property
    def seconds(self) -> float:
        return float(self.times["whole_s"])


class Executor:
    """Runs the steps of one run. `tokens` (n, longest) grows by what is generated."""

    def __init__(
        self, runner: Runner, inputs: RequestInputs, check: Callable[[], None] | None = None
    ) -> None:
        """check: called before every layer, or before a graph; an exception stops the step."""
        self.runner, self.inputs, self.check = runner, inputs, check
        self.tokens = inputs.tokens.copy()
        self.held: dict[int, Ints] = {}  # blocks of the requests of the previous step, for swaps
        self.host: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # KV of swapped-out requests

    @property
    def pool(self) -> KvPool:
        return self.runner.pool

    @torch.inference_mode()
    def execute(self, state: State, replica: int, flags: NDArray[np.int32]) -> StepOutput:
        """Run the planned step. Sets flags[i] to STOP for plan item i whose token ends it."""
        watch = Stopwatch()
        if state.policy[replica].num_host_blocks:
            self.swap(state, replica)
        batch = self.batch(state, replica)
        self.pool.open_blocks(batch.fresh_blocks, batch.tails)
        forward = self.runner.prepare(batch)
        watch.lap()
        logits = forward(self.check)
        watch.lap()
        emitted = self.emit(state, batch, logits, flags) if len(batch.sampled) else ()
        watch.lap()
        device = self.runner.model.device
        times = watch.row(batch.num_tokens, self.runner.last_rows, on_cpu=not device.is_cuda)
        return StepOutput(times, emitted)

    def batch(self, state: State, replica: int) -> Batch:
        """The flat batch of the plan, its block tables copied from the scheduler's."""
        rows = rows_of(state, replica)
        tables = [block_table(state, replica, r) for r in rows.request.tolist()]
        return make_batch(rows, self.tokens, tables, int(state.policy[replica].block_size))

    def emit(
        self, state: State, batch: Batch, logits: torch.Tensor, flags: NDArray[np.int32]
    ) -> tuple[tuple[int, int], ...]:
        """Sample, store the tokens, flag requests that stop; in plan order."""
        requests = state.requests
        rows = [int(state.scheduled[0, item].request) for item in batch.items]
        places = [int(requests[r].num_tokens) for r in rows]
        wanted = [(self.inputs.sampling[r], place) for r, place in zip(rows, places, strict=True)]
        found = sample(logits, wanted)
        emitted: list[tuple[int, int, int]] = []
        for item, r, place, token in zip(batch.items.tolist(), rows, places, found, strict=True):
            self.tokens[r, place] = token
            append_output(requests, state.runs, r, place, token)
            if token in self.inputs.stop_ids:
                flags[item] = reasons.STOP
            emitted.append((item, r, token))
        return tuple((r, token) for _, r, token in sorted(emitted))

    # --- swapping ---------------------------------------------------------------------------------

    def swap(self, state: State, replica: int) -> None:
        """Copy KV of swapped-out requests to the host, and KV of swapped-in requests back. Blocks
        of a victim may belong to another request in this step, so the copy comes before any write;
        `held` stores which blocks they were."""
        swapped = {int(r) for r in state.swapped[replica, : state.counters[replica].num_swapped]}
        block_size = int(state.policy[replica].block_size)
        for r in swapped - self.host.keys():
            used = -(-int(state.requests[r].num_computed_tokens) // block_size)
            self.host[r] = self.pool.copy_out(self.held[r][:used])
        running = [int(r) for r in state.running[replica, : state.counters[replica].num_running]]
        self.held = {r: block_table(state, replica, r) for r in running}
        for r in [r for r in self.host if r not in swapped]:
            kept = self.host.pop(r)
            if r in self.held:  # else it was aborted
                self.pool.copy_in(self.held[r], kept)


def block_table(state: State, replica: int, r: int) -> Ints:
    """The block ids that running request `r` holds, a copy."""
    request = state.requests[r]
    row: Ints = state.block_table[replica, request.slot, : request.num_blocks].astype(np.int64)
    return row

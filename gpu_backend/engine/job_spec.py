"""A job for the real engine from a scenario, reduced to what this machine can run.

The knobs are those of the scenario, resolved as in the simulator, with three reductions: the
context length of the model, memory for KV blocks, and time. Each reduction is a note; a scenario
that cannot run at all is a ScenarioError.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpu_backend.device import Device, free_memory
from gpu_backend.engine.request_inputs import RequestInputs, make_inputs
from gpu_backend.engine.sampling import Sampling
from gpu_backend.models.kv_pool import block_bytes
from gpu_backend.models.zoo import Loaded
from gpu_backend.prompts.corpus import prompts_of
from sim.core.requests import Table
from sim.engines.registry import engine_spec
from sim.scenario.load import Resolved, Scenario, ScenarioError, resolve
from sim.workload.workload import PER_REQUEST, Workload, to_requests

__all__ = ["MOST_REQUESTS", "MOST_TOKENS", "JobSpec", "make_job_spec"]

MOST_REQUESTS = 256
MOST_TOKENS = 200_000  # prompt and output tokens of all requests
MOST_SECONDS = 90.0  # of computing, by the first guess
KV_SHARE = 0.5  # share of the free memory


@dataclass(frozen=True, eq=False)
class JobSpec:
    """The job: requests with real prompts, one POLICY row, and notes on reductions."""

    resolved: Resolved
    workload: Workload
    inputs: RequestInputs
    policy: Table
    notes: tuple[str, ...]


def make_job_spec(
    scenario: Scenario,
    workload: Workload,
    loaded: Loaded,
    device: Device,
    guess: Any,
    *,
    sampling: Sampling | None = None,
    stop_at_eos: bool = False,
) -> JobSpec:
    """The job for one scenario and its workload on `loaded`.

    guess: a LATENCY row to estimate time with. Outputs end at the lengths of the scenario, so that
    the simulation has the same tokens; with `stop_at_eos` they may end earlier."""
    resolved = resolve(scenario)
    if len(resolved.replicas) != 1:
        raise ScenarioError(["replicas: the real engine is one replica"], "replicas")
    notes: list[str] = []
    workload = shorten(workload, loaded, guess, notes)
    policy = fit_blocks(resolved, workload, loaded, device, notes)
    inputs = make_inputs(
        prompts_of(workload, loaded),
        workload.max_tokens,
        table=to_requests(workload),
        sampling=sampling,
        stop_ids=loaded.model.architecture.eos_token_ids if stop_at_eos else (),
    )
    return JobSpec(resolved, workload, inputs, policy, tuple(notes))


# --- cuts -----------------------------------------------------------------------------------------


def shorten(workload: Workload, loaded: Loaded, guess: Any, notes: list[str]) -> Workload:
    """The requests that fit in the context of the model, limited by the time budget."""
    longest = loaded.model.architecture.shape.max_model_len
    whole = workload.num_prompt_tokens.astype(np.int64) + workload.output_len
    keep = whole <= longest
    if not keep.all():
        notes.append(
            f"{int((~keep).sum())} requests are longer than the {longest:,} tokens of "
            f"{loaded.title}: left out"
        )
    outputs = workload.output_len.astype(np.float64)
    seconds = workload.num_prompt_tokens * guess.prefill_token_s
    seconds += outputs * (guess.decode_s + guess.step_s)
    affordable = np.cumsum(np.where(keep, seconds, 0.0)) <= MOST_SECONDS
    affordable &= np.cumsum(np.where(keep, whole, 0)) <= MOST_TOKENS
    affordable &= np.cumsum(keep) <= MOST_REQUESTS
    kept = keep & affordable
    if int(kept.sum()) < int(keep.sum()):
        notes.append(
            f"the first {int(kept.sum())} of {int(keep.sum())} requests are run: at most "
            f"{MOST_REQUESTS} requests, {MOST_TOKENS:,} tokens and {MOST_SECONDS:g} s of "
            "computing time, by a first guess"
        )
    if not kept.any():
        raise ScenarioError(
            [
                f"workload: not even one request fits {loaded.title} on this machine "
                f"(at most {longest:,} tokens each, {MOST_SECONDS:g} s in all)"
            ],
            "workload",
        )
    if kept.all():
        return workload
    columns = {name: getattr(workload, name)[kept] for name in PER_REQUEST}
    names = workload.names
    return replace(
        workload,
        **columns,
        names=None if names is None else tuple(np.array(names)[kept].tolist()),
    )


def fit_blocks(
    resolved: Resolved, workload: Workload, loaded: Loaded, device: Device, notes: list[str]
) -> Table:
    """The POLICY row with at most the KV blocks that all requests use together, or that fit in
    memory. A pool that fits all requests at once changes nothing, so reducing it to that needs no
    note."""
    replica = resolved.replicas[0]
    row = replica.row
    spec = engine_spec(replica.knobs.engine)
    size = int(row.block_size)
    wanted = int(row.num_gpu_blocks) - 1
    usable = int(KV_SHARE * free_memory(device)) // block_bytes(
        loaded.model.architecture, size, device
    )
    if usable < wanted:
        most = int(most_blocks(workload, row))
        if usable < most:
            notes.append(
                f"{usable:,} of {wanted:,} KV blocks of {size} tokens fit in this machine's memory"
            )
        blocks = max(usable, 1) + spec.null_blocks
        value = blocks * (size if spec.pool_in_tokens else 1)
        row = replica.knobs.model_copy(update={spec.pool_knob: value}).row()
    policy: Table = np.array([row], resolved.policy.dtype).view(np.recarray)
    return policy


def most_blocks(workload: Workload, row: Any) -> int:
    """KV blocks that all requests could hold at once, counting slots and rectangles in full."""
    longest = int((workload.num_prompt_tokens + workload.max_tokens).max())
    per_request = -(-min(longest, int(row.max_model_len)) // int(row.block_size)) + 1
    return per_request * min(len(workload), int(row.max_num_seqs))

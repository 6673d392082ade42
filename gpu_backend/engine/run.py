"""Run a scenario on the real engine, and simulate the same requests for comparison.

`run_scenario` loads the model, reduces the job to the machine, warms up, runs and measures;
`compare` simulates the same requests under the same policy row and seed, with a latency model of
this machine. Pages and the
command line call these two.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_backend.device import Device
from gpu_backend.engine.compiled_decode import unavailable_reason
from gpu_backend.engine.executor import Executor, StepOutput
from gpu_backend.engine.job_spec import JobSpec, make_job_spec
from gpu_backend.engine.loop import RunOutput, serve
from gpu_backend.engine.machine_limits import first_guess, measure_limits
from gpu_backend.engine.paged_attention import choose_attention
from gpu_backend.engine.request_inputs import RequestInputs, make_inputs
from gpu_backend.engine.runner import Runner, cuda_capture
from gpu_backend.engine.sampling import Sampling
from gpu_backend.models import zoo
from gpu_backend.models.kv_pool import KvPool
from gpu_backend.models.linear import packing
from gpu_backend.models.zoo import Loaded
from sim.cluster import simulator
from sim.core.recording import Recording
from sim.core.requests import OUTPUT_BASE, OUTPUT_STRIDE, Table
from sim.core.state import State
from sim.latency import model as latency_model
from sim.results import metrics
from sim.scenario.load import Scenario
from sim.workload.workload import Workload

__all__ = ["Comparison", "RealRun", "Update", "compare", "make_runner", "run_scenario"]

DEADLINE_S = 300.0  # wall seconds of a run
BLOCKS = ("ttft_s", "itl_s", "tpot_s", "e2e_s")
POINTS = ("p50", "p95")


@dataclass(frozen=True)
class Update:
    """The progress of a run. `stage`: "load", "warm up" or "run"; `tokens`: of
    how many output tokens; `emitted`: (request, token) of the last step."""

    stage: str
    steps: int = 0
    now_s: float = 0.0
    tokens: int = 0
    all_tokens: int = 0
    emitted: tuple[tuple[int, int], ...] = ()

    @property
    def words(self) -> str:
        """The line that a command shows."""
        if self.stage != "run":
            return self.stage
        return f"step {self.steps}, {self.tokens} of {self.all_tokens} tokens"


@dataclass(frozen=True, eq=False)
class RealRun:
    """A run that ended; `output.error` is set if it failed."""

    loaded: Loaded
    device: Device
    job: JobSpec
    output: RunOutput
    backend: str
    guess: Any  # a LATENCY row before any calibration
    graph_decodes: int  # decodes that run as one unit; 0: every step is eager

    @property
    def recording(self) -> Recording:
        return self.output.recording

    def text(self, r: int) -> str:
        """The output of request `r` as text."""
        return self.loaded.tokenizer.decode(self.output.outputs[r])

    def prompt(self, r: int) -> str:
        """The prompt of request `r`, as text."""
        length = int(self.job.inputs.requests.num_prompt_tokens[r])
        return self.loaded.tokenizer.decode(self.job.inputs.tokens[r, :length].tolist())


def run_scenario(
    scenario: Scenario,
    workload: Workload,
    device: Device,
    *,
    model: str = zoo.DEFAULT,
    sampling: Sampling | None = None,
    stop_at_eos: bool = False,
    deadline_s: float = DEADLINE_S,
    cancelled: Callable[[], bool] = lambda: False,
    on_update: Callable[[Update], None] = lambda update: None,
) -> RealRun:
    """Run the workload of a scenario on the real engine.

    ValueError (ScenarioError too) and OutOfMemory for a job that cannot start; later errors end the
    run with `output.error`.
    """
    on_update(Update("load"))
    loaded = zoo.load(model, device)
    guess = first_guess(loaded.model.architecture, device, measure_limits(device))
    job = make_job_spec(
        scenario, workload, loaded, device, guess, sampling=sampling, stop_at_eos=stop_at_eos
    )
    runner, backend = make_runner(loaded, job.policy, device)
    on_update(Update("warm up"))
    warm_up(runner, job)
    executor = Executor(runner, job.inputs)
    inputs = job.inputs.requests
    total = int(np.minimum(inputs.max_tokens, inputs.output_len).sum())
    done = steps = 0

    def told(state: State, executed: StepOutput) -> None:
        nonlocal done, steps
        done, steps = done + len(executed.emitted), steps + 1
        now_s = float(state.counters[0].now_s)
        on_update(Update("run", steps, now_s, done, total, executed.emitted))

    limits = scenario.limits
    output = serve(
        job.inputs,
        job.policy,
        executor,
        loop_think_s=job.workload.loop_think_s,
        limits=simulator.Limits(
            horizon_s=np.inf if limits.horizon_s is None else limits.horizon_s,
            max_steps=limits.max_steps,
            deadline_s=deadline_s,
        ),
        cancelled=cancelled,
        on_step=told,
    )
    return RealRun(loaded, device, job, output, backend, guess, runner.most_rows)


def make_runner(loaded: Loaded, policy: Table, device: Device) -> tuple[Runner, str]:
    """A runner with a KV pool for this policy row, and a description of the backend."""
    row, model = policy[0], loaded.model
    size = int(row.block_size)
    pool = KvPool(model.architecture, int(row.num_gpu_blocks), size, device)
    attention, said = choose_attention(model.architecture, device, size)
    if not device.is_cuda:
        runner = Runner(model, pool, attention, compiled=True)
        said += f"; linear layers: {packing(device.torch_device, device.dtype)}"
        if reason := unavailable_reason(model):
            return runner, f"{said}; decode steps are not compiled: {reason}"
        return runner, f"{said}; steps of up to {runner.most_rows} decodes: one compiled loop"
    width = -(-int(row.max_model_len) // size)
    capture = cuda_capture(device.torch_device)
    runner = Runner(model, pool, attention, capture=capture, table_width=width)
    graphs = "CUDA graphs for decode steps" if runner.capture else "every step eager"
    return runner, f"{said}; {graphs}"


def warm_up(runner: Runner, job: JobSpec) -> None:
    """Run two short requests: the first products of a process, and the first run of a compiled
    scheduler, are slower than later ones. The pool needs no reset: blocks are overwritten before
    they are read."""
    row = job.policy[0]
    length = max(
        min(16, int(row.max_model_len) - 4, int(job.inputs.requests.num_prompt_tokens.max())), 1
    )
    inputs = make_inputs([[1] * length, [2] * length], 3)
    serve(inputs, job.policy, Executor(runner, inputs))


# --- beside the simulation ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Comparison:
    """Measured and simulated figures of the same requests. step_s: for each measured step the
    prediction of the latency model for its load."""

    run: RealRun
    simulated_trace: Recording
    step_s: NDArray[np.float64]
    measured: dict[str, Any]
    simulated: dict[str, Any]
    difference: dict[str, Any]

    @property
    def step_error(self) -> float | None:
        """Mean absolute relative error of the step times, None without a step."""
        real = self.run.output.times["whole_s"]
        return float(np.abs(self.step_s / real - 1.0).mean()) if len(real) else None

    def report(self) -> dict[str, Any]:
        """`run --json`."""
        run, steps = self.run, self.run.recording.steps
        return {
            "device": run.device.title,
            "backend": run.backend,
            "dtype": run.device.dtype_name,
            "threads": run.device.threads,
            "model": run.loaded.title,
            "contaminated": run.output.contaminated,
            "contaminated_why": run.output.contaminated_why,
            "measured": self.measured,
            "simulated": self.simulated,
            "difference": self.difference,
            "steps": [
                {
                    "measured_s": float(step.duration_s),
                    "simulated_s": float(seconds),
                    "prefill_tokens": int(step.num_prefill_tokens),
                    "decodes": int(step.num_decodes),
                }
                for step, seconds in zip(steps, self.step_s, strict=True)
            ],
        }


def compare(run: RealRun, times: Any = None) -> Comparison:
    """Simulate the same requests, lengths and policy row.

    times: a LATENCY row; default: the scenario's measured profile, else the first guess from this
    machine's bandwidth and GEMM peak.
    """
    if times is None:
        replica = run.job.resolved.replicas[0]
        measured = replica.replica.latency.kind not in ("linear", "roofline")
        times = replica.latency if measured else run.guess
    row: Table = np.array([times], latency_model.LATENCY).view(np.recarray)
    simulated = simulator.run(
        as_served(run.job.inputs, run.recording.requests),
        run.job.inputs.runs,
        run.job.policy,
        row,
        loop_think_s=run.job.workload.loop_think_s,
    )
    seconds = np.zeros(len(run.recording.steps))
    latency_model.steps_seconds(row[0], run.recording.steps, seconds)
    real, ours = figures(run.recording), figures(simulated)
    return Comparison(run, simulated, seconds, real, ours, difference(real, ours))


def as_served(inputs: RequestInputs, served: Table) -> Table:
    """The requests with their real output lengths; outputs are private runs."""
    requests = inputs.requests.copy()
    ended = np.asarray(served.num_output_tokens)
    requests.output_len = np.where(ended > 0, ended, requests.output_len)
    requests.output_base = OUTPUT_BASE + OUTPUT_STRIDE * np.arange(len(requests))
    return requests


def figures(recording: Recording) -> dict[str, Any]:
    """p50 and p95 of TTFT, ITL, TPOT and E2E; duration; output tokens per second."""
    requests = recording.requests
    finished = requests[requests.num_output_tokens > 0]
    blocks = {
        "ttft_s": metrics.present(metrics.ttft_s(requests)),
        "itl_s": metrics.weighted_block(*metrics.itl_values(recording)),
        "tpot_s": metrics.present(metrics.tpot_s(finished)),
        "e2e_s": metrics.present(metrics.e2e_s(finished)),
    }
    found: dict[str, Any] = {
        name: None if block is None else {point: block[point] for point in POINTS}
        for name, block in blocks.items()
    }
    duration = metrics.duration_s(recording)
    found["duration_s"] = duration
    tokens = int(requests.num_output_tokens.sum(dtype=np.int64))
    found["output_tokens_per_s"] = metrics.per_second(tokens, duration)
    return found


def difference(measured: dict[str, Any], simulated: dict[str, Any]) -> dict[str, Any]:
    """simulated / measured - 1, in the same shape; None where either is missing."""
    found: dict[str, Any] = {}
    for name, real in measured.items():
        ours = simulated[name]
        if isinstance(real, dict) and isinstance(ours, dict):
            found[name] = {point: share(real[point], ours[point]) for point in POINTS}
        elif isinstance(real, float) and isinstance(ours, float):
            found[name] = share(real, ours)
        else:
            found[name] = None
    return found


def share(real: float, ours: float) -> float | None:
    return ours / real - 1.0 if real > 0 else None

"""Runs of the engine in its queue: what they report, and what they result in.

The only modules that load PyTorch are named inside the functions here.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from sim.results.run import workload_of
from sim.workload.workload import Workload
from ui.real_engine.plan import Plan
from ui.shell import kernels
from ui.shell.jobs import BackgroundJob
from ui.text.units import count

LEFT_S = 120.0  # a run that was not looked at for so long is given up
GRACE_S = 5.0  # a browser that lost its connection comes back within it, or counts as gone


@dataclass
class Live:
    """What a run reports while it goes on: written by its thread, read by the page."""

    title: str
    part: int
    num_parts: int
    workload: Workload
    decode: Callable[[Sequence[int]], str] | None = None
    stage: str = "load"
    steps: int = 0
    tokens: int = 0
    all_tokens: int = 0
    outputs: dict[int, list[int]] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """How far all runs of the plan are."""
        mine = self.tokens / self.all_tokens if self.all_tokens else 0.0
        return min((self.part + mine) / self.num_parts, 1.0)

    def label(self, r: int) -> str:
        """Request r of the run; where requests were left out, it is known by its number alone."""
        workload = self.workload
        whole = int(np.minimum(workload.max_tokens, workload.output_len).sum()) == self.all_tokens
        return workload.label(r) if whole else f"request {r + 1}"

    def texts(self) -> list[tuple[str, str]]:
        """What each request has generated so far."""
        if self.decode is None:
            return []
        return [(self.label(r), self.decode(list(self.outputs[r]))) for r in sorted(self.outputs)]

    def take(self, update: Any) -> None:
        """Note a gpu_backend.run.Update."""
        self.stage, self.steps = update.stage, update.steps
        self.tokens, self.all_tokens = update.tokens, update.all_tokens
        for r, token in update.emitted:
            self.outputs.setdefault(r, []).append(token)


@dataclass(frozen=True)
class JobHandle:
    """A plan in the queue of its device; `in_line` is its job there."""

    plan: Plan
    job: BackgroundJob[Live, list["RunResult"]]
    in_line: Any
    queue: Any

    @property
    def live(self) -> Live | None:
        return self.job.progress

    @property
    def place(self) -> int:
        """How many run or wait before it."""
        return int(self.queue.position(self.in_line))


@dataclass(frozen=True)
class RunResult:
    """One run that ended: a gpu_backend.run.RealRun without the weights, and what was cut."""

    title: str
    run: Any
    notes: tuple[str, ...]


def begin(plan: Plan, uploads: Mapping[str, bytes]) -> JobHandle:
    """Ask for a plan. QueueFull in words where too many wait; ImportError without PyTorch."""
    from gpu_backend.device import choose
    from gpu_backend.engine.jobs import queue_for

    device = choose()
    queue = queue_for(device)
    job = queue.submit(lambda job: carry_out(plan, uploads, device, job), Tab().gone)
    return JobHandle(plan, BackgroundJob(job), job, queue)


class Tab:
    """The browser tab that asked for a run: is it still there? A reload or a closed tab ends it."""

    def __init__(self) -> None:
        context = get_script_run_ctx(suppress_warning=True)
        self.session = context.session_id if context else None
        self.seen_s = time.monotonic()

    def gone(self) -> bool:
        """True once it has been away for GRACE_S; a run without a browser never counts as gone."""
        now = time.monotonic()
        if self.is_here():
            self.seen_s = now
        return now - self.seen_s > GRACE_S

    def is_here(self) -> bool:
        if self.session is None or not runtime.exists():
            return True
        return runtime.get_instance().is_active_session(self.session)


def carry_out(plan: Plan, uploads: Mapping[str, bytes], device: Any, job: Any) -> list[RunResult]:
    """Every run of a plan, one after the other; a run that fails is the last."""
    from gpu_backend.engine.run import run_scenario
    from gpu_backend.engine.sampling import Sampling
    from gpu_backend.models import zoo

    def over() -> bool:
        return bool(job.cancelled()) or time.monotonic() - job.last_polled_s > LEFT_S

    done: list[RunResult] = []
    for k, part in enumerate(plan.parts):
        workload, notes = workload_of(part.scenario, uploads=uploads)
        live = job.progress = Live(part.title, k, len(plan.parts), workload)
        live.stage = "compile"
        kernels.wait_until_compiled(over)
        loaded = zoo.load(plan.model, device)
        longest = loaded.model.architecture.shape.max_model_len
        workload, cuts = with_shorter_prompts(workload, longest)
        live.workload, live.decode = workload, loaded.tokenizer.decode
        run = run_scenario(
            part.scenario,
            workload,
            device,
            model=plan.model,
            sampling=Sampling(plan.temperature, plan.seed),
            cancelled=over,
            on_update=live.take,
        )
        done.append(RunResult(part.title, without_weights(run), (*notes, *cuts, *run.job.notes)))
        if run.output.error is not None or over():
            break
    return done


def without_weights(run: Any) -> Any:
    """The run as a session may keep it: the model stays in the zoo."""
    return replace(run, loaded=replace(run.loaded, model=None))


def with_shorter_prompts(workload: Workload, longest: int) -> tuple[Workload, list[str]]:
    """Prompts cut to the model's context, where their output and what they share leave room."""
    first = workload.first_run + workload.num_runs - 1
    shared = np.array([workload.runs["start"][k] for k in first], np.int64) + 1
    room = longest - workload.output_len.astype(np.int64)
    over = (workload.num_prompt_tokens > room) & (room >= shared)
    if not over.any():
        return workload, []
    was = int(workload.num_prompt_tokens[over].max())
    prompts = np.where(over, room, workload.num_prompt_tokens)
    num = int(over.sum())
    which = (
        f"1 prompt of {count(was)} tokens is"
        if num == 1
        else (f"{num} prompts of up to {count(was)} tokens are")
    )
    words = f"{which} cut to fit the model's context of {count(longest)} tokens"
    return replace(workload, num_prompt_tokens=prompts), [words]


# --- SmolLM2 --------------------------------------------------------------------------------------


def is_fetched() -> bool:
    from gpu_backend.models import smollm2

    return smollm2.is_fetched()


DOWNLOADS: list[Any] = []  # the one queue of downloads
Download = BackgroundJob[tuple[str, float | None], None]


def fetch() -> Download:
    """Download SmolLM2; the job's `progress` is (stage, share or None)."""
    from gpu_backend.engine.jobs import RunQueue
    from gpu_backend.models import smollm2

    if not DOWNLOADS:
        DOWNLOADS.append(RunQueue())

    def work(job: Any) -> None:
        smollm2.fetch(lambda stage, share: setattr(job, "progress", (stage, share)))

    return Download(DOWNLOADS[0].submit(work))

"""`python -m ui.prepare`: what a server needs before its first page, computed by the set-up.

Without arguments: the runs that pages open with, by the kernels as plain Python, and the two
kernels that compile in a second. Takes under a minute, and nothing where all is compiled. With
--compile: all kernels that pages run, in tens of seconds each; the server starts this as a process
of its own.
"""

import logging
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
from streamlit.testing.v1 import AppTest

from sim.cluster import loop, simulator
from sim.core.recording import STEP
from sim.engines import dispatch
from sim.engines.registry import DEFAULT_ENGINE, ENGINES, EngineSpec, engine_spec
from sim.latency import model as latency_model
from sim.results.run import simulate, workload_of
from sim.scenario.load import Scenario, parse_scenario, resolve
from sim.workload.workload import to_requests
from ui.shell import kernels
from ui.timeline import step_breakdown

ROOT = Path(__file__).parents[1]
# pages that open with a run, those of one process together: the last one takes longest
PAGES = (("start", "token_budget", "six_ways", "kv_memory"), ("disaggregation",))
MODEL = "Llama-3.1-8B"  # its KV is what a prefill server sends
NICENESS = 10  # of the compiling process: the server comes first


# --- the runs that pages open with ----------------------------------------------------------------


def open_pages(names: tuple[str, ...]) -> None:
    """Open pages as a first visitor does; `kernels.computed_first` keeps what they run."""
    for name in names:
        page = AppTest.from_file(str(ROOT / "pages" / f"{name}.py"), default_timeout=600).run()
        if page.exception:
            raise click.ClickException(f"{name}: {page.exception[0].message}")


def first_runs() -> None:
    """Run the pages of PAGES, each group in a process that does not compile."""
    environment = os.environ | {kernels.STORE: "1", "NUMBA_DISABLE_JIT": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "ui.prepare", *(f"--page={name}" for name in group)],
            env=environment,
            stderr=subprocess.PIPE,
        )
        for group in PAGES
    ]
    for process in started:
        _, problem = process.communicate()
        if process.returncode:
            raise click.ClickException(f"the first runs failed: {problem.decode()[-2000:]}")


def small_kernels() -> None:
    """The step time and its parts: they compile in a second, and a page with dials asks for them
    at every move."""
    step = np.zeros(1, STEP).view(np.recarray)
    for latency in (latency_model.unit_row(), latency_model.measured({})):
        step_breakdown.of_steps(latency, step)
    open_pages(("two_phases",))


# --- all kernels ----------------------------------------------------------------------------------


def tiny(spec: EngineSpec, **more: Any) -> Scenario:
    """Two short requests on one server with this engine."""
    fixed = {"kind": "fixed", "tokens": 8}
    requests: dict[str, Any] = {"name": "request", "count": 2, "arrivals": {"kind": "all_at_once"}}
    requests |= {"prompt": fixed, "output": fixed}
    workload = {"classes": [requests]}
    return parse_scenario({"workload": workload, "replicas": [replica(spec)], **more})


def replica(spec: EngineSpec, **more: Any) -> dict[str, Any]:
    """A server with room for two requests."""
    policy = {"engine": spec.id, **spec.roomy}
    return {"latency": {"kind": "linear"}, "policy": policy, **more}


def alone(spec: EngineSpec) -> None:
    """A server on its own, as pages simulate it."""
    simulate(tiny(spec))


def stepped(spec: EngineSpec) -> None:
    """A server stepped from outside, as the real engine does."""
    scenario = tiny(spec)
    resolved, (workload, _) = resolve(scenario), workload_of(scenario)
    state, cluster = simulator.prepare(
        to_requests(workload), workload.runs, resolved.policy, resolved.latency
    )
    engines = dispatch.used(resolved.policy.engine)
    while loop.next_step(state, cluster, engines) == loop.PLANNED:
        loop.finish_step(state, cluster, 0, 0.01)


def disaggregated(prefill: EngineSpec) -> None:
    """One engine prefills for vLLM V1."""
    decode = engine_spec(DEFAULT_ENGINE)
    replicas = [
        replica(prefill, role="prefill", model=MODEL),
        replica(decode, role="decode", model=MODEL),
    ]
    link = {"kind": "rdma_100g"}
    simulate(tiny(decode, replicas=replicas, link=link, disaggregation={}))


def routed(*specs: EngineSpec) -> None:
    """Servers with different engines behind one router."""
    simulate(tiny(specs[0], replicas=[replica(spec) for spec in specs]))


def real_engine(dtype: str = "auto") -> None:
    """The real engine's decode steps on a CPU; nothing where PyTorch is not installed."""
    if find_spec("torch") is None:
        return
    from gpu_backend.device import choose
    from gpu_backend.engine.run import run_scenario

    scenario = tiny(engine_spec(DEFAULT_ENGINE))
    device = choose("cpu", dtype)
    run_scenario(scenario, workload_of(scenario)[0], device, model="random:llama-15m")


def parts() -> list[tuple[str, Callable[[], None]]]:
    """What is compiled, in the order in which a first visitor needs it, with its name."""
    first = engine_spec(DEFAULT_ENGINE)
    others = [spec for spec in ENGINES if spec is not first]
    found: list[tuple[str, Callable[[], None]]] = [(first.title, partial(alone, first))]
    found += [(spec.title, partial(alone, spec)) for spec in others]
    found.append(("disaggregation", partial(disaggregated, first)))
    mixed = next(spec for spec in others if spec.can_prefill)
    found.append(("disaggregation with two engines", partial(disaggregated, mixed)))
    found.append(("clusters of two engines", partial(routed, first, mixed)))
    found += [(f"{spec.title} for the real engine", partial(stepped, spec)) for spec in ENGINES]
    found.append(("decode steps of the real engine", real_engine))
    return found


def compile_part(number: int) -> str:
    """Compile one of `parts()`; returns its name."""
    name, work = parts()[number]
    work()
    return name


def compiled_parts(total: int, jobs: int) -> Iterator[str]:
    """The names of the parts as they are done. One job is this process: it ends with it."""
    if jobs == 1:
        yield from map(compile_part, range(total))
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        started = [pool.submit(compile_part, number) for number in range(total)]
        for part in as_completed(started):
            yield part.result()


def compile_all(
    jobs: int = 1, echo: Callable[[str], None] = lambda line: None, *, wait: bool = False
) -> None:
    """Compile every part in `jobs` processes, unless another process does; `wait` for that one."""
    with kernels.lock(wait=wait) as free:
        if not free or kernels.are_compiled():
            return
        begin, total = time.monotonic(), len(parts())
        kernels.set_progress(kernels.Progress(total=total))
        for done, name in enumerate(compiled_parts(total, jobs), 1):
            kernels.set_progress(kernels.Progress(done=done, total=total, part=name))
            echo(f"compiled {done} of {total}: {name}")
        echo(f"all kernels are compiled, after {time.monotonic() - begin:.0f} s")


@click.command()
@click.option("--compile", "compiling", is_flag=True, help="Compile all kernels.")
@click.option("--jobs", type=click.IntRange(1, 64), default=1, help="Processes that compile.")
@click.option("--page", "pages", multiple=True, help="Open one page and keep its runs.")
def main(compiling: bool, jobs: int, pages: tuple[str, ...]) -> None:
    """Prepare what a server needs before its first page."""
    logging.getLogger("streamlit").setLevel(logging.ERROR)  # it warns that no browser is there
    if pages:
        open_pages(pages)
    elif compiling:
        os.nice(NICENESS)
        compile_all(jobs, click.echo)
    elif not kernels.are_compiled():
        click.echo("Preparing the pages, once after an update: about half a minute ...")
        begin = time.monotonic()
        first_runs()
        small_kernels()
        click.echo(
            f"The pages are ready, after {time.monotonic() - begin:.0f} s. The simulator's kernels "
            "are compiled while you read them."
        )


if __name__ == "__main__":
    main()

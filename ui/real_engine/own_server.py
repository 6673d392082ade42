"""Your own server: the page's workload sent to an endpoint that the operator allows."""

import asyncio
from typing import Any

import streamlit as st

from sim.engines.registry import engine_spec
from sim.hardware import catalog
from sim.results.run import workload_of
from sim.scenario.load import Scenario, ScenarioError, parse_scenario, resolve
from ui.charts import html_table
from ui.real_engine import controller, tables
from ui.real_engine.results import BLOCKS, POINTS, Row, scaled
from ui.real_engine.runs import Runs
from ui.scenarios import gpu_choice
from ui.shell import jobs, session
from ui.shell.frame import is_dark
from ui.shell.jobs import BackgroundJob
from ui.shell.session import kept
from ui.text.units import count

TOTAL_S, CONCURRENCY = 180.0, 32
QUEUES: list[Any] = []  # the one queue of measurements
MODEL, GPU = "Llama-3.1-8B", "h100_sxm"


def panel() -> None:
    """Behind a heading that one opens."""
    with st.expander("Your own server", key="real_server", on_change="rerun") as box:
        if box.open:
            ask_or_explain()


def ask_or_explain() -> None:
    """Off unless the operator names hosts."""
    from gpu_backend.serve_check import endpoint_policy as endpoints

    hosts = endpoints.named_hosts()
    if hosts:
        ask(hosts)
        return
    st.markdown(
        f"Off on this server. Its operator allows endpoints by listing them in "
        f"`{endpoints.ENDPOINTS}`, as `host` or `host:port`, separated by commas; a key goes into "
        f"`{endpoints.KEY}`. From a shell, `python -m gpu_backend serve-check URL` measures a "
        "server on the same machine without this."
    )


def ask(hosts: tuple[str, ...]) -> None:
    """Which server, and what it is simulated as."""
    st.markdown(
        "The requests of the workload above are sent to an OpenAI-compatible server at their "
        "arrival times, and its streams are timed: vLLM, SGLang, TensorRT-LLM, llama.cpp."
    )
    url = st.text_input("Endpoint", f"http://{hosts[0]}/v1", max_chars=200, key="real_server_url")
    st.caption(f"Allowed here: {', '.join(hosts)}.")
    first, second = st.columns(2)
    model = first.selectbox(
        "Simulated as model", catalog.model_names(), key="real_server_model",
        index=catalog.model_names().index(MODEL),
    )  # fmt: skip
    names = gpu_choice.names()
    gpu = second.selectbox(
        "on", names, format_func=gpu_choice.title, key="real_server_gpu", index=names.index(GPU)
    )
    job = kept(Runs).server_check
    busy = job is not None and not job.ended
    st.button("Measure it", on_click=start, args=(url, model, gpu), disabled=busy)
    if job is None:
        return
    if busy:
        jobs.watch(job, lambda: progress(job))
    elif job.error is not None:
        st.error("Nothing was measured.")
        st.text(job.error[:600])  # a server's words: shown as text, never as markup
    elif job.result is not None:
        show(job.result)


def start(url: str, model: str, gpu: str) -> None:
    """Ask for the measurement."""
    from gpu_backend.engine.jobs import QueueFull, RunQueue
    from gpu_backend.serve_check import endpoint_policy as endpoints

    if not QUEUES:
        QUEUES.append(RunQueue())
    try:
        endpoint = endpoints.endpoint_of(url, loopback=False)
        wanted = controller.parts()
        if not wanted:
            raise endpoints.EndpointError("there are no requests: no scenario came along")
        scenario = simulated_as(wanted[0].scenario, model, gpu)
        uploads = session.uploads()
        kept(Runs).server_check = BackgroundJob(
            QUEUES[0].submit(lambda job: measured(endpoint, scenario, uploads, job))
        )
    except (endpoints.EndpointError, ScenarioError, QueueFull) as error:
        kept(Runs).server_check = BackgroundJob.refused(str(error))


def simulated_as(scenario: Scenario, model: str, gpu: str) -> Scenario:
    """The scenario on the server that the simulation takes the endpoint for: a GPU has its own
    KV memory, a profile that of the page's workload. ScenarioError where it cannot start."""
    data = scenario.model_dump(mode="json")
    replica = data["replicas"][0]
    replica |= gpu_choice.replica_fields(model, gpu, {"kind": "roofline"})
    spec = engine_spec(replica["policy"]["engine"])
    if getattr(spec.defaults, spec.pool_knob) is None and not gpu_choice.is_profile(gpu):
        replica["policy"][spec.pool_knob] = None  # as many as fit
    found = parse_scenario(data)
    resolve(found)
    return found


def measured(
    endpoint: Any, scenario: Scenario, uploads: Any, job: Any, model: str | None = None
) -> dict[str, Any]:
    """Send the workload; the report of serve-check. `model` None: the first that it lists."""
    from gpu_backend.serve_check.client import Caps, Client, measure
    from gpu_backend.serve_check.figures import compare

    def tell(done: int, total: int) -> None:
        job.progress = (done, total)

    workload, _ = workload_of(scenario, uploads=uploads)
    client = Client(endpoint, model, caps=Caps(total_s=TOTAL_S, concurrency=CONCURRENCY))
    name, outcomes = asyncio.run(measure(client, workload, progress=tell, cancelled=job.cancelled))
    return compare(name, outcomes, workload, scenario)


def progress(job: BackgroundJob[tuple[int, int], dict[str, Any]]) -> None:
    """How many requests are answered."""
    done, total = job.progress or (0, 0)
    st.progress(done / total if total else 0.0, text=f"{done} of {total} requests answered")
    st.button("Cancel", on_click=job.cancel, key="real_server_cancel")


def show(report: dict[str, Any]) -> None:
    """Measured beside simulated, and all that must be said of it."""
    st.markdown(
        f"**{count(report['finished'])} of {count(report['requests'])}** requests were answered."
    )
    st.text(f"Model: {report['model'][:200]}")
    for error, times in report["errors"].items():
        st.text(f"{times} failed: {error[:300]}")
    if report["contaminated"]:
        st.warning(f"Not an open loop: {report['contaminated_why']}.")
    st.html(html_table.style(is_dark()) + tables.table("Your server", rows(report)))
    for note in report["notes"]:
        st.caption(note)
    st.caption(f"TPOT is {report['tpot_definition']}. ITL: {ITL}.")


ITL = "gaps between chunks of answers whose every chunk carried one token"


def rows(report: dict[str, Any]) -> list[Row]:
    """The report's figures, times in ms."""
    sides = tuple(report[name] or {} for name in ("measured", "simulated", "difference"))
    found = []
    for name, label in BLOCKS:
        for point in POINTS:
            real, ours, off = ((side.get(name) or {}).get(point) for side in sides)
            found.append(Row(f"{label} {point}", "ms", scaled(real), scaled(ours), off))
    figures_of = (side.get("output_tokens_per_s") for side in sides)
    found.append(Row("Output", "tokens/s", *figures_of))
    return found

"""The sections of the page below its lanes, each with its own words."""

import html
from collections.abc import Sequence

import streamlit as st

from sim.results.run import Result
from sim.results.words import plural
from sim.scenario.load import resolve
from ui.charts import html_table
from ui.disaggregation import controller, downloads, kv_size, ratio, request_flow
from ui.disaggregation.captions import Figure
from ui.disaggregation.setup import Setup
from ui.text.suggested_fixes import refusal
from ui.text.units import seconds

MOST_LISTED = 100  # requests to choose from
FLOW_STYLE = """<style>
.bs-flow { margin: 0; padding-left: 1.6rem; line-height: 1.5; max-width: 60rem; }
.bs-flow li { padding: 4px 0; }
.bs-flow b:first-child { display: inline-block; min-width: 4.5rem; }
</style>"""


def side_by_side(found: Sequence[Figure], setup: Setup) -> str:
    """The comparison as HTML: the better side is marked by a word as well as a colour."""
    body = []
    for figure in found:
        cells = []
        for side, value in (
            ("disaggregated", figure.disaggregated),
            ("co-located", figure.co_located),
        ):
            better = figure.better == side
            words = "none" if value is None else f"{value:,.{figure.digits}f}"
            mark = " better" if better else ""
            cells.append(f'<td class="{"best" if better else ""}">{words}{mark}</td>')
        body.append(f'<tr><th scope="row">{figure.name}, {figure.unit}</th>{"".join(cells)}</tr>')
    pools = f"{setup.prefill} prefill + {setup.decode} decode"
    heads = (
        '<th scope="col">Figure</th>'
        f'<th scope="col">Disaggregated<small>{pools}</small></th>'
        f'<th scope="col">Co-located<small>{plural(setup.servers, "server")}</small></th>'
    )
    model = html.escape(str(setup.model))
    caption = f"The same requests, {plural(setup.gpus, 'GPU')} each: {model}"
    whole = html_table.wrapped(caption, heads, "".join(body), "Disaggregated and co-located")
    return f'<div style="max-width: 46rem">{whole}</div>'


def kv_formula(setup: Setup, split: Result | str) -> None:
    """The formula with its numbers; the link has no part in it where a run moves nothing."""
    travels = isinstance(split, str) or split.summary["kv_transfer_bytes"] > 0
    st.markdown(f"KV of a prompt: {kv_size.formula(kv_size.of(setup), travels)}")
    costs = (
        f" Latency, descriptors ({setup.descriptor_us:g} µs each) and hand-over "
        f"({setup.handover_ms:g} ms) come on top; transfers at the same time share the link."
    )
    st.caption(kv_size.known() + (costs if travels else ""))


def one_request(result: Result) -> None:
    """What happens to a chosen request, with the run's numbers."""
    names = [result.workload.label(r) for r in range(min(len(result.workload), MOST_LISTED))]
    chosen = st.selectbox(
        "Request", range(len(names)), format_func=names.__getitem__, key="pd_request", width=260
    )
    steps = request_flow.steps(result, min(chosen or 0, len(names) - 1))
    listed = "".join(
        f"<li><b>{'never' if step.at_s is None else seconds(step.at_s)}</b> "
        f"<b>{html.escape(step.place)}</b><br>{html.escape(step.what)}</li>"
        for step in steps
    )
    st.html(f'{FLOW_STYLE}<ol class="bs-flow">{listed}</ol>')
    st.caption("Times count from the arrival of the request.")


def ratios(setup: Setup) -> None:
    load = ratio.splits(setup)
    if not load.splits:
        st.info("No ratio of these servers can run this load.")
        return
    st.markdown(ratio.sentence(load, controller.best_budget(repr(load.mixed), load.mixed)))
    st.dataframe(ratio.table(load.splits), hide_index=True)


def configuration(setup: Setup) -> None:
    """Files to download and to read."""
    scenario = controller.scenario(setup)
    if scenario is None:
        st.info("No configuration: the servers above are refused.")
        return
    try:
        script = downloads.vllm(resolve(scenario))
    except ValueError as error:
        st.info(f"No configuration: {refusal(error)}.")
        return
    config = downloads.trt(resolve(scenario), setup)
    with st.container(horizontal=True):
        for label, name, text in (
            ("vLLM script", "disaggregated.sh", script),
            ("TensorRT-LLM YAML", "disagg_config.yaml", config),
            ("Scenario", "scenario.json", scenario.to_json()),
        ):
            st.download_button(label, text, file_name=name, on_click="ignore", key=f"pd_{name}")
    one, two = st.tabs(["vLLM", "TensorRT-LLM"])
    with one:
        st.code(script, language=None, wrap_lines=True)
        st.caption(downloads.VLLM_NOTE)
    with two:
        st.code(config, language=None, wrap_lines=True)
        st.caption(downloads.TRT_NOTE)

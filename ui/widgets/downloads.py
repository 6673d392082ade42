"""Downloads of a run: its files, and the flags of a server that does the same.

Files are made when their button is clicked, not before.
"""

import io
from collections.abc import Callable

import streamlit as st

from sim.results import export
from sim.results.perfetto import write_perfetto
from sim.results.run import Result

ENGINE_NOTE = (
    "Flags of vLLM 0.26.0. Schedules here are its synchronous ones; the engine's default, "
    "asynchronous scheduling, plans a step before the last one's tokens are known."
)


def show(result_of: Callable[[], Result]) -> None:
    """An expander with the files and the flags; the run is asked for when it is opened."""
    box = st.expander("Take home: files, trace, flags", key="take_home", on_change="rerun")
    if not box.open:
        return
    result = result_of()
    with box:
        with st.container(horizontal=True):
            _file("Scenario", "scenario.json", "application/json", lambda: scenario(result))
            _file("Steps", "steps.csv", "text/csv", lambda: steps(result))
            _file("Requests", "requests.csv", "text/csv", lambda: requests(result))
            _file("Perfetto trace", "trace.json", "application/json", lambda: perfetto(result))
        st.caption(
            "The scenario runs again with `python -m sim run scenario.json`; the trace opens in "
            "ui.perfetto.dev. The picture itself: Save picture, under the timeline."
        )
        try:
            st.code(export.vllm_serve_flags(result.resolved), language="bash")
            st.caption(ENGINE_NOTE)
        except ValueError as error:
            st.caption(f"No flags for `vllm serve`: {error}.")


def _file(label: str, name: str, mime: str, make: Callable[[], str]) -> None:
    st.download_button(label, make, file_name=name, mime=mime, on_click="ignore", key=f"get_{name}")


def scenario(result: Result) -> str:
    return result.scenario.to_json()


def steps(result: Result) -> str:
    stream = io.StringIO()
    columns = export.step_columns(result.resolved)
    export.write_csv(stream, columns, export.step_rows(result.recording, result.resolved))
    return stream.getvalue()


def requests(result: Result) -> str:
    stream, workload = io.StringIO(), result.workload
    rows = export.request_rows(
        result.recording, result.resolved, workload.label, workload.class_names
    )
    export.write_csv(stream, export.REQUEST_COLUMNS, rows)
    return stream.getvalue()


def perfetto(result: Result) -> str:
    stream = io.StringIO()
    write_perfetto(stream, result.recording, result.resolved, result.workload.label)
    return stream.getvalue()

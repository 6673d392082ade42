"""The section of the crossover map: a button, its progress, cancel, the figure, the table."""

from collections import OrderedDict

import pandas as pd
import streamlit as st

from sim.results.words import plural
from ui.charts.crossover import crossover_figure
from ui.charts.look import CONFIG
from ui.disaggregation import crossover, form
from ui.disaggregation.crossover import Job, Map
from ui.disaggregation.setup import Setup

JOB, MOST_KEPT, POLL_S = "pd_job", 32, 0.5
AXES = {"prompt": "Prompt length x rate", "ratio": "Prefill : decode x rate"}


@st.cache_resource(show_spinner=False)
def kept() -> OrderedDict[tuple[str, str], Map]:
    """Finished maps of all sessions, the oldest first."""
    return OrderedDict()


def keep(job: Job) -> None:
    """Remember a map that is complete."""
    if job.found is not None and job.found.grid == "fine":
        maps = kept()
        maps[job.kind, repr(job.setup)] = job.found
        while len(maps) > MOST_KEPT:
            maps.popitem(last=False)


def show(setup: Setup, dark: bool) -> None:
    """All of it; it refreshes itself while a job runs."""
    kind = st.pills(
        "Map", list(AXES), required=True, format_func=AXES.__getitem__, key=form.MAP.widget(),
        label_visibility="collapsed",
    ) or form.MAPS[0]  # fmt: skip
    job: Job | None = st.session_state.get(JOB)
    if job is not None and (job.kind, job.setup) != (kind, setup):
        job.stop.set()
        job = st.session_state[JOB] = None
    alive = job is not None and job.running
    st.fragment(body, run_every=POLL_S if alive else None)(kind, setup, dark, alive)


def body(kind: str, setup: Setup, dark: bool, was_alive: bool) -> None:
    job: Job | None = st.session_state.get(JOB)
    if job is not None and not job.running:
        keep(job)
        if was_alive:
            st.rerun()
    found = kept().get((kind, repr(setup)))
    if job is not None and job.found is not None:
        found = job.found
    if job is not None and job.running:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.progress(
                min(1.0, job.done / max(1, job.total)),
                f"{job.grid.capitalize()} grid: {job.done} of {job.total} runs",
            )
            st.button("Cancel", key="pd_cancel", on_click=job.stop.set)
    elif (found is None or found.grid == "coarse") and st.button(
        "Compute the map", key="pd_compute"
    ):
        begin(kind, setup)
        st.rerun()  # all of the page: only then does this fragment begin to refresh itself
    if job is not None and job.problem:
        st.error(job.problem)
    if job is not None and not job.running and job.stop.is_set():
        st.caption("Cancelled. What was complete stands below." if found else "Cancelled.")
    if found is None:
        st.caption(
            "Not computed yet: rates from a quarter to four times the one above; disaggregated, "
            f"and co-located with the best of {budgets(setup)}. {sample(setup)}"
        )
        return
    draw(found, setup, dark)


def budgets(setup: Setup) -> str:
    return f"the budgets {', '.join(f'{budget:,}' for budget in setup.budgets)}"


def sample(setup: Setup) -> str:
    """How many requests the map and the comparison above have."""
    number = crossover.requests_of(setup)
    points = f"{plural(number, 'request')} at each point"
    if number == setup.requests:
        return f"{points}, as in the comparison above."
    return (
        f"{points}, so that queues have time to grow; the comparison above has {setup.requests} "
        "(Load and limits) and can say otherwise."
    )


def begin(kind: str, setup: Setup) -> None:
    before: Job | None = st.session_state.get(JOB)
    if before is not None:
        before.stop.set()
    st.session_state[JOB] = Job(kind, setup).start()


def draw(found: Map, setup: Setup, dark: bool) -> None:
    """The sentence, the figure, the same as a table."""
    words = crossover.sentence(found)
    st.markdown(words)
    rates = [f"{rate:g}" for rate in found.rates]
    titles = ("requests/s", "prompt, tokens" if found.kind == "prompt" else "prefill : decode")
    plot = crossover_figure(
        rates, found.down, [[cell.gain for cell in row] for row in found.cells],
        [[cell.text for cell in row] for row in found.cells], titles, dark,
    )  # fmt: skip
    st.plotly_chart(
        plot, theme=None, config=CONFIG, key="pd_crossover",
        alt=f"Goodput disaggregated and co-located, over {titles[0]} and {titles[1]}. {words}",
    )  # fmt: skip
    st.caption(
        "Difference in goodput, in % of the larger one. Violet, +: disaggregated is ahead. Brown, "
        f"\N{MINUS SIGN}: co-located is, with the best of {budgets(setup)}. {sample(setup)}"
    )
    with st.expander("The same as a table"):
        st.dataframe(
            pd.DataFrame(
                [
                    {titles[1]: down, titles[0]: rate,
                     "disaggregated, requests/s": cell.disaggregated,
                     "co-located, requests/s": cell.co_located, "its best budget": cell.budget,
                     "disaggregated is ahead by, %": cell.text}
                    for down, row in zip(found.down, found.cells, strict=True)
                    for rate, cell in zip(found.rates, row, strict=True)
                ]
            ),
            hide_index=True,
        )  # fmt: skip

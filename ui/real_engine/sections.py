"""The parts of the page: its choices, what is missing on this server, what a run can show."""

import streamlit as st

from ui.real_engine import form, model_list, plan, results, run_job
from ui.real_engine.runs import Finished, Runs
from ui.scenarios.ways import ENGINE_WAYS, way_of
from ui.shell import jobs
from ui.shell.session import kept
from ui.widgets import engine_knobs


def choices(has_rate: bool) -> str:
    """Model, policy with its knobs, the run beside it, sampling. Returns the model."""
    first, second, third = st.columns([2, 1, 1], vertical_alignment="bottom")
    model = first.selectbox(
        "Model", model_list.names(), format_func=model_list.title, key=form.MODEL.widget()
    )
    titles = {way.engine: way.title for way in ENGINE_WAYS}
    engine = second.selectbox(
        "Policy", list(titles), format_func=titles.__getitem__, key=form.ENGINE.widget()
    )
    third.selectbox(
        "Measured beside it", list(plan.BESIDE), format_func=plan.BESIDE.__getitem__,
        key=form.BESIDE.widget(),
    )  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="bottom"):
        with st.popover(f"Knobs of {titles[engine]}"):
            engine_knobs.show(way_of(engine), form.KNOBS)
        with st.popover("Sampling and arrivals"):
            least, most = form.temperatures()
            st.number_input(
                "Temperature (0: greedy)", least, most, step=0.1, key=form.TEMPERATURE.widget()
            )
            st.number_input("Seed", 0, form.MOST_SEED, key=form.SEED.widget())
            if has_rate:
                st.number_input("Requests per second", *form.RATES, key=form.RATE.widget())
    return model


def without_torch() -> None:
    st.info(
        "PyTorch is not installed on this server, so nothing can be run for real here. "
        "`pip install torch safetensors tokenizers` installs it; all other pages work without."
    )


def ready(model: str) -> bool:
    """Can that model be run at once? If not, what to do about it is shown."""
    if model != model_list.SMOLLM2 or run_job.is_fetched():
        return True
    job = kept(Runs).download
    if job is None or job.status in (jobs.FAILED, jobs.CANCELLED):
        st.markdown("SmolLM2-135M-Instruct is not on this server yet: one download of 93 MB.")
        if job is not None:
            st.error(f"It could not be downloaded: {job.error}.")
        st.button("Fetch SmolLM2", type="primary", on_click=fetch)
        return False

    def progress() -> None:
        stage, share = job.progress or ("waiting", None)
        st.progress(share or 0.0, text=f"SmolLM2: {stage}")

    jobs.watch(job, progress)
    return False


def fetch() -> None:
    kept(Runs).download = run_job.fetch()


def what_it_shows(finished: Finished | None) -> None:
    """What a small model can and cannot show about a large server."""
    with st.expander("What a small model can show, and what not"):
        st.markdown(
            "**It can** show the schedule: which requests are in which step, in which chunks, "
            "which wait, and what that does to the gaps between tokens. The same policy takes the "
            "same decisions on a large server for the same requests and times.\n\n"
            "**It cannot** show a large server's milliseconds. A small model on a large GPU is "
            "launch-bound: a step takes the time of starting its kernels, not of its arithmetic "
            "or its bytes, so more tokens in a step cost almost nothing, and chunking shows "
            "little. For a step time that follows the roofline, run random weights of a 1B to 8B "
            "shape there. On a CPU each token of a prompt costs time, so the "
            "stalls are real ones, only longer."
        )
        if finished is not None:
            st.markdown(results.launch_bound(finished.runs[0].run))

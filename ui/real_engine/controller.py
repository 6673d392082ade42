"""From choices to a plan, the run while it goes on, and its result."""

import streamlit as st

from sim.scenario.load import ScenarioError
from ui.charts import html_table
from ui.charts.look import CONFIG
from ui.charts.step_times import scatter as scatter_figure
from ui.lanes import lanes
from ui.real_engine import form, model_list, results, run_job, runs, tables
from ui.real_engine.plan import Part, Plan, parts_of
from ui.real_engine.run_job import JobHandle
from ui.real_engine.runs import Finished, Runs
from ui.scenarios.ways import way_of
from ui.shell import jobs, session
from ui.shell.frame import is_dark
from ui.shell.session import kept
from ui.text.suggested_fixes import refusal
from ui.text.units import count, seconds

RANDOM_TEXT = "Random weights: the times are real, the text means nothing."
STAGES = {
    "compile": "Waiting for the simulator to be compiled", "load": "Loading the model",
    "warm up": "Warming up", "run": "Running",
}  # fmt: skip


# --- asking ---------------------------------------------------------------------------------------


def parts() -> tuple[Part, ...]:
    """The runs that the choices ask for. ScenarioError for impossible ones."""
    base = form.base()
    if base is None:
        return ()
    way = way_of(form.ENGINE.value)
    fields = ((knob.name, form.KNOBS[way.engine, knob.name]) for knob in way.knobs)
    chosen = {name: f.usual if f.value is None else f.value for name, f in fields}
    return parts_of(base, way, chosen, form.BESIDE.value, int(form.SEED.value or 0))


def run_button() -> None:
    """The button, or why there is nothing to run."""
    try:
        wanted = parts()
    except ScenarioError as error:
        st.error(f"This cannot run: {refusal(error)}")
        return
    if not wanted:
        return
    names = " and ".join(part.title for part in wanted)
    with st.container(horizontal=True, vertical_alignment="center"):
        busy = runs.job() is not None
        st.button("Run it", type="primary", on_click=go, args=(wanted,), disabled=busy)
        st.markdown(f":gray[{names}]", width="content")


def go(wanted: tuple[Part, ...]) -> None:
    """Ask for the run."""
    kept(Runs).asked = form.REAL_ENGINE.query()
    temperature = float(form.TEMPERATURE.value or 0.0)
    try:
        model = model_list.loadable(form.MODEL.value)
        plan = Plan(model, wanted, temperature, int(form.SEED.value or 0))
        runs.start(run_job.begin(plan, session.uploads()))
    except (ValueError, RuntimeError, ImportError, OSError) as error:
        kept(Runs).problem = f"The run did not start: {error}."


def problem() -> str | None:
    """Why the last run gave nothing to look at, as long as the choices are those it had."""
    same = kept(Runs).asked == form.REAL_ENGINE.query()
    return runs.problem() if same else None


# --- while it runs --------------------------------------------------------------------------------


def watch() -> None:
    """Show the run of this session until it ends."""
    handle = runs.job()
    if handle is None:
        return

    def draw() -> None:
        with st.container(border=True, key="real_running"):
            with st.container(
                horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
            ):
                st.markdown(state_of(handle), width="content")
                st.button("Cancel", on_click=handle.job.cancel, key="real_cancel")
            live = handle.live
            st.progress(live.share if live else 0.0, text="Progress of the run")
            if live is not None and live.outputs:
                if handle.plan.model.startswith(model_list.RANDOM):
                    st.caption(RANDOM_TEXT)
                st.html(tables.texts(live.texts(), tail=True))

    jobs.watch(handle.job, draw, lambda: runs.end(handle))


def state_of(handle: JobHandle) -> str:
    """How the run stands, in words."""
    live = handle.live
    if handle.job.cancelled():
        return "**Cancelling** …"
    if live is None:
        ahead = handle.place
        return f"**In the queue**: {ahead} before you." if ahead else "**Starting** …"
    which = f" {live.part + 1} of {live.num_parts}" if live.num_parts > 1 else ""
    if live.stage != "run":
        return f"**Run{which}**, {live.title}: {STAGES[live.stage].lower()} …"
    return (
        f"**Run{which}**, {live.title}: step {count(live.steps)}, {count(live.tokens)} of "
        f"{count(live.all_tokens)} tokens"
    )


# --- what came out --------------------------------------------------------------------------------


def show(finished: Finished) -> None:
    """Measured beside simulated."""
    first = finished.runs[0].run
    st.subheader("Measured beside simulated", anchor=False)
    st.markdown(results.headline(finished.runs))
    quiet(finished)
    lanes(results.lanes(finished.runs, finished.comparisons), key="real_lanes")
    st.caption(
        f"{results.machine(first)}. Arrivals follow the clock of the steps; idle time is skipped. "
        f"A gap is marked from {seconds(results.gap_limit_s(finished.runs))} on, "
        f"{results.GAP_FACTOR:g} times the median step. {results.spans(first)}"
    )
    for note in dict.fromkeys(note for one in finished.runs for note in one.notes):
        st.info(f"Cut to this machine: {note}.")
    st.markdown(error_line(finished))
    figures = [
        html_table.style(is_dark()) + tables.table(one.title, results.rows(comparison))
        for one, comparison in zip(finished.runs, finished.comparisons, strict=True)
    ]
    left, right = st.columns(2)
    if len(figures) > 1:
        left.html(figures[0])
        right.html(figures[1])
        scatter(finished)
    else:
        right.html(figures[0])
        with left:
            scatter(finished)
    generated(finished)


def scatter(finished: Finished) -> None:
    """Every step at its simulated and its measured time."""
    points = [
        results.points(one.title, comparison)
        for one, comparison in zip(finished.runs, finished.comparisons, strict=True)
    ]
    st.plotly_chart(
        scatter_figure(points, is_dark()), theme=None, config=CONFIG, key="real_scatter",
        alt=f"Measured over simulated time of each step. {plain(finished)}",
    )  # fmt: skip


def quiet(finished: Finished) -> None:
    """Whether the times count, said aloud."""
    why = [
        f"{one.title}: {one.run.output.contaminated_why}"
        for one in finished.runs
        if one.run.output.contaminated
    ]
    if why:
        st.warning(
            f"**The machine was not quiet**: {'. '.join(why)}. The measured times are those of "
            "a shared machine: no promise holds for them."
        )
    elif results.long_enough(finished.runs):
        st.success("The machine was quiet while it ran: the measured times are its own.")
    else:
        st.info(
            "The steps waited for no processor. A run of less than a second is too short to show "
            "whether other programs used the machine."
        )


def error_line(finished: Finished) -> str:
    """The error of the simulated steps, before and after a calibration."""
    now = results.step_error(finished.comparisons)
    if finished.calibrated is None:
        how = "with a first guess, from this machine's memory bandwidth and its best matrix product"
        if finished.runs[0].run.job.resolved.replicas[0].profile is not None:
            how = "with the scenario's measured profile"
        return f"Step times, simulated {how}: off by **{now:.0%}** in the mean."
    was = results.step_error(finished.first_guess)
    return f"Step times, calibrated: off by **{now:.1%}** in the mean, {was:.0%} before."


def plain(finished: Finished) -> str:
    return error_line(finished).replace("**", "")


def generated(finished: Finished) -> None:
    """The text of every request."""
    with st.expander("What was generated", key="real_texts", on_change="rerun") as box:
        if not box.open:
            return
        run = finished.runs[0].run
        if run.loaded.random:
            st.caption(RANDOM_TEXT)
        label = run.job.workload.label
        st.html(tables.texts([(label(r), run.text(r)) for r in range(len(run.recording.requests))]))

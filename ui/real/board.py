"""What the page does: choices to a plan, the run while it goes on, what came out."""

import streamlit as st

from sim.scenario.load import ScenarioError
from ui import panel as figures_panel
from ui import state
from ui.real import figures, form, offers, results, session, work
from ui.real.plan import Part, Plan, parts_of
from ui.real.session import Done
from ui.real.work import Ticket
from ui.six_ways import lanes, table
from ui.six_ways.ways import way_of
from ui.units import count, seconds

POLL_S = 0.5
ASKED = "real_asked"  # the choices of the last run that was asked for
RANDOM_TEXT = "Random weights: the times are real, the text means nothing."
STAGES = {"load": "Loading the model", "warm up": "Warming up", "run": "Running"}


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
        st.error(f"This cannot run: {' '.join(error.problems)}")
        return
    if not wanted:
        return
    names = " and ".join(part.title for part in wanted)
    with st.container(horizontal=True, vertical_alignment="center"):
        busy = session.ticket() is not None
        st.button("Run it", type="primary", on_click=go, args=(wanted,), disabled=busy)
        st.markdown(f":gray[{names}]", width="content")


def go(wanted: tuple[Part, ...]) -> None:
    """Ask for the run."""
    st.session_state[ASKED] = form.REAL_ENGINE.query()
    temperature = float(form.TEMPERATURE.value or 0.0)
    try:
        model = offers.loadable(form.MODEL.value)
        plan = Plan(model, wanted, temperature, int(form.SEED.value or 0))
        session.start(work.begin(plan, state.uploads()))
    except (ValueError, RuntimeError, ImportError, OSError) as error:
        st.session_state[session.PROBLEM] = f"The run did not start: {error}."


def problem() -> str | None:
    """Why the last run gave nothing to look at, as long as the choices are those it had."""
    same = st.session_state.get(ASKED) == form.REAL_ENGINE.query()
    return session.problem() if same else None


# --- while it runs --------------------------------------------------------------------------------


def watch() -> None:
    """The run of this session, looked at again and again until it ends."""
    if session.ticket() is not None:
        st.fragment(watched, run_every=POLL_S)()


def watched() -> None:
    ticket = session.ticket()
    if ticket is None:
        st.rerun()
        return
    if ticket.job.look() in ("finished", "failed", "cancelled"):
        session.end(ticket)
        st.rerun()
    with st.container(border=True, key="real_running"):
        with st.container(
            horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
        ):
            st.markdown(told(ticket), width="content")
            st.button("Cancel", on_click=ticket.job.cancel, key="real_cancel")
        live = ticket.live
        st.progress(live.share if live else 0.0, text="How far the run is")
        if live is not None and live.outputs:
            if ticket.plan.model.startswith(offers.RANDOM):
                st.caption(RANDOM_TEXT)
            st.html(figures.texts(live.texts(), tail=True))


def told(ticket: Ticket) -> str:
    """How the run stands, in words."""
    live = ticket.live
    if ticket.job.cancelled():
        return "**Cancelling** …"
    if live is None:
        ahead = ticket.place
        return f"**In the queue**: {ahead} before you." if ahead else "**Starting** …"
    which = f" {live.part + 1} of {live.num_parts}" if live.num_parts > 1 else ""
    if live.stage != "run":
        return f"**Run{which}**, {live.title}: {STAGES[live.stage].lower()} …"
    return (
        f"**Run{which}**, {live.title}: step {count(live.steps)}, {count(live.tokens)} of "
        f"{count(live.all_tokens)} tokens"
    )


# --- what came out --------------------------------------------------------------------------------


def show(done: Done, dark: bool) -> None:
    """Measured beside simulated."""
    ran, first = done.ran, done.ran[0].run
    st.subheader("Measured beside simulated", anchor=False)
    st.markdown(results.headline(ran))
    quiet(done)
    lanes(results.lanes(ran, done.comparisons), key="real_lanes")
    st.caption(
        f"{results.machine(first)}. Arrivals follow the clock of the steps; idle time is skipped. "
        f"A gap is marked from {seconds(results.gap_limit_s(ran))} on, "
        f"{results.GAP_FACTOR:g} times the median step. {results.spans(first)}"
    )
    for note in dict.fromkeys(note for one in ran for note in one.notes):
        st.info(f"Cut to this machine: {note}.")
    st.markdown(error_line(done))
    tables = [
        table.style(dark) + figures.table(one.title, results.rows(comparison))
        for one, comparison in zip(ran, done.comparisons, strict=True)
    ]
    left, right = st.columns(2)
    if len(tables) > 1:
        left.html(tables[0])
        right.html(tables[1])
        scatter(done, dark)
    else:
        right.html(tables[0])
        with left:
            scatter(done, dark)
    generated(done)


def scatter(done: Done, dark: bool) -> None:
    """Every step at its simulated and its measured time."""
    points = [
        results.points(one.title, comparison)
        for one, comparison in zip(done.ran, done.comparisons, strict=True)
    ]
    st.plotly_chart(
        figures.scatter(points, dark), theme=None, config=figures_panel.CONFIG, key="real_scatter",
        alt=f"Measured over simulated time of each step. {plain(done)}",
    )  # fmt: skip


def quiet(done: Done) -> None:
    """Whether the times count, said aloud."""
    why = [
        f"{one.title}: {one.run.served.contaminated_why}"
        for one in done.ran
        if one.run.served.contaminated
    ]
    if why:
        st.warning(
            f"**The machine was not quiet**: {'. '.join(why)}. The measured times are those of "
            "a shared machine: no promise holds for them."
        )
    else:
        st.success("The machine was quiet while it ran: the measured times are its own.")


def error_line(done: Done) -> str:
    """The error of the simulated steps, before and after a calibration."""
    now = results.step_error(done.comparisons)
    if done.calibrated is None:
        how = "with a first guess, from this machine's memory bandwidth and its best matrix product"
        if done.ran[0].run.order.resolved.replicas[0].profile is not None:
            how = "with the scenario's measured profile"
        return f"Step times, simulated {how}: off by **{now:.0%}** in the mean."
    was = results.step_error(done.first_guess)
    return f"Step times, calibrated: off by **{now:.1%}** in the mean, {was:.0%} before."


def plain(done: Done) -> str:
    return error_line(done).replace("**", "")


def generated(done: Done) -> None:
    """The text of every request."""
    with st.expander("What was generated", key="real_texts", on_change="rerun") as box:
        if not box.open:
            return
        run = done.ran[0].run
        if run.loaded.random:
            st.caption(RANDOM_TEXT)
        label = run.order.workload.label
        st.html(
            figures.texts([(label(r), run.text(r)) for r in range(len(run.recording.requests))])
        )

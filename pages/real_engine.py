"""Real engine: the simulator's scheduler drives PyTorch; measured beside simulated."""

import streamlit as st

from ui import address, frame, glossary
from ui.real import board, calibration, form, limits, offers, plan, server, session
from ui.six_ways import knobs, yours
from ui.six_ways.form import MOST
from ui.six_ways.ways import LONE_WAYS, way_of

frame.required("real_engine")
form.REAL_ENGINE.enter()
DARK = st.context.theme.type == "dark"

st.title("Real engine", anchor=False)
st.html(
    glossary.marked(
        "The same scheduler, without the simulation: every [[step]] it plans is computed by "
        "PyTorch on this server, prompts and [[decodes|decode]] together, over a paged "
        "[[KV cache]]. Then the simulation of the same requests stands beside what was measured."
    )
)
if not offers.torch_is_here():
    limits.without_torch()
    calibration.bring()
    address.write()
    st.stop()

labels = {preset.id: preset.label for preset in (*plan.PRESETS, yours.YOURS)}
workload = st.pills(
    "Workload", list(labels), required=True, format_func=labels.__getitem__,
    key=form.WORKLOAD.widget(), label_visibility="collapsed",
)  # fmt: skip
if workload == yours.YOURS.id:
    yours.choose()
with st.container(border=True):
    first, second, third = st.columns([2, 1, 1], vertical_alignment="bottom")
    model = first.selectbox(
        "Model", offers.names(), format_func=offers.title, key=form.MODEL.widget()
    )
    titles = {way.engine: way.title for way in LONE_WAYS}
    engine = second.selectbox(
        "Policy", list(titles), format_func=titles.__getitem__, key=form.ENGINE.widget()
    )
    third.selectbox(
        "Measured beside it", list(plan.BESIDE), format_func=plan.BESIDE.__getitem__,
        key=form.BESIDE.widget(),
    )  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="bottom"):
        with st.popover(f"Knobs of {titles[engine]}"):
            knobs.turn(way_of(engine), form.KNOBS, MOST)
        with st.popover("Sampling and arrivals"):
            st.number_input(
                "Temperature (0: greedy)", *form.temperatures(), step=0.1,
                key=form.TEMPERATURE.widget(),
            )  # fmt: skip
            st.number_input("Seed", 0, form.MOST_SEED, key=form.SEED.widget())
            if workload == plan.POISSON.id:
                st.number_input("Requests per second", *form.RATES, key=form.RATE.widget())
    if limits.ready(model):
        board.run_button()

board.watch()
if problem := board.problem():
    st.error(problem)
done = session.done()
if done is not None:
    board.show(done, DARK)
    calibration.panel(done)
elif session.ticket() is None and not problem:
    st.info("Nothing has run yet. With the smallest model a run takes seconds on any processor.")
calibration.bring()
limits.what_it_shows(done)
server.panel()
form.REAL_ENGINE.keep()
address.write()

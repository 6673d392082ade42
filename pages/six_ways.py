"""Six ways to batch: the same requests, the same GPU, one clock. Only the scheduler differs."""

import streamlit as st

from ui import address, controls, frame, glossary, machines, models
from ui.six_ways import board, figures_of, form, knobs, lanes, table, ways, yours

frame.required("six_ways")
form.SIX_WAYS.enter()
DARK = st.context.theme.type == "dark"

top = st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center")
top.title("Six ways to batch", anchor=False, width="content")
hardware = top.popover("Model and GPU")
introduction = st.container()
labels = {preset.id: preset.label for preset in (*ways.PRESETS, yours.YOURS)}
preset = st.pills(
    "Workload",
    list(labels),
    required=True,
    format_func=labels.__getitem__,
    key=form.WORKLOAD.widget(),
    label_visibility="collapsed",
)
preset = preset or ways.PRESETS[0].id
if preset == yours.YOURS.id:
    yours.choose()
with hardware:
    gpu_key = form.GPU_FIELD.widget()
    model, tp = form.MODEL_FIELD.value, 1
    profile = machines.profile(st.session_state[gpu_key])
    if profile is not None:
        st.caption(f"Model: {profile.model}, which the profile was measured with.")
    else:
        model = models.choose(st, form.MODEL_FIELD.widget(), form.MODEL)
    gpu = st.selectbox(
        "GPU", machines.names(st.session_state[gpu_key]), format_func=machines.title, key=gpu_key
    )  # fmt: skip
    if profile is None:
        tp = st.selectbox("GPUs (TP)", form.PARALLEL, key=form.TP.widget())
titles = {way.engine: way.title for way in ways.WAYS}
engines = st.pills(
    "Ways shown",
    list(titles),
    selection_mode="multi",
    format_func=titles.__getitem__,
    key=form.ENGINES.widget(),
    label_visibility="collapsed",
)
shown = [way for way in ways.WAYS if way.engine in engines]
servers = board.servers_of(engines)
wanted = board.asked(preset, model, gpu, tp, servers)
same = "the same GPU" if servers == 1 else f"{servers * tp} GPUs each, as {servers} servers"
with introduction:
    st.html(
        glossary.marked(
            f"The same requests, {same}, one clock. Only the scheduler differs: who may join, "
            "whose [[prefill]] runs, and which [[decode|decode]] waits meanwhile."
        )
    )

if wanted is None:  # nothing came along: what to do stands above
    form.SIX_WAYS.keep()
    address.write()
    st.stop()
place = st.empty()  # only while ways take their time
found = board.outcomes_of(engines, wanted, place.progress)
place.empty()
outcomes = found.outcomes
if found.refused and not outcomes:
    same = set(found.refused.values())
    why = same.pop() if len(same) == 1 else "Choose another model or GPU above."
    st.error(f"{wanted.server}: no way starts. {why}")
else:
    st.markdown(figures_of.headline(outcomes))
if engines:
    lanes(found.packet, key="six_lanes")
else:
    st.info("No way is shown. Choose some above.")
for engine, problem in found.refused.items() if outcomes else ():
    st.warning(f"{titles[engine]} does not start: {problem}")
for note in found.notes:
    st.caption(note)
controls.sureness(figures_of.sure(outcomes))

with st.container(horizontal=True, key="six_knobs"):
    st.markdown(":gray[Change the knobs of]", width="content")
    for way in shown:
        with st.popover(way.title):
            knobs.turn(way, form.KNOBS, form.MOST)

if outcomes:
    st.subheader("The trade-offs", anchor=False)
    st.html(table.style(DARK) + table.matrix(outcomes, str(wanted.server)))
    st.html(table.style(DARK) + table.wasted(outcomes))
    st.subheader("What each does here", anchor=False)
    told = [(outcome.way.title, figures_of.verdict(outcome)) for outcome in outcomes]
    st.html(table.style(DARK) + table.verdicts(told))
    st.caption(
        "All ways have the same KV memory a server, no prefix cache. Compute and bandwidth used "
        "count the model's own work; padding is left out. vLLM V0's own chunked mode is not here: "
        "Sarathi-Serve, from which it came, stands in for it."
    )

st.subheader("The rules, from the running code", anchor=False)
for way in shown:
    with st.expander(way.title, key=f"six_source_{way.engine}", on_change="rerun") as box:
        if box.open:
            st.code(board.source(way), language="python", line_numbers=True)
form.SIX_WAYS.keep()
address.write()

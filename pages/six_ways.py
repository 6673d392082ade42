"""Six ways to batch: the same requests, the same GPU, one clock. Only the scheduler differs."""

import streamlit as st

from sim import catalog
from ui import frame, glossary, phases
from ui.six_ways import board, figures_of, lanes, table, ways

frame.required("six_ways")
DARK = st.context.theme.type == "dark"

top = st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center")
top.title("Six ways to batch", anchor=False, width="content")
with top.popover("Model and GPU"):
    model = phases.choice(st, "Model", catalog.model_names(), "Llama-3.1-8B", "six_model")
    gpu = phases.choice(st, "GPU", catalog.gpu_names(), "h100_sxm", "six_gpu")
st.html(
    glossary.marked(
        "The same requests, the same GPU, one clock. Only the scheduler differs: who may join, "
        "whose [[prefill]] runs, and which [[decode|decode]] waits meanwhile."
    )
)
labels = {preset.id: preset.label for preset in ways.PRESETS}
preset = st.pills(
    "Workload",
    list(labels),
    default=ways.PRESETS[0].id,
    required=True,
    format_func=labels.__getitem__,
    key="six_preset",
    label_visibility="collapsed",
)
preset = preset or ways.PRESETS[0].id
titles = {way.engine: way.title for way in ways.WAYS}
engines = st.pills(
    "Ways shown",
    list(titles),
    default=list(ways.FIRST_SHOWN),
    selection_mode="multi",
    format_func=titles.__getitem__,
    key="six_engines",
    label_visibility="collapsed",
)

place = st.empty()  # only while an engine's code is compiled for the first time
outcomes, packet, refused = board.outcomes_of(engines, preset, model, gpu, place.progress)
place.empty()
if refused and not outcomes:
    st.error(f"{board.where(model, gpu)}: no way starts. Choose another model or GPU above.")
else:
    st.markdown(figures_of.headline(outcomes))
if engines:
    lanes(packet, key="six_lanes")
else:
    st.info("No way is shown. Choose some above.")
for engine, problem in refused.items() if outcomes else ():
    st.warning(f"{titles[engine]} does not start: {problem}")

shown = [way for way in ways.WAYS if way.engine in engines]
with st.container(horizontal=True, key="six_knobs"):
    st.markdown(":gray[Change the knobs of]", width="content")
    for way in shown:
        with st.popover(way.title):
            board.turn_knobs(way)

if outcomes:
    st.subheader("The trade-offs", anchor=False)
    st.html(table.style(DARK) + table.matrix(outcomes, board.where(model, gpu)))
    st.html(table.style(DARK) + table.wasted(outcomes))
    st.subheader("What each does here", anchor=False)
    told = [(outcome.way.title, figures_of.verdict(outcome)) for outcome in outcomes]
    st.html(table.style(DARK) + table.verdicts(told))
    st.caption(
        f"Simulated. {figures_of.sureness(outcomes)} All ways have the same KV memory, and no "
        "prefix cache. Compute and bandwidth used count the model's own work; padding is left "
        "out. vLLM V0's own chunked mode is not here: Sarathi-Serve, from which it came, stands "
        "in for it."
    )

st.subheader("The rules, from the running code", anchor=False)
for way in shown:
    with st.expander(way.title, key=f"six_source_{way.engine}", on_change="rerun") as box:
        if box.open:
            st.code(board.source(way), language="python", line_numbers=True)

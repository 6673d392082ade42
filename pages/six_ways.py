"""Six ways to batch: the same requests, the same GPU, one clock. Only the scheduler differs."""

import streamlit as st

from ui.charts import html_table
from ui.lanes import lanes
from ui.scenarios import ways
from ui.shell.frame import is_dark, page
from ui.six_ways import controller, form, outcomes, sections, trade_offs
from ui.text import glossary
from ui.widgets import controls, engine_knobs, your_scenario

with page("six_ways", form.SIX_WAYS):
    top = st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    )
    top.title("Six ways to batch", anchor=False, width="content")
    hardware = top.popover("Model and GPU")
    introduction = st.container()
    labels = {preset.id: preset.label for preset in (*ways.PRESETS, your_scenario.YOURS)}
    preset = st.pills(
        "Workload", list(labels), required=True, format_func=labels.__getitem__,
        key=form.WORKLOAD.widget(), label_visibility="collapsed",
    ) or ways.PRESETS[0].id  # fmt: skip
    if preset == your_scenario.YOURS.id:
        your_scenario.choose()
    with hardware:
        server = sections.server()
    titles = {way.engine: way.title for way in ways.WAYS}
    engines = st.pills(
        "Engines shown", list(titles), selection_mode="multi", format_func=titles.__getitem__,
        key=form.ENGINES.widget(), label_visibility="collapsed",
    )  # fmt: skip
    shown = [way for way in ways.WAYS if way.engine in engines]
    servers = controller.servers_of(engines)
    wanted = controller.asked(preset, server, servers)
    same = "the same GPU" if servers == 1 else f"{servers * server.tp} GPUs, {servers} servers"
    with introduction:
        st.html(
            glossary.marked(
                f"The same requests, {same}, one clock. Only the scheduler differs: which requests "
                "it admits, whose [[prefill]] runs, and which [[decodes|decode]] wait meanwhile."
            )
        )
    if wanted is None:  # there is no scenario yet: what to do is said above
        st.stop()

    place = st.empty()  # used only while runs take their time
    found = controller.outcomes_of(engines, wanted, place.progress)
    place.empty()
    if found.refused and not found.outcomes:
        why = next(iter(found.refused.values()))  # the lanes have the reason of each
        st.error(f"{wanted.server}: no engine starts. {why}")
    else:
        st.markdown(outcomes.headline(found.outcomes))
    if engines:
        lanes(found.packet, key="six_lanes")
    else:
        st.info("No engine is shown. Choose some above.")
    for engine, problem in found.refused.items() if found.outcomes else ():
        st.warning(f"{titles[engine]} does not start: {problem}")
    for note in found.notes:
        st.caption(note)
    controls.confidence(outcomes.confidence(found.outcomes))

    with st.container(horizontal=True, key="six_knobs"):
        st.markdown(":gray[Change the knobs of]", width="content")
        for way in shown:
            with st.popover(way.title):
                engine_knobs.show(way, form.KNOBS)

    if found.outcomes:
        style = html_table.style(is_dark())
        st.subheader("The trade-offs", anchor=False)
        st.html(style + trade_offs.matrix(found.outcomes, str(wanted.server)))
        st.html(style + trade_offs.wasted(found.outcomes))
        st.subheader("What each engine does here", anchor=False)
        verdicts = [(outcome.way.title, outcomes.verdict(outcome)) for outcome in found.outcomes]
        st.html(style + trade_offs.verdicts(verdicts))
        st.caption(
            "All engines have the same KV memory per server and no prefix cache. Compute and "
            "bandwidth used count the model's own work; padding is left out. vLLM V0's own chunked "
            "mode is not included; it came from Sarathi-Serve, which is."
        )

    st.subheader("The rules, from the running code", anchor=False)
    for way in shown:
        with st.expander(way.title, key=f"six_source_{way.engine}", on_change="rerun") as box:
            if box.open:
                st.code(controller.source(way), language="python", line_numbers=True)

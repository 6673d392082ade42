"""Real engine: the simulator's scheduler drives PyTorch; measured beside simulated."""

import streamlit as st

from ui.real_engine import (
    calibration,
    controller,
    form,
    model_list,
    own_server,
    plan,
    runs,
    sections,
)
from ui.shell.frame import page
from ui.text import glossary
from ui.widgets import your_scenario

with page("real_engine", form.REAL_ENGINE):
    st.title("Real engine", anchor=False)
    st.html(
        glossary.marked(
            "The same scheduler without the simulation: PyTorch on this server computes every "
            "[[step]] that it plans, prompts and [[decodes|decode]] together, over a paged "
            "[[KV cache]]. The simulation of the same requests is shown beside the measured run."
        )
    )
    if not model_list.torch_is_here():
        sections.without_torch()
        calibration.import_section()
        st.stop()

    labels = {preset.id: preset.label for preset in (*plan.PRESETS, your_scenario.YOURS)}
    workload = st.pills(
        "Workload", list(labels), required=True, format_func=labels.__getitem__,
        key=form.WORKLOAD.widget(), label_visibility="collapsed",
    )  # fmt: skip
    if workload == your_scenario.YOURS.id:
        your_scenario.choose()
    with st.container(border=True):
        model = sections.choices(has_rate=workload == plan.POISSON.id)
        if sections.ready(model):
            controller.run_button()

    controller.watch()
    problem, finished = controller.problem(), runs.finished()
    if problem:
        st.error(problem)
    if finished is not None:
        controller.show(finished)
        calibration.panel(finished)
    elif runs.job() is None and not problem:
        st.info("Nothing has run yet. With the smallest model a run takes seconds, also on a CPU.")
    calibration.import_section()
    sections.what_it_shows(finished)
    own_server.panel()

"""Disaggregation: prefill and decode on separate servers, and when that pays."""

import streamlit as st

from ui.charts import html_table
from ui.disaggregation import (
    captions,
    controller,
    crossover_section,
    form,
    sections,
    settings,
)
from ui.disaggregation.setup import BY_ID, PRESETS
from ui.lanes import lanes
from ui.shell.frame import is_dark, page
from ui.shell.kernels import end_of_first_picture
from ui.text import glossary
from ui.widgets import controls

with page("disaggregation", form.DISAGGREGATION):
    top = st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    )
    top.title("Disaggregation", anchor=False, width="content")
    with top.container(horizontal=True, width="content"):
        hardware, link, load = (st.popover(name) for name in ("Servers", "Link", "Load and limits"))
    st.html(
        glossary.marked(
            "[[Disaggregation|disaggregation]]: [[prefill]] on some servers, [[decode]] on others. "
            "Prompts no longer delay the next tokens of other requests. In return the [[KV cache]] "
            "has to be transferred, and each pool can have the wrong size."
        )
    )
    preset = st.pills(
        "Preset", list(BY_ID), required=True, format_func=lambda name: BY_ID[name].label,
        key=form.PRESET.widget(), label_visibility="collapsed",
    ) or PRESETS[0].id  # fmt: skip
    st.caption(BY_ID[preset].story)
    settings.main()
    with hardware:
        model = settings.servers(form.CHOICES["model"].usual)
    with link:
        settings.links()
    with load:
        settings.load()
    setup = form.setup(model)

    with st.spinner("Running both"):
        shown = controller.shown(setup)
    split, mixed = shown.disaggregated, shown.co_located
    if isinstance(split, str):
        st.error(captions.refused(split, mixed))
    else:
        st.markdown(captions.headline(split, mixed, setup))
    if not isinstance(split, str) or mixed != split:  # else there is nothing to draw
        lanes(shown.packet, key="pd_lanes")
    if not isinstance(split, str) and split.recording.status != "finished":
        st.warning(f"The disaggregated run did not finish: {split.recording.reason}.")
    if setup.requests > controller.MOST_DRAWN:
        st.caption(
            f"The lanes draw {controller.MOST_DRAWN} of {setup.requests} requests; figures count "
            "all of them."
        )
    controls.confidence(shown.confidence)

    if not isinstance(split, str) and not isinstance(mixed, str):
        end_of_first_picture()
        found = captions.figures(split, mixed)
        best = controller.best_budget(repr(setup), setup)
        st.subheader("Disaggregated or co-located", anchor=False)
        st.markdown(f"“Disaggregation is always better.” {captions.claim(found, setup, best)}")
        st.html(html_table.style(is_dark()) + sections.side_by_side(found, setup))
        st.caption(
            "Goodput: requests per second that finish, get their first token within "
            f"{setup.ttft_ms:g} ms and have no gap above {setup.itl_ms:g} ms. Both sides have the "
            "same servers, the same requests and a router that counts outstanding tokens."
        )

    st.subheader("How much KV is transferred", anchor=False)
    sections.kv_formula(setup, split)

    st.subheader("Where disaggregation pays", anchor=False)
    crossover_section.show(setup, is_dark())

    st.subheader("The effect of a wrong ratio", anchor=False)
    sections.ratios(setup)

    if not isinstance(split, str):
        st.subheader("The path of one request", anchor=False)
        sections.one_request(split)

    st.subheader("Configuration files", anchor=False)
    sections.configuration(setup)

"""Token budget: each step spends a budget of tokens; which requests get them, and which wait."""

import streamlit as st

from ui.scenarios import presets
from ui.shell import address_bar, session
from ui.shell.frame import page
from ui.text import glossary
from ui.token_budget import controller, form, sections
from ui.widgets.upload import uploader

with page("token_budget"):
    form.follow_widgets()
    controller.act()
    top = st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    )
    top.title("Token budget", anchor=False, width="content")
    st.html(
        glossary.marked(
            "In every step, the scheduler has a [[budget of tokens|token budget]] to spend. "
            "[[Decodes|decode]] take one token each; the [[prefill]] of a prompt takes what is "
            "left."
        )
    )
    if address_bar.shows("presets"):
        sections.preset_pills((*presets.TOKEN_BUDGET, presets.YOUR_TRACE))
    if session.run().preset == presets.YOUR_TRACE.id:
        upload = uploader()
        if upload is None:
            sections.no_trace_yet(presets.TOKEN_BUDGET[0])
            st.stop()
        session.use(upload)
    if address_bar.shows("settings"):
        with top.popover("More settings"):
            sections.more_settings(session.run().settings)
    controller.board()

"""Token budget: every step spends a budget of tokens; who gets them, and who waits."""

import streamlit as st

from ui import address, board, controls, frame, glossary, presets, state
from ui.upload import uploader

frame.required("token_budget")
state.enter()
if action := st.session_state.pop("action", None):
    board.act(action)

top = st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center")
top.title("Token budget", anchor=False, width="content")
st.html(
    glossary.marked(
        "Every step, the scheduler has a [[budget of tokens|token budget]] to spend. "
        "[[Decodes|decode]] take one each; the [[prefill]] of a prompt takes what is left."
    )
)
if address.shows("presets"):
    controls.preset_pills((*presets.TOKEN_BUDGET, presets.YOUR_TRACE), key="preset")
if state.run().preset == presets.YOUR_TRACE.id:
    upload = uploader()
    if upload is None:
        controls.no_trace_yet(presets.TOKEN_BUDGET[0])
        st.stop()
    state.use(upload)
state.follow_widgets()
if address.shows("settings"):
    with top.popover("More settings"):
        controls.more_settings(state.run().settings)

board.board()

"""Batchscope's table of contents: the frame that every page stands in, and the start-up."""

import gc

import streamlit as st

from ui import frame

frame.configure()


@st.cache_resource(show_spinner="Getting the simulator ready, once after an update")
def start_up() -> None:
    """Once a process: compile or load the kernels, then take everything so far out of
    collection."""
    frame.warm_up()
    gc.collect()
    gc.freeze()


start_up()
groups = {
    "": [st.Page("pages/start.py", title="Start here", default=True)],
    "Learn": [
        st.Page("pages/two_phases.py", title="Two phases"),
        st.Page("pages/six_ways.py", title="Six ways to batch"),
        st.Page("pages/token_budget.py", title="Token budget"),
        st.Page("pages/kv_memory.py", title="KV memory"),
        st.Page("pages/disaggregation.py", title="Disaggregation"),
    ],
    "Use": [st.Page("pages/real_engine.py", title="Real engine")],
    "Practise": [st.Page("pages/reference.py", title="Reference")],
}
page = frame.navigation(groups)
if frame.stand_in(groups, page):
    page.run()

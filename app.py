"""Batchscope's table of contents: the frame that every page stands in, and the start-up."""

import gc
from itertools import chain

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
token_budget = st.Page("pages/token_budget.py", title="Token budget")
first = st.Page(lambda: st.switch_page(token_budget), title="Batchscope", default=True)
groups = {"Learn": [token_budget]}
page = st.navigation([first, *chain.from_iterable(groups.values())], position="hidden")
frame.stand_in(groups)
page.run()

"""Token budget's way to the real engine: the scenario goes along."""

import streamlit as st

from ui import address, frame, link, state
from ui.real import form

PAGE = "real_engine"


def run_it_for_real() -> None:
    """A box with a link that carries the run looked at."""
    if not frame.exists(PAGE):
        return
    with st.container(border=True, key="run_for_real"):
        st.markdown(
            "**Run this on the real engine.** The same requests under the same budget, computed by "
            "PyTorch on this server: cut to what it can do, and measured."
        )
        query = link.write(state.choice(), address.frame()) | form.along()
        st.page_link(
            f"pages/{PAGE}.py", label=":blue[Take this scenario there]", query_params=query
        )

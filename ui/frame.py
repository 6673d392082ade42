"""The frame of every page: the sidebar, and what happens before the first page is shown."""

import contextlib
from collections.abc import Mapping, Sequence

import streamlit as st
from streamlit.errors import StreamlitAPIException
from streamlit.navigation.page import StreamlitPage

from sim.run import simulate
from ui import presets, runs
from ui.timeline import packet


def warm_up() -> None:
    """Run the first preset once, so that no reader waits for a compiler."""
    result = simulate(presets.scenario_of(presets.TOKEN_BUDGET[0].id))
    packet.build([runs.lane_of(result, "Now")])


# What the theme file has no word for: margins of the page.
STYLE = """<style>
.stMainBlockContainer { padding-inline: clamp(1rem, 2.4vw, 2rem); max-width: 1280px; }
.st-key-tiles > div { min-width: 9.5rem; flex: 1 1 9.5rem; }
@media print { .stSidebar, header, .stPills, .stPopover { display: none !important; } }
</style>"""


def configure() -> None:
    """The page's width and the sidebar's, in px; Streamlit wants it first."""
    st.set_page_config(layout="wide", initial_sidebar_state=220)


def stand_in(groups: Mapping[str, Sequence[StreamlitPage]]) -> None:
    """Build the frame around the page that is about to run."""
    st.session_state["framed"] = True
    wanted = st.session_state.pop("wanted_page", None)
    for page in (page for pages in groups.values() for page in pages):
        if page.url_path == wanted:
            st.switch_page(page)
    st.html(STYLE)
    sidebar(groups)


def required(url_path: str) -> None:
    """Called by every page: make sure that it stands in its frame.

    Before a server has run app.py once, Streamlit runs a page of pages/ that is opened by its
    address without the frame. Such a visitor is led through app.py, which brings him back.
    """
    if st.session_state.get("framed"):
        return
    st.session_state["wanted_page"] = url_path
    configure()
    with contextlib.suppress(StreamlitAPIException):  # a page run on its own, as a test does
        st.switch_page("app.py")


def sidebar(groups: Mapping[str, Sequence[StreamlitPage]]) -> None:
    """The name, and the pages under the headings of their groups."""
    with st.sidebar:
        st.markdown("#### Batchscope")
        for heading, pages in groups.items():
            st.markdown(f":small[:gray[{heading.upper()}]]")
            for page in pages:
                st.page_link(page, label=page.title, width="stretch")

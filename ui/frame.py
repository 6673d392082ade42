"""The frame of every page: the sidebar, the page's place in the path, and what happens before the
first page is shown."""

import contextlib
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Literal
from urllib.parse import urlsplit

import streamlit as st
from streamlit.errors import StreamlitAPIException
from streamlit.navigation.page import StreamlitPage

from sim.results.run import simulate
from ui import address, glossary, lost, presets, runs
from ui.forms import FORMS
from ui.timeline import packet

RUNS_ON = ("token_budget", *FORMS)  # pages whose address says what they show
Groups = Mapping[str, Sequence[StreamlitPage]]


def warm_up() -> None:
    """Run the first preset once, so that no reader waits for a compiler."""
    result = simulate(presets.scenario_of(presets.TOKEN_BUDGET[0].id))
    packet.build([runs.lane_of(result, "Now")])


# What the theme file has no word for: margins of the page.
STYLE = """<style>
.stMainBlockContainer { padding-inline: clamp(1rem, 2.4vw, 2rem); max-width: 1280px; }
.st-key-tiles > div { min-width: 9.5rem; flex: 1 1 9.5rem; }
[data-testid="stSidebarHeader"] { position: absolute; right: 0; top: 0; z-index: 2; margin: 0;
  height: 3.25rem; }
[data-testid="stSidebarUserContent"] { padding-top: 1rem; }
.st-key-path { min-height: 2rem; margin-bottom: -0.75rem; }
.stMainBlockContainer h1 { padding: 0 0 0.25rem; }
[data-testid="stMetricDelta"] > div { white-space: normal; overflow: visible; }
@media (max-width: 768px) {
  .stMainBlockContainer { padding-top: 0.6rem; }
  .st-key-path { padding-left: 3rem; min-height: 2.5rem; }
  [data-testid="stHeader"] { background: transparent; pointer-events: none; height: 3.25rem; }
  [data-testid="stHeader"] button { pointer-events: auto; background: var(--st-background-color); }
}
@media print { .stSidebar, header, .stPills, .stPopover, .st-key-path, .stExpander
  { display: none !important; } }
</style>"""


def configure() -> None:
    """The page's width and the sidebar's, in px; Streamlit wants it first."""
    st.set_page_config(layout="wide", initial_sidebar_state=220)


def navigation(groups: Groups) -> StreamlitPage:
    """The page that the address asks for; for one that is none, a page that says so."""
    known = list(chain.from_iterable(groups.values()))
    path = urlsplit(st.context.url or "").path.strip("/")
    path = path.removeprefix(str(st.get_option("server.baseUrlPath")).strip("/")).strip("/")
    pages = list(known)
    if path and path not in {page.url_path for page in known}:
        name = path.rsplit("/", maxsplit=1)[-1]
        wrong = lambda: lost.page(path, known)  # noqa: E731
        with contextlib.suppress(StreamlitAPIException):
            pages.append(st.Page(wrong, title="No such page", url_path=name, visibility="hidden"))
    return st.navigation(pages, position="hidden")


def stand_in(groups: Groups, page: StreamlitPage) -> bool:
    """Build the frame around the page that is about to run. Returns whether it may run: an address
    that cannot be followed gets a page of its own."""
    st.session_state["framed"] = True
    known = list(chain.from_iterable(groups.values()))
    st.session_state["pages"] = {page.url_path for page in known}
    wanted = st.session_state.pop("wanted_page", None)
    for other in known:
        if wanted is not None and other.url_path == wanted:
            st.switch_page(other, query_params=st.query_params.to_dict())
    refused = address.arrive(page.url_path)
    st.html(STYLE + glossary.STYLE + extra_style())
    sidebar(groups)
    if refused is not None:
        lost.refused(refused)
        return False
    path_bar(groups, page)
    return True


def exists(url_path: str) -> bool:
    """Is there such a page in the navigation?"""
    return url_path in st.session_state.get("pages", ())


def extra_style() -> str:
    """Larger for a projector; without header and sidebar inside another page."""
    rules = ""
    if (scale := address.frame().scale) != 1:
        rules += f".stMainBlockContainer {{ zoom: {scale:g}; max-width: none; }}"
    if st.context.theme.type == "dark":  # its primary colour is bright: dark text on it
        rules += "button[kind=primary]:enabled p { color: #0e1117; }"
    if st.context.is_embedded:
        rules += ".stSidebar, [data-testid=stHeader] { display: none; }"
    return f"<style>{rules}</style>" if rules else ""


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
        st.switch_page("app.py", query_params=st.query_params.to_dict())


def sidebar(groups: Groups) -> None:
    """The name, and the pages under the headings of their groups."""
    with st.sidebar:
        st.markdown("#### Batchscope")
        for heading, pages in groups.items():
            if heading:
                st.markdown(f":small[:gray[{heading.upper()}]]")
            for page in pages:
                link(page, page.title, "stretch")


def link(page: StreamlitPage, label: str, width: Literal["stretch", "content"]) -> None:
    """A link to a page; one that shows a run or choices gets their address along, so that its own
    address says from the first moment what it shows."""
    here = st.session_state.get("address_page") == page.url_path
    query = address.along(page.url_path) if page.url_path in RUNS_ON and not here else None
    st.page_link(page, label=label, width=width, query_params=query)


def path_bar(groups: Groups, page: StreamlitPage) -> None:
    """Where this page stands among the others, and the next one."""
    known = list(chain.from_iterable(groups.values()))
    if page not in known:
        return
    place = known.index(page)
    heading = next((name for name, pages in groups.items() if page in pages), "")
    here = f"{heading}, page" if heading else "Page"
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", key="path"
    ):
        st.markdown(f":small[:gray[{here} {place + 1} of {len(known)}]]", width="content")
        if place + 1 < len(known):
            following = known[place + 1]
            link(following, f":small[:blue[Next: {following.title}]]", "content")
        else:
            st.page_link(known[0], label=":small[:blue[Back to the start]]", width="content")

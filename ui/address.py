"""The page's address: read when a reader comes with one, written when a dial is let go."""

from urllib.parse import urlencode

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from ui import link, presets, state
from ui.choice import Choice, start_of
from ui.link import Frame, LinkError, Opened

FIRST = Choice(start_of(presets.TOKEN_BUDGET[0].id))


def arrive(page: str) -> LinkError | None:
    """Follow the address of a reader who has just come: at first, on another page, or back in his
    history. Returns what cannot be followed, to be shown in the page's place."""
    context = get_script_run_ctx()
    went_back = bool(context and context.is_history_navigation)
    new = st.session_state.get("address_page") != page
    st.session_state["address_page"] = page
    if new or went_back:
        st.session_state.pop("refused_link", None)
        query = st.query_params.to_dict()
        if query:
            _follow(query, [key for key in query if len(st.query_params.get_all(key)) > 1])
        elif went_back:  # a bare address shows the first preset
            st.session_state["written"] = None
            state.adopt(FIRST)
        else:
            st.session_state["written"] = None
    refused: LinkError | None = st.session_state.get("refused_link")
    return refused


def _follow(query: dict[str, str], twice: list[str]) -> None:
    st.session_state["written"] = {k: t for k, t in query.items() if k not in ("step", "view")}
    try:
        if twice:
            problems = {key: f"{link.shortened(key)} stands there twice" for key in twice}
            raise LinkError(problems, {k: t for k, t in query.items() if k not in problems})
        adopt(link.read(query))
    except LinkError as error:
        st.session_state["refused_link"] = error


def adopt(opened: Opened) -> None:
    """Take over what an address says."""
    st.session_state["frame"] = opened.frame
    if opened.choice is not None:
        state.adopt(opened.choice)
        st.session_state["view"] = opened.view


def go_on(error: LinkError) -> None:
    """Open a refused address without what cannot be followed."""
    st.session_state.pop("refused_link", None)
    try:
        adopt(link.read(error.rest))
    except LinkError as again:
        st.session_state["refused_link"] = again


def start_over() -> None:
    """Leave a refused address for the page as it starts."""
    for name in ("refused_link", "run", "pinned", "frame", "view", "written", "wanted_upload"):
        st.session_state.pop(name, None)


def frame() -> Frame:
    """How the page is framed, from the address."""
    found: Frame = st.session_state.get("frame", Frame())
    return found


def shows(control: str) -> bool:
    """Is this control left to the reader?"""
    left = frame().shown
    return left is None or control in left


def query() -> str:
    """The query of what is looked at now."""
    return urlencode(link.write(state.choice(), frame()))


def along() -> dict[str, str] | None:
    """The query of what is looked at, None for the first preset as it is."""
    now = link.write(state.choice(), frame())
    return None if now == link.write(FIRST) else now


def write() -> None:
    """Bring the address up to date; one entry in the history where something changed."""
    now = link.write(state.choice(), frame())
    before = st.session_state.get("written")
    st.session_state["written"] = now
    if before == now or (before is None and now == link.write(FIRST)):
        return  # a bare address stays bare until something changed
    st.query_params.from_dict(now)

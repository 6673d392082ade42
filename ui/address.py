"""The page's address: read when a reader comes with one, written when a dial is let go."""

from collections.abc import Sequence
from urllib.parse import urlencode

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from ui import form, link, presets, state
from ui.choice import Choice, start_of
from ui.forms import FORMS
from ui.link import Frame, LinkError, Opened
from ui.values import shortened

FIRST = Choice(start_of(presets.TOKEN_BUDGET[0].id))


# --- coming ---------------------------------------------------------------------------------------


def arrive(page: str) -> LinkError | None:
    """Follow the address of a reader who has just come: at first, on another page, or back in his
    history. Returns what cannot be followed, to be shown in the page's place."""
    context = get_script_run_ctx()
    went_back = bool(context and context.is_history_navigation)
    new = st.session_state.get("address_page") != page
    st.session_state["address_page"] = page
    if new:
        form.leave()
    if new or went_back:
        st.session_state.pop("refused_link", None)
        query = st.query_params.to_dict()
        if query:
            _follow(query, [key for key in query if len(st.query_params.get_all(key)) > 1])
        else:
            st.session_state["written"] = None
            if went_back:  # a bare address shows the page as it starts
                _start(page)
    refused: LinkError | None = st.session_state.get("refused_link")
    return refused


def _start(page: str) -> None:
    if page in FORMS:
        FORMS[page].adopt({})
    elif state.came_along():
        state.adopt(FIRST)


def _follow(query: dict[str, str], twice: Sequence[str] = ()) -> None:
    st.session_state["written"] = {k: t for k, t in query.items() if k not in ("step", "view")}
    try:
        if twice:
            problems = {key: f"{shortened(key)} stands there twice" for key in twice}
            raise LinkError(problems, {k: t for k, t in query.items() if k not in problems})
        _adopt_query(query)
    except LinkError as error:
        st.session_state["refused_link"] = error


def _adopt_query(query: dict[str, str]) -> None:
    """Take over an address: the keys of the page's form, and what ui.link reads. LinkError names
    everything that cannot be followed, and nothing is taken over then."""
    asked = FORMS.get(st.session_state["address_page"])
    if asked is None:
        adopt(link.read(query))
        return
    own, rest = asked.split(query)
    found, problems = asked.read(own)
    try:
        opened = link.read(rest)
    except LinkError as error:
        problems |= error.problems
        if not error.rest and rest:  # too long to be read at all
            raise
    if problems:
        raise LinkError(problems, {k: t for k, t in query.items() if k not in problems})
    adopt(opened)
    asked.adopt(found)


def adopt(opened: Opened) -> None:
    """Take over what an address says of the run."""
    st.session_state["frame"] = opened.frame
    if opened.choice is not None:
        state.adopt(opened.choice)
        st.session_state["view"] = opened.view


def go_on(error: LinkError) -> None:
    """Open a refused address without what cannot be followed."""
    st.session_state.pop("refused_link", None)
    try:
        _adopt_query(error.rest)
    except LinkError as again:
        st.session_state["refused_link"] = again


def start_over() -> None:
    """Leave a refused address for the page as it starts."""
    if left := FORMS.get(st.session_state.get("address_page", "")):
        left.adopt({})
    for name in ("refused_link", "run", "pinned", "frame", "view", "written", "wanted_upload"):
        st.session_state.pop(name, None)


# --- how it is framed -----------------------------------------------------------------------------


def frame() -> Frame:
    """How the page is framed, from the address."""
    found: Frame = st.session_state.get("frame", Frame())
    return found


def shows(control: str) -> bool:
    """Is this control left to the reader?"""
    left = frame().shown
    return left is None or control in left


# --- going ----------------------------------------------------------------------------------------


def query() -> str:
    """The query of the run that is looked at now."""
    return urlencode(link.write(state.choice(), frame()))


def query_of(page: str) -> dict[str, str]:
    """The query of a page as the session has it."""
    choices = FORMS.get(page)
    if choices is None or choices.shows_run():
        shown = link.write(state.choice() if state.came_along() else FIRST, frame())
        return shown | (choices.query() if choices else {})
    return link.write_frame(frame()) | choices.query()


def bare(page: str) -> dict[str, str]:
    """The query that a page without any shows as well."""
    return {"v": link.VERSION} if page in FORMS else link.write(FIRST)


def along(page: str) -> dict[str, str] | None:
    """The query of a page, None where it shows the same without."""
    now = query_of(page)
    return None if now == bare(page) else now


def write() -> None:
    """Bring the address up to date; one entry in the history where something changed."""
    page = st.session_state.get("address_page", "")
    now = query_of(page)
    before = st.session_state.get("written")
    st.session_state["written"] = now
    if before == now or (before is None and now == bare(page)):
        return  # a bare address stays bare until something changed
    st.query_params.from_dict(now)

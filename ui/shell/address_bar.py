"""The page's address: followed when a page is opened, written when a choice was made."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from ui.scenarios import presets
from ui.scenarios.run import Choice, start_of
from ui.shell import forms, permalink, session
from ui.shell.forms import Form
from ui.shell.lesson import Lesson
from ui.shell.permalink import Frame, LinkError, Opened
from ui.shell.query_values import shortened
from ui.shell.session import Session, kept

FIRST = Choice(start_of(presets.TOKEN_BUDGET[0].id))


@dataclass
class Address:
    """What the session knows of the address. `page`: path of the open page, None without a frame.
    `written`: the query as the page last wrote it. `refused`: a query that cannot be followed."""

    lessons: tuple[Lesson, ...] = ()
    page: str | None = None
    frame: Frame = field(default_factory=Frame)
    written: dict[str, str] | None = None
    refused: LinkError | None = None


def form_of(page: str | None) -> Form | None:
    """The form of the page at a path, None where it has none."""
    found = (lesson.form for lesson in kept(Address).lessons if lesson.path == page)
    return next(found, None)


# --- reading --------------------------------------------------------------------------------------


def arrive(page: str) -> LinkError | None:
    """Follow the address of a page that was just opened, at first, from another page or with the
    browser's Back. Returns what cannot be followed, to be shown in the page's place."""
    context, address = get_script_run_ctx(), kept(Address)
    went_back = bool(context and context.is_history_navigation)
    new = address.page != page
    address.page = page
    if new:
        forms.leave()
    if new or went_back:
        address.refused = None
        query = st.query_params.to_dict()
        if query:
            _follow(query, [key for key in query if len(st.query_params.get_all(key)) > 1])
        else:
            address.written = None
            if went_back:  # a bare address shows the page as it starts
                _start(page)
    return address.refused


def _start(page: str) -> None:
    form = form_of(page)
    if form is not None:
        form.adopt({})
    elif session.has_run():
        session.adopt(FIRST)


def _follow(query: dict[str, str], twice: Sequence[str] = ()) -> None:
    address = kept(Address)
    address.written = {k: t for k, t in query.items() if k not in ("step", "view")}
    try:
        if twice:
            problems = {key: f"{shortened(key)} is given twice" for key in twice}
            raise LinkError(problems, {k: t for k, t in query.items() if k not in problems})
        _adopt_query(query)
    except LinkError as error:
        address.refused = error


def _adopt_query(query: dict[str, str]) -> None:
    """Take over an address: the keys of the page's form, and those that permalink reads. LinkError
    names everything that cannot be followed; nothing is taken over then."""
    form = form_of(kept(Address).page)
    if form is None:
        adopt(permalink.read(query))
        return
    own, rest = form.split(query)
    found, problems = form.read(own)
    opened = None
    try:
        opened = permalink.read(rest)
    except LinkError as error:
        problems |= error.problems
        if not error.rest and rest:  # too long to be read at all
            raise
    if problems or opened is None:
        raise LinkError(problems, {k: t for k, t in query.items() if k not in problems})
    adopt(opened)
    form.adopt(found)


def adopt(opened: Opened) -> None:
    """Take over what an address says of the run."""
    kept(Address).frame = opened.frame
    if opened.choice is not None:
        session.adopt(opened.choice)
        kept(Session).view = opened.view


def open_rest(error: LinkError) -> None:
    """Open a refused address without the keys that cannot be followed."""
    address = kept(Address)
    address.refused = None
    try:
        _adopt_query(error.rest)
    except LinkError as again:
        address.refused = again


def start_over() -> None:
    """Leave a refused address for the page as it starts."""
    address = kept(Address)
    form = form_of(address.page)
    if form is not None:
        form.adopt({})
    address.refused, address.written, address.frame = None, None, Frame()
    session.start_over()


# --- how the page is framed -----------------------------------------------------------------------


def frame() -> Frame:
    """How the page is framed, from the address."""
    return kept(Address).frame


def shows(control: str) -> bool:
    """Is this control shown? An address with lock=1 hides all but some."""
    shown = frame().shown
    return shown is None or control in shown


# --- writing --------------------------------------------------------------------------------------


def query() -> str:
    """The query of the run that is looked at now."""
    return urlencode(permalink.write(session.choice(), frame()))


def query_of(page: str) -> dict[str, str]:
    """The query of a page as the session has it."""
    form = form_of(page)
    if form is None or form.shows_run():
        shown = permalink.write(session.choice() if session.has_run() else FIRST, frame())
        return shown | (form.query() if form else {})
    return permalink.write_frame(frame()) | form.query()


def bare(page: str) -> dict[str, str]:
    """The query that says the same as none."""
    return {"v": permalink.VERSION} if form_of(page) else permalink.write(FIRST)


def query_to(page: str) -> dict[str, str] | None:
    """The query for a link to a page, None where the page shows the same without."""
    now = query_of(page)
    return None if now == bare(page) else now


def write() -> None:
    """Bring the address up to date; one entry in the history where something changed."""
    address = kept(Address)
    if address.page is None:
        return
    now, before = query_of(address.page), address.written
    address.written = now
    if before == now or (before is None and now == bare(address.page)):
        return  # a bare address stays bare until something changed
    st.query_params.from_dict(now)

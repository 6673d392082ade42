"""The frame of every page: what happens before a page runs, around it, and when it is refused."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec

import streamlit as st
from streamlit.errors import StreamlitAPIException
from streamlit.runtime.scriptrunner import StopException

from sim.validation.errors import RefusalError
from ui.shell import address_bar, bad_link, kernels, navigation
from ui.shell.address_bar import Address
from ui.shell.forms import Form
from ui.shell.lesson import Lesson
from ui.shell.session import kept
from ui.text import glossary
from ui.text.suggested_fixes import refusal

Arguments = ParamSpec("Arguments")


@dataclass
class Visit:
    """`framed`: app.py has run in this session. `wanted`: path of a page that was opened before
    app.py ran, and that app.py has to open."""

    framed: bool = False
    wanted: str | None = None


# Margins, which the theme file cannot set.
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


def run(lessons: Sequence[Lesson]) -> None:
    """Run the page that the address asks for, in its frame. A link that cannot be followed gets a
    page of its own."""
    kept(Address).lessons = tuple(lessons)
    pages = navigation.pages_of(lessons)
    page = navigation.open_page(pages)
    visit = kept(Visit)
    visit.framed, wanted, visit.wanted = True, visit.wanted, None
    for _, other in pages:
        if wanted is not None and other.url_path == wanted:
            st.switch_page(other, query_params=st.query_params.to_dict())
    refused = address_bar.arrive(page.url_path)
    st.html(STYLE + glossary.STYLE + extra_style())
    navigation.sidebar(pages)
    if refused is not None:
        bad_link.show(refused)
        return
    navigation.path_bar(pages, page)
    page.run()


def extra_style() -> str:
    """Larger for a projector; without header and sidebar inside another page."""
    rules = ""
    if (scale := address_bar.frame().scale) != 1:
        rules += f".stMainBlockContainer {{ zoom: {scale:g}; max-width: none; }}"
    if st.context.theme.type == "dark":  # its primary colour is bright: dark text on it
        rules += "button[kind=primary]:enabled p { color: #0e1117; }"
    if st.context.is_embedded:
        rules += ".stSidebar, [data-testid=stHeader] { display: none; }"
    return f"<style>{rules}</style>" if rules else ""


def is_dark() -> bool:
    return st.context.theme.type == "dark"


# --- around a page --------------------------------------------------------------------------------


@contextlib.contextmanager
def page(path: str, form: Form | None = None) -> Iterator[None]:
    """What every page stands in: `with page("six_ways", SIX_WAYS):`.

    Leads a visitor through app.py, gives the widgets of the form their values, turns a refusal into
    a message, and afterwards keeps the form's values and writes the address.
    """
    _require_frame(path)
    if form is not None:
        form.enter()
    try:
        with _refusals_as_messages():
            yield
    except StopException:
        _leave(form)
        raise
    _leave(form)


def _leave(form: Form | None) -> None:
    if form is not None:
        form.keep()
        address_bar.write()


def fragment(body: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """st.fragment, with refusals as messages: a fragment runs on its own, outside of `page`."""

    @wraps(body)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        with _refusals_as_messages():
            body(*args, **kwargs)

    return st.fragment(guarded)


@contextlib.contextmanager
def _refusals_as_messages() -> Iterator[None]:
    try:
        yield
    except RefusalError as error:
        st.error(f"This cannot run: {refusal(error)}")
    except kernels.NotCompiled:
        kernels.show_progress()


def _require_frame(path: str) -> None:
    """Make sure that a page stands in its frame.

    Before a server has run app.py once, Streamlit runs a page of pages/ that is opened by its
    address without the frame. Such a visit is led through app.py, which opens the page again.
    """
    visit = kept(Visit)
    if visit.framed:
        return
    visit.wanted = path
    configure()
    with contextlib.suppress(StreamlitAPIException):  # a page run on its own, as a test does
        st.switch_page("app.py", query_params=st.query_params.to_dict())

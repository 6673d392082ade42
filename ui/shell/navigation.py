"""The way between the pages: the sidebar, the path bar above a page, and links."""

import contextlib
from collections.abc import Sequence
from itertools import groupby
from typing import Literal
from urllib.parse import urlsplit

import streamlit as st
from streamlit.errors import StreamlitAPIException
from streamlit.navigation.page import StreamlitPage

from ui.shell import address_bar, bad_link
from ui.shell.address_bar import Address
from ui.shell.lesson import Lesson
from ui.shell.session import kept

Pages = Sequence[tuple[Lesson, StreamlitPage]]


def pages_of(lessons: Sequence[Lesson]) -> Pages:
    """Each lesson with Streamlit's page of it."""
    return [
        (one, st.Page(f"pages/{one.file}.py", title=one.title, default=one.is_first))
        for one in lessons
    ]


def open_page(pages: Pages) -> StreamlitPage:
    """The page that the address asks for; for an unknown address, a page that says so."""
    path = urlsplit(st.context.url or "").path.strip("/")
    path = path.removeprefix(str(st.get_option("server.baseUrlPath")).strip("/")).strip("/")
    known = [page for _, page in pages]
    shown = list(known)
    if path and path not in {page.url_path for page in known}:

        def missing() -> None:
            bad_link.no_such_page(path, known)

        name = path.rsplit("/", maxsplit=1)[-1]
        with contextlib.suppress(StreamlitAPIException):
            shown.append(st.Page(missing, title="No such page", url_path=name, visibility="hidden"))
    return st.navigation(shown, position="hidden")


def exists(path: str) -> bool:
    """Is there such a page in the navigation?"""
    return any(lesson.path == path for lesson in kept(Address).lessons)


def sidebar(pages: Pages) -> None:
    """The name, and the pages under their headings."""
    with st.sidebar:
        st.markdown("#### Batchscope")
        for heading, group in groupby(pages, key=lambda pair: pair[0].heading):
            if heading:
                st.markdown(f":small[:gray[{heading.upper()}]]")
            for lesson, page in group:
                link(lesson, page, lesson.title, "stretch")


def link(
    lesson: Lesson, page: StreamlitPage, label: str, width: Literal["stretch", "content"]
) -> None:
    """A link to a page. It carries the query of what the page shows, so that the page's address is
    complete from the first moment."""
    here = kept(Address).page == lesson.path
    query = address_bar.query_to(lesson.path) if lesson.has_query and not here else None
    st.page_link(page, label=label, width=width, query_params=query)


def path_bar(pages: Pages, page: StreamlitPage) -> None:
    """The place of this page among the others, and a link to the next one."""
    place = next((k for k, (_, one) in enumerate(pages) if one == page), None)
    if place is None:
        return
    heading = pages[place][0].heading
    here = f"{heading}, page" if heading else "Page"
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", key="path"
    ):
        st.markdown(f":small[:gray[{here} {place + 1} of {len(pages)}]]", width="content")
        if place + 1 < len(pages):
            lesson, following = pages[place + 1]
            link(lesson, following, f":small[:blue[Next: {lesson.title}]]", "content")
        else:
            st.page_link(pages[0][1], label=":small[:blue[Back to the start]]", width="content")

"""Addresses that lead nowhere: what was wrong, in words, and ways back."""

from collections.abc import Sequence

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from ui import address
from ui.link import LinkError
from ui.values import shortened


def page(path: str, known: Sequence[StreamlitPage]) -> None:
    """There is no page of this name."""
    st.title("There is no such page", anchor=False)
    st.text(f"The address ends in {shortened(path)}, which is none of the pages here. These are:")
    for other in known:
        st.page_link(other, label=other.title)


def refused(error: LinkError) -> None:
    """A link that cannot be followed as it stands: every reason, and two ways on."""
    st.title("This link cannot be followed as it stands", anchor=False)
    st.markdown("Nothing of it is dropped in silence. What these pages cannot make sense of:")
    with st.container(border=True):
        for problem in list(error.problems.values())[:12]:
            st.text(f"{problem}.")
        if len(error.problems) > 12:
            st.text(f"and {len(error.problems) - 12} more")
    with st.container(horizontal=True):
        if error.rest:
            st.button("Open the rest of it", type="primary", on_click=address.go_on, args=(error,))
        st.button("Open the page as it starts", on_click=address.start_over)

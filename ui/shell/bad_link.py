"""Addresses that lead nowhere: what is wrong, and ways back."""

from collections.abc import Sequence

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from ui.shell import address_bar
from ui.shell.permalink import LinkError
from ui.shell.query_values import shortened

MOST_SHOWN = 12


def no_such_page(path: str, known: Sequence[StreamlitPage]) -> None:
    """There is no page of this name."""
    st.title("There is no such page", anchor=False)
    st.text(f"The address ends in {shortened(path)}, which is none of the pages here. These are:")
    for other in known:
        st.page_link(other, label=other.title)


def show(error: LinkError) -> None:
    """A link that cannot be followed as it stands: every reason, and two ways on."""
    st.title("This link cannot be followed as it stands", anchor=False)
    st.markdown("No part of a link is ignored. These parts have no meaning here:")
    with st.container(border=True):
        for problem in list(error.problems.values())[:MOST_SHOWN]:
            st.text(f"{problem}.")
        if len(error.problems) > MOST_SHOWN:
            st.text(f"and {len(error.problems) - MOST_SHOWN} more")
    with st.container(horizontal=True):
        if error.rest:
            st.button(
                "Open the rest of it", type="primary", on_click=address_bar.open_rest, args=(error,)
            )
        st.button("Open the page as it starts", on_click=address_bar.start_over)

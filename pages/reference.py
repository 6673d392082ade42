"""Reference: terms, metrics, engines, claims, sources. Each text is written down once."""

from pathlib import Path

import streamlit as st

from ui.shell import navigation
from ui.shell.frame import page
from ui.text import claims, glossary

DOCS = Path(__file__).parents[1] / "docs"


def document(name: str) -> str:
    """A text of docs/ without its title, headings one level down."""
    lines = (DOCS / name).read_text(encoding="utf-8").split("\n")
    return "\n".join(f"#{line}" if line.startswith("## ") else line for line in lines[1:])


def show_claims() -> None:
    """Each claim, what is true of it, and a link to the page that shows it."""
    st.markdown("Each of these is often said, and is wrong or only half true.")
    for claim in claims.CLAIMS:
        with st.container(border=True):
            st.markdown(f"**“{claim.claim}”**")
            st.markdown(claim.holds)
            if claim.page and navigation.exists(claim.page):
                st.page_link(f"pages/{claim.page}.py", label=":blue[See it for yourself]")


with page("reference"):
    st.title("Reference", anchor=False)
    st.html(
        glossary.marked(
            "Every term, every metric and every rule in one place. The pages use the same texts."
        )
    )
    tabs = st.tabs(["Terms", "Metrics", "Engines", "Common claims", "Sources"])
    with tabs[0]:
        st.html(glossary.as_list())
    with tabs[1]:
        st.markdown(document("metrics.md"))
    with tabs[2]:
        st.markdown(document("engines.md"))
    with tabs[3]:
        show_claims()
    with tabs[4]:
        st.markdown(document("sources.md"))

"""Reference: words, metrics, engines, claims, sources. Each text has one home; here it is shown."""

from pathlib import Path

import streamlit as st

from ui import claims, frame, glossary

DOCS = Path(__file__).parents[1] / "docs"

frame.required("reference")


def document(name: str) -> str:
    """A text of docs/ without its title, headings one level down."""
    lines = (DOCS / name).read_text(encoding="utf-8").split("\n")
    return "\n".join(f"#{line}" if line.startswith("## ") else line for line in lines[1:])


def said() -> None:
    """Each claim, what holds, and where to see it."""
    st.markdown("Each of these is often said, and wrong or only half true.")
    for claim in claims.CLAIMS:
        with st.container(border=True):
            st.markdown(f"**“{claim.said}”**")
            st.markdown(claim.holds)
            if claim.page and frame.exists(claim.page):
                st.page_link(f"pages/{claim.page}.py", label=":blue[See it for yourself]")


st.title("Reference", anchor=False)
st.html(
    glossary.marked(
        "Every word, every metric, every rule, in one place; the pages use them as they stand here."
    )
)
tabs = st.tabs(["Words", "Metrics", "Engines", "What is often said", "Sources"])
with tabs[0]:
    st.html(glossary.as_list())
with tabs[1]:
    st.markdown(document("metrics.md"))
with tabs[2]:
    st.markdown(document("engines.md"))
with tabs[3]:
    said()
with tabs[4]:
    st.markdown(document("sources.md"))

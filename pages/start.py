"""Start: what this is, seen before it is explained: four chats, a document, a freeze."""

import streamlit as st

from ui import chats, frame, freeze, glossary

KEY = "chats"

frame.required("")

st.title("Why does my chat freeze?", anchor=False)
st.html(
    glossary.marked(
        "A language model on a GPU serves many people at once, [[step]] by step; in each step a "
        "scheduler decides whose tokens are computed. When somebody sends a long document, all "
        "others may stand still for a moment, or hardly notice: the scheduler's settings decide "
        "which. Here you see every step of it, with the real scheduler's rules, and turn the "
        "dials yourself."
    )
)


@st.cache_data(max_entries=64, show_spinner=False)
def played(sent_s: float | None) -> chats.Show:
    return freeze.show(sent_s)


@st.fragment
def windows() -> None:
    """The four windows; sending the document runs this and nothing else."""
    chats.chats(played(chats.sent(KEY)), key=KEY)


windows()

NEXT = {
    "token_budget": (
        "Token budget",
        "The same freeze, step by step. Drag the budget until nobody waits, and see what the "
        "document pays for it. Your own trace can be loaded there.",
    ),
    "six_ways": (
        "Six ways to batch",
        "The same requests under every engine, from static batching to TensorRT-LLM, on one play "
        "head: what each of them makes people wait for.",
    ),
    "two_phases": (
        "Two phases",
        "Why a prompt is bound by compute and an answer by memory, on the GPU and the model of "
        "your choice.",
    ),
}

st.subheader("Where to go next", anchor=False)
for column, (page, (title, words)) in zip(st.columns(len(NEXT)), NEXT.items(), strict=True):
    with column, st.container(border=True):
        if frame.exists(page):
            st.page_link(f"pages/{page}.py", label=f":blue[**{title}**]")
        st.markdown(words)

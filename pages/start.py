"""Start: four chats, a long document, a freeze; then what the other pages show."""

import streamlit as st

from ui import chat_windows
from ui.shell import frame, navigation
from ui.shell.kernels import computed_first
from ui.start import demo
from ui.text import glossary

KEY = "chats"
NEXT = {
    "token_budget": (
        "Token budget",
        "The same freeze, step by step. Drag the budget until no chat waits, and see what the "
        "document pays for it. You can also load a trace of your own.",
    ),
    "six_ways": (
        "Six ways to batch",
        "The same requests under every engine, from static batching to TensorRT-LLM, on one "
        "clock: which requests get tokens first, and which wait.",
    ),
    "two_phases": (
        "Two phases",
        "Why a prompt is bound by compute and an answer by memory, on the GPU and the model of "
        "your choice.",
    ),
}


@st.cache_data(max_entries=64, show_spinner=False)
def played(sent_s: float | None) -> chat_windows.Show:
    return computed_first("start", str(sent_s), lambda: demo.show(sent_s))


@frame.fragment
def windows() -> None:
    """The four windows; sending the document runs this and nothing else."""
    chat_windows.chats(played(chat_windows.sent(KEY)), key=KEY)


with frame.page(""):
    st.title("Why does my chat freeze?", anchor=False)
    st.html(
        glossary.marked(
            "A language model on a GPU serves many users at once, [[step]] by step. In each step "
            "a scheduler decides which requests get their tokens computed. When one user sends a "
            "long document, the answers of all others may stop for a moment, or hardly slow down: "
            "the scheduler's settings decide which. These pages show every step of it under the "
            "real schedulers' rules, and let you change the settings."
        )
    )
    windows()
    st.subheader("Where to go next", anchor=False)
    for column, (path, (title, words)) in zip(st.columns(len(NEXT)), NEXT.items(), strict=True):
        with column, st.container(border=True):
            if navigation.exists(path):
                st.page_link(f"pages/{path}.py", label=f":blue[**{title}**]")
            st.markdown(words)

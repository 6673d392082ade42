"""What the page says of itself: without PyTorch, before SmolLM2 is here, and of what a run can
show."""

import streamlit as st

from ui.real import offers, results, work
from ui.real.session import Done

POLL_S = 0.5
FETCH = "real_fetch"


def without_torch() -> None:
    st.info(
        "PyTorch is not installed on this server, so nothing can be run for real here. "
        "`pip install torch safetensors tokenizers` brings it; all other pages work without."
    )


def ready(model: str) -> bool:
    """Can that model be run at once? If not, what to do about it is shown."""
    if model != offers.SMOLLM2 or work.is_fetched():
        return True
    job = st.session_state.get(FETCH)
    if job is None or job.look() in ("failed", "cancelled"):
        st.markdown("SmolLM2-135M-Instruct is not here yet: a download of 93 MB, once.")
        if job is not None:
            st.error(f"It could not be fetched: {job.error}.")
        st.button("Fetch SmolLM2", type="primary", on_click=fetch)
    else:
        st.fragment(fetching, run_every=POLL_S)()
    return False


def fetch() -> None:
    st.session_state[FETCH] = work.fetch()


def fetching() -> None:
    """How far the download is."""
    job = st.session_state[FETCH]
    if job.look() in ("finished", "failed", "cancelled"):
        st.rerun()
    stage, share = job.progress or ("waiting", None)
    st.progress(share or 0.0, text=f"SmolLM2: {stage}")


def what_it_shows(done: Done | None) -> None:
    """What a small model can and cannot tell about a large server."""
    with st.expander("What a small model can show, and what not"):
        st.markdown(
            "**It can** show the schedule: who is in which step, in which chunks, who waits, and "
            "what that does to the gaps between tokens. The decisions are those that the same "
            "policy takes on a large server for the same requests and times.\n\n"
            "**It cannot** show a large server's milliseconds. A small model on a large GPU is "
            "launch-bound: a step takes the time of starting its kernels, not of its arithmetic "
            "or its bytes, so more tokens in a step cost almost nothing, and chunking shows "
            "little. For a step time that follows the roofline, run random weights of a 1B to 8B "
            "shape there. On a CPU a prompt's tokens cost time from the first one on, so the "
            "stalls are real ones, only longer."
        )
        if done is not None:
            st.markdown(results.launch_bound(done.ran[0].run))

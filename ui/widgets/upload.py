"""A trace of the reader's own: the uploader, and what became of every row of the file."""

import hashlib

import streamlit as st

from sim.workload.trace_reader import Imported, TraceError, read_trace
from ui.scenarios.run import MOST_REQUESTS, Upload
from ui.shell import session
from ui.shell.session import Session, kept
from ui.text.units import count

TYPES = ("csv", "jsonl", "json", "txt")
FIRST_REFUSED = 20
ASK = (
    "A trace: Azure, Mooncake, BurstGPT, Splitwise, Vidur, a vLLM request log, or any CSV or "
    "JSONL with arrival times, prompt and output lengths"
)


def uploader() -> Upload | None:
    """Ask for a file and tell its rows; None until there is one that can be used.

    A file of this session is used again where the page was left and comes back.
    """
    now, wanted = session.upload(), kept(Session).wanted_upload
    if wanted is not None:
        # Text of a link: shown as text, never as markup.
        st.text(f"This link is about the file {wanted.name}, which is not on this server.")
        st.caption(f"Choose that file to see it (sha256 {wanted.sha256[:12]}…), or take a preset.")
    file = st.file_uploader(ASK, type=TYPES, key="trace_file", on_change=session.touch)
    if file is not None:
        content = file.getvalue()
        sha256 = hashlib.sha256(content).hexdigest()
        if wanted is not None and wanted.sha256 != sha256:
            st.warning("This is another file than the link's: its content differs.", icon=None)
        rate = wanted.rate_per_s if wanted is not None else None
        if now is not None and now.sha256 == sha256:
            rate = now.rate_per_s
        now = Upload(file.name, sha256, content, rate)
    elif now is None or wanted is not None:
        return None
    try:
        imported = _imported(now.sha256, None, now)
    except TraceError as error:
        if error.code != "no_time_column":
            st.error(f"This file cannot be used. {error}", icon=None)
            return None
        st.session_state.setdefault("trace_rate", now.rate_per_s or 2.0)
        rate = st.number_input(
            "The file has no arrival times. Requests per second to draw them with",
            min_value=0.01, key="trace_rate", on_change=session.touch,
        )  # fmt: skip
        now = Upload(now.name, now.sha256, now.content, float(rate))
        imported = _imported(now.sha256, now.rate_per_s, now)
    tell(now.name, imported)
    return now


@st.cache_resource(max_entries=8, show_spinner="Reading the file")
def _imported(sha256: str, rate_per_s: float | None, _upload: Upload) -> Imported:
    return read_trace(
        _upload.content, limit=MOST_REQUESTS, rate_per_s=rate_per_s, name=_upload.name
    )


def tell(name: str, imported: Imported) -> None:
    """Rows taken and refused, in words; the first refused ones by line."""
    refused = len(imported.refused)
    taken = f"{count(imported.taken)} of {count(imported.num_rows)} rows taken"
    parts = [f"{taken}, read as {imported.format}", f"{count(refused)} refused"]
    if imported.left_out:
        parts.append(
            f"{count(imported.left_out)} left out, a page shows {count(MOST_REQUESTS)} at most"
        )
    st.text(f"{name}: {'; '.join(parts)}.")
    if imported.notes:
        st.caption("; ".join(imported.notes).replace("_", "\\_"))
    if refused:
        with st.expander(f"{count(refused)} refused rows, the first {min(refused, FIRST_REFUSED)}"):
            first = imported.refused[:FIRST_REFUSED]
            st.table({"line": [line for line, _ in first], "reason": [why for _, why in first]})

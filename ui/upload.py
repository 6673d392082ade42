"""A trace of the reader's own: the uploader, and what became of every row of the file."""

import hashlib
from dataclasses import dataclass

import streamlit as st

from sim.scenario import Scenario
from sim.traces import Imported, TraceError, read_trace
from ui import state
from ui.settings import with_file
from ui.units import count

MOST_REQUESTS = 20_000  # on a page; the command line takes every row
TYPES = ("csv", "jsonl", "json", "txt")
FIRST_REFUSED = 20


@dataclass(frozen=True)
class Upload:
    """A file of this browser session, and the rate to draw arrivals with where it has no times."""

    name: str
    sha256: str
    content: bytes
    rate_per_s: float | None

    def scenario(self, server: Scenario) -> Scenario:
        """The requests of the file on the server of another scenario."""
        return with_file(server, self.name, self.sha256, MOST_REQUESTS, self.rate_per_s)


def uploader() -> Upload | None:
    """Ask for a file and tell its rows; None until there is one that can be used."""
    file = st.file_uploader(
        "A trace: Azure, Mooncake, BurstGPT, Splitwise, Vidur, a vLLM request log, or any CSV or "
        "JSONL with arrival times, prompt and output lengths",
        type=TYPES,
        key="trace_file",
        on_change=state.touch,
    )
    if file is None:
        return None
    content = file.getvalue()
    upload = Upload(file.name, hashlib.sha256(content).hexdigest(), content, None)
    try:
        imported = _imported(upload.sha256, None, upload)
    except TraceError as error:
        if "no time column" not in str(error):
            st.error(f"This file cannot be used. {error}", icon=None)
            return None
        rate = st.number_input(
            "The file has no arrival times. Requests per second to draw them with",
            min_value=0.01, value=2.0, key="trace_rate", on_change=state.touch,
        )  # fmt: skip
        upload = Upload(upload.name, upload.sha256, content, float(rate))
        imported = _imported(upload.sha256, upload.rate_per_s, upload)
    tell(upload.name, imported)
    return upload


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

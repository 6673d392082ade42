"""Four chat windows that type at the pace of a simulated server, and a document to send.

The JavaScript is in web/chat_windows. The page hands over the moments at which each token reaches
its reader; only the words are made up in the browser.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import streamlit as st

from ui.component import component

_SKELETON = """
<div class="skeleton" aria-hidden="true" style="height: 420px; border-radius: 12px; opacity: .5;
  background: var(--st-secondary-background-color)"></div>
"""
_mount = component("chat_windows", _SKELETON)


@dataclass(frozen=True)
class Way:
    """One way to run the document: its name, and the seconds at which tokens reach each reader.

    `document_s` is the moment of the document's first token, None until it is sent.
    """

    name: str
    tokens_s: list[list[float]]
    document_s: float | None


@dataclass(frozen=True)
class Show:
    """What the windows play. `sent_s`: when the document arrives, None until it is sent.
    `limit_s`: the gap from which on a window says that it is frozen.
    `told`: the figures of both ways in a sentence, words with their tone."""

    ways: tuple[Way, ...]
    sent_s: float | None
    document_tokens: int
    limit_s: float
    server: str
    told: list[tuple[str, str]]


def chats(show: Show, *, key: str) -> float | None:
    """Mount the windows; returns the moment at which the reader has sent the document."""
    _mount(key=key, data=json.dumps(asdict(show)), on_send_change=_ignore)
    return sent(key)


def sent(key: str) -> float | None:
    """When the document was sent, in seconds of the run; None while it was not."""
    state: Any = st.session_state.get(key)
    value = state.get("send") if isinstance(state, Mapping) else None
    at = value.get("at_s") if isinstance(value, Mapping) else None
    return float(at) if isinstance(at, int | float) and 0 < at < MOST_S else None


MOST_S = 60.0


def _ignore() -> None:
    """Registers a kind of message with Streamlit; the value is read from the state."""

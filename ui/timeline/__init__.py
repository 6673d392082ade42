"""The timeline component: dials, one sentence, the animated picture of a run, and its inspector.

A Streamlit v2 component, see ui.component; its JavaScript lies in web/timeline.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from ui.component import component
from ui.scenarios.run import Dials
from ui.timeline.envelope import Compare, Envelope, Question, View, enclose

__all__ = [
    "Compare",
    "Envelope",
    "Question",
    "Turned",
    "View",
    "asked_window",
    "timeline",
    "turned",
]

_SKELETON = """
<div class="skeleton" aria-hidden="true" style="height: 640px; border-radius: 12px; opacity: .5;
  background: linear-gradient(var(--st-secondary-background-color) 0 96px, transparent 96px 148px,
  var(--st-secondary-background-color) 148px)"></div>
"""
_mount = component("timeline", _SKELETON)


@dataclass(frozen=True)
class Turned:
    """A move of the dials: their values, in which epoch, and whether they were released."""

    dials: Dials
    epoch: int
    released: bool


def turned(key: str) -> Turned | None:
    """The newest position of the dials, before the component is mounted in this run."""
    value = _state(key).get("dials")
    if not isinstance(value, Mapping):
        return None
    try:
        dials = Dials(int(value["budget"]), int(value["cap"]))
        return Turned(dials, int(value["epoch"]), bool(value["released"]))
    except (KeyError, TypeError, ValueError):
        return None


def asked_window(key: str) -> Mapping[str, Any] | None:
    """The window on a large run that the browser asked for: order, first_row, start_s, end_s."""
    value = _state(key).get("window")
    return value if isinstance(value, Mapping) else None


def timeline(packet: bytes, envelope: Envelope, *, key: str) -> str | None:
    """Mount the component; returns the id of the button that was clicked, if any.

    `packet` comes from `packet.build` and may be empty (nothing to show yet). State that the
    browser sends is in st.session_state[key]: `dials`, `window`, `play`.
    """
    result = _mount(
        key=key,
        data=enclose(envelope, _last_message(key)) + packet,
        on_dials_change=_ignore,
        on_window_change=_ignore,
        on_play_change=_ignore,
        on_action_change=_ignore,
    )
    action = result.get("action")
    return str(action["id"]) if isinstance(action, Mapping) and "id" in action else None


def _ignore() -> None:
    """Registers a kind of message with Streamlit; the values are read from the state."""


def _state(key: str) -> Mapping[str, Any]:
    state = st.session_state.get(key)
    return state if isinstance(state, Mapping) else {}


def _last_message(key: str) -> int:
    values = [value for value in _state(key).values() if isinstance(value, Mapping)]
    return max((int(value.get("seq", 0)) for value in values), default=0)

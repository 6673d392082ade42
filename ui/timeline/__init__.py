"""The timeline component: dials, one sentence, the animated picture of a run, and its inspector.

A Streamlit v2 component. Its JavaScript lives in static/timeline as plain ES modules and is served
by Streamlit itself; the string handed to Streamlit is only a loader, with a hash of those files in
the address so that a browser never mixes two versions.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import streamlit as st

SOURCES = Path(__file__).parents[2] / "static" / "timeline"

_SKELETON = """
<div class="skeleton" aria-hidden="true" style="height: 640px; border-radius: 12px; opacity: .5;
  background: linear-gradient(var(--st-secondary-background-color) 0 96px, transparent 96px 148px,
  var(--st-secondary-background-color) 148px)"></div>
"""
_LOADER = """
const address = new URL("app/static/timeline/main.js?v=VERSION", document.baseURI).href;
export default function (component) {
  let stop = null, gone = false;
  import(address).then(({ mount }) => { if (!gone) stop = mount(component); });
  return () => { gone = true; stop?.(); };
}
"""

Parts = list[tuple[str, str | bool]]  # words, and the tone (or True for bold) they are set in


def version() -> str:
    """A hash of every file that the browser loads."""
    digest = hashlib.sha256()
    for file in sorted(SOURCES.iterdir()):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:12]


_mount = st.components.v2.component(
    "batchscope.timeline", html=_SKELETON, js=_LOADER.replace("VERSION", version())
)


@dataclass(frozen=True)
class Dials:
    """Where the two dials stand: tokens a step, tokens a request and step (0 = off)."""

    budget: int
    cap: int


@dataclass(frozen=True)
class Cure:
    """A button that mends what an error sentence complains of; its id comes back in
    Answer.action."""

    id: str
    label: str


@dataclass(frozen=True)
class Problem:
    """Why there is no new picture, in the engine's words, and the ways out."""

    text: str
    cures: tuple[Cure, ...] = ()


@dataclass(frozen=True)
class Envelope:
    """What goes along with a packet and may change without it.

    `epoch` grows when a preset or setting was chosen: it wins over a drag on its way. `story`
    names the workload: a new one moves the view to its interesting part. `refused_below` marks the
    part of the budget's track that the engine refuses.
    """

    dials: Dials
    epoch: int
    story: str
    sentence: Parts = field(default_factory=list)
    settings: list[Parts] = field(default_factory=list)
    refused_below: int | None = None
    problem: Problem | None = None


@dataclass(frozen=True)
class Turned:
    """What the reader did with the dials: their values, in which epoch, and whether they were let
    go."""

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
    """The window on a large run that the reader asked for: order, first_row, start_s, end_s."""
    value = _state(key).get("window")
    return value if isinstance(value, Mapping) else None


def timeline(packet: bytes, envelope: Envelope, *, key: str) -> str | None:
    """Mount the component; returns the id of the cure that the reader clicked, if any.

    `packet` is the work of `packet.build` and may be empty (nothing to show yet). State that the
    browser sends lies in st.session_state[key]: `dials`, `window`, `play`.
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


def enclose(envelope: Envelope, seq: int) -> bytes:
    """The envelope as length and JSON; `seq` is the number of the browser's message it answers."""
    problem = envelope.problem
    content = {
        "seq": seq,
        "epoch": envelope.epoch,
        "story": envelope.story,
        "dials": asdict(envelope.dials),
        "refused": {"budget": envelope.refused_below},
        "sentence": envelope.sentence,
        "settings": envelope.settings,
        "error": problem and {"text": problem.text, "cures": [asdict(c) for c in problem.cures]},
    }
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
    return len(text).to_bytes(4, "little") + text


def _ignore() -> None:
    """Registers a kind of message with Streamlit; the values are read from the state."""


def _state(key: str) -> Mapping[str, Any]:
    state = st.session_state.get(key)
    return state if isinstance(state, Mapping) else {}


def _last_message(key: str) -> int:
    values = [value for value in _state(key).values() if isinstance(value, Mapping)]
    return max((int(value.get("seq", 0)) for value in values), default=0)

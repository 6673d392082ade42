"""The settings of the run as widgets: they always show the run's own values, and change it.

The run lives in the session (ui.shell.session); the widgets are written from it in every run of the
page. A widget that is mounted late, such as one in a popover that was never open, therefore shows
the run and not its own default.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import streamlit as st

from ui.scenarios.run import Run
from ui.scenarios.settings import Settings
from ui.shell import session
from ui.shell.session import Session, kept
from ui.timeline import turned
from ui.widgets import model_choice

TIMELINE = "timeline"  # key of the component
PRESET = "preset"
PREFIX = "setting_"
LIMIT_MS = PREFIX + "itl_limit_ms"


@dataclass
class Shown:
    """Which run the widgets show: Session.replaced at that time, -1 before there were any."""

    replaced: int = -1


def follow_widgets() -> None:
    """Take over what the widgets say, before they are drawn again; what has no widget stays.

    Widgets that show an older run than the session's, because a button or a link replaced it, are
    not asked.
    """
    current = session.run()
    if kept(Shown).replaced != kept(Session).replaced:
        return
    if st.session_state.get(PRESET, current.preset) != current.preset:
        session.choose(st.session_state[PRESET])
        return
    values: dict[str, Any] = {
        field.name: st.session_state.get(PREFIX + field.name, getattr(current.settings, field.name))
        for field in fields(Settings)
    }
    if values["model"] == model_choice.PASTE:  # until something is pasted, the model stays
        values["model"] = current.settings.model
    limit_ms = st.session_state.get(LIMIT_MS, 1e3 * current.settings.itl_limit_s)
    settings = replace(current.settings, **values | {"itl_limit_s": limit_ms / 1e3})
    session.follow(replace(current, settings=settings))


def write_preset() -> None:
    """Give the preset's buttons their value, before they are drawn."""
    st.session_state[PRESET] = session.run().preset


def write_settings() -> None:
    """Give the settings' widgets the values of the run, before they are drawn."""
    current, shown = session.run(), kept(Shown)
    pasting = st.session_state.get(PREFIX + "model") == model_choice.PASTE
    same_run = shown.replaced == kept(Session).replaced
    for field in fields(Settings):
        if not (field.name == "model" and pasting and same_run):
            st.session_state[PREFIX + field.name] = getattr(current.settings, field.name)
    st.session_state[LIMIT_MS] = 1e3 * current.settings.itl_limit_s
    shown.replaced = kept(Session).replaced


def follow_dials() -> bool:
    """Take over the browser's newest dials, unless they are older than the last choice. Returns
    whether the dials are at rest."""
    message = turned(TIMELINE)
    if message is None or message.epoch != session.epoch():
        return True
    session.follow(replace(session.run(), dials=message.dials))
    return message.released


def changed(run: Run, **settings: Any) -> Run:
    """The run with some settings changed."""
    return replace(run, settings=replace(run.settings, **settings))

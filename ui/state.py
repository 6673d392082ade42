"""The page's state in this session: the preset, the settings behind the widgets, the dials, an
epoch.

Widgets keep their values under keys of their own; a preset or a cure writes those keys before the
widgets are built. The epoch grows with every such change, so that a message of a drag that was on
its way is known to be old.
"""

from dataclasses import fields, replace

import streamlit as st

from sim.scenario import Scenario
from ui.settings import Settings, settings_of
from ui.timeline import Dials, asked_window, turned
from ui.timeline.packet import Window

TIMELINE = "timeline"
PREFIX = "setting_"
LIMIT_MS = PREFIX + "itl_limit_ms"
DEFAULT_DIALS = Dials(8192, 0)


def choose(scenario: Scenario) -> None:
    """Take over everything from a scenario: settings, dials, a new epoch."""
    write(settings_of(scenario))
    policy = scenario.replicas[0].policy
    budget = policy.max_num_batched_tokens or DEFAULT_DIALS.budget
    st.session_state["dials"] = Dials(budget, policy.long_prefill_token_threshold)
    st.session_state["last_picture"] = None
    touch()


def touch() -> None:
    """Something other than a dial changed."""
    st.session_state["epoch"] = epoch() + 1


def epoch() -> int:
    return int(st.session_state.get("epoch", 0))


def dials() -> Dials:
    """Where the dials stand: the browser's newest word, unless it is older than the last choice."""
    message = turned(TIMELINE)
    if message is not None and message.epoch == epoch():
        st.session_state["dials"] = message.dials
    return st.session_state.get("dials", DEFAULT_DIALS)


def window(story: str) -> Window | None:
    """The window on a large run that the browser asked for, None where it did not (or not for
    this)."""
    asked = asked_window(TIMELINE)
    if asked is None or asked.get("story") != story:
        return None
    try:
        return Window(
            order=str(asked["order"]),
            first_row=int(asked["first_row"]),
            start_s=float(asked["start_s"]),
            end_s=float(asked["end_s"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def write(settings: Settings) -> None:
    """Set the widgets."""
    for field in fields(settings):
        st.session_state[PREFIX + field.name] = getattr(settings, field.name)
    st.session_state[LIMIT_MS] = 1e3 * settings.itl_limit_s


def read(base: Settings) -> Settings:
    """The settings as the widgets have them; what has no widget in this run keeps the base's
    value."""
    values = {
        field.name: st.session_state.get(PREFIX + field.name, getattr(base, field.name))
        for field in fields(base)
    }
    limit_ms = st.session_state.get(LIMIT_MS, 1e3 * base.itl_limit_s)
    return replace(base, **values | {"itl_limit_s": limit_ms / 1e3})


def cure(action: str, preset: Scenario) -> None:
    """Do what a button of an error sentence promises."""
    name, _, value = action.partition(":")
    if name == "preset":
        choose(preset)
        return
    if name == "seqs_auto":
        st.session_state[PREFIX + "max_num_seqs"] = None
    elif name == "chunking_on":
        st.session_state[PREFIX + "chunking"] = True
    elif name == "length":
        st.session_state[PREFIX + "max_model_len"] = int(value)
    elif name == "budget":
        st.session_state["dials"] = Dials(int(value), dials().cap)
    touch()

"""What this session looks at: the run, the pinned run, a file of the reader's own.

The session's state holds it under names of its own, so it follows the reader from page to page;
widgets, whose values Streamlit drops with their page, get copies. The epoch grows with every change
that is not a dial's, so that a message of a drag that was on its way is known to be old.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import streamlit as st

from sim.scenario.load import Scenario
from ui import models, presets
from ui.choice import Choice, Run, Upload, UploadRef, start_of
from ui.settings import Settings
from ui.timeline import Dials, asked_window, turned
from ui.timeline.packet import Window

TIMELINE = "timeline"
PREFIX = "setting_"
LIMIT_MS = PREFIX + "itl_limit_ms"


# --- the choice -----------------------------------------------------------------------------------


def run() -> Run:
    """What is looked at; at first the first preset."""
    if "run" not in st.session_state:
        adopt(Choice(start_of(presets.TOKEN_BUDGET[0].id)))
    found: Run = st.session_state["run"]
    return found


def came_along() -> bool:
    """Did the reader look at a run in this session already?"""
    return "run" in st.session_state


def uploads() -> Mapping[str, bytes]:
    """The content of the reader's file by its sha256, as sim.run wants it."""
    file = upload()
    return {file.sha256: file.content} if file else {}


def pinned() -> Run | None:
    """The run beside it, None where there is none."""
    return st.session_state.get("pinned")


def upload() -> Upload | None:
    """The reader's file of this session."""
    return st.session_state.get("upload")


def wanted_upload() -> UploadRef | None:
    """The file that a link asks for, None once it is at hand."""
    return st.session_state.get("wanted_upload")


def choice() -> Choice:
    """Everything that a link carries."""
    file = upload()
    ref = UploadRef(file.name, file.sha256, file.rate_per_s) if file else wanted_upload()
    return Choice(run(), pinned(), ref if run().preset == presets.YOUR_TRACE.id else None)


def base(preset_id: str) -> Scenario:
    """The scenario that settings are put into: of a preset, or of the file on its server."""
    scenario = presets.scenario_of(preset_id)
    file = upload()
    return file.scenario(scenario) if file and preset_id == presets.YOUR_TRACE.id else scenario


def adopt(chosen: Choice) -> None:
    """Take a whole choice over: of a link, or at the start."""
    st.session_state["pinned"] = chosen.pinned
    file, ref = upload(), chosen.upload
    st.session_state["wanted_upload"] = None if file and ref and file.sha256 == ref.sha256 else ref
    _set(chosen.run)


def choose(preset_id: str) -> None:
    """A preset: its settings, its pinned run; a pinned run of the same requests stays."""
    before = run()
    kept = pinned()
    st.session_state["wanted_upload"] = st.session_state["view"] = None
    new = start_of(preset_id, base(preset_id))
    beside = presets.BESIDE.get(preset_id)
    if beside is not None:
        kept = replace(new, dials=Dials(beside, new.dials.cap))
    elif kept is not None and base(before.preset).workload != base(preset_id).workload:
        kept = None
    st.session_state["pinned"] = kept
    _set(new)


def use(file: Upload) -> None:
    """A file of the reader's: another one than before starts a new run, unless a link asked for
    it."""
    before, wanted = upload(), wanted_upload()
    if before == file and wanted is None:
        return
    st.session_state["upload"] = file
    st.session_state["wanted_upload"] = None
    if wanted is not None and wanted.sha256 == file.sha256:
        touch()
        return
    st.session_state["pinned"] = None
    _set(start_of(presets.YOUR_TRACE.id, base(presets.YOUR_TRACE.id)))


def change(new: Run) -> None:
    """Another run of the same preset: of a button, not of a dial or a widget."""
    _set(new)


def pin(other: Run | None) -> None:
    """Put a run beside the one looked at; None takes it away."""
    st.session_state["pinned"] = other
    touch()


def _set(new: Run) -> None:
    st.session_state["run"] = new
    st.session_state["last_picture"] = None
    _write_widgets(new)
    touch()


def touch() -> None:
    """Something other than a dial changed."""
    st.session_state["epoch"] = epoch() + 1


def epoch() -> int:
    return int(st.session_state.get("epoch", 0))


# --- dials and widgets ----------------------------------------------------------------------------


def follow_dials() -> bool:
    """Take the browser's newest word over, unless it is older than the last choice. Returns whether
    the dials are at rest."""
    message = turned(TIMELINE)
    if message is None or message.epoch != epoch():
        return True
    st.session_state["run"] = replace(run(), dials=message.dials)
    return message.released


def enter() -> None:
    """Before a page's widgets: give them their values again, which Streamlit dropped with the last
    page, and follow a preset that was clicked."""
    current = run()
    if "preset" not in st.session_state or PREFIX + "seed" not in st.session_state:
        _write_widgets(current)
    elif st.session_state["preset"] != current.preset:
        choose(st.session_state["preset"])


def _write_widgets(current: Run) -> None:
    if st.session_state.get("preset") != current.preset:
        st.session_state["preset"] = current.preset
    for field in fields(Settings):
        st.session_state[PREFIX + field.name] = getattr(current.settings, field.name)
    st.session_state[LIMIT_MS] = 1e3 * current.settings.itl_limit_s


def follow_widgets() -> None:
    """Take over what the widgets say; what has no widget in this run keeps its value."""
    current = run()
    values: dict[str, Any] = {
        field.name: st.session_state.get(PREFIX + field.name, getattr(current.settings, field.name))
        for field in fields(Settings)
    }
    if values["model"] == models.PASTE:  # until something is pasted, the model stays
        values["model"] = current.settings.model
    limit_ms = st.session_state.get(LIMIT_MS, 1e3 * current.settings.itl_limit_s)
    settings = replace(current.settings, **values | {"itl_limit_s": limit_ms / 1e3})
    st.session_state["run"] = replace(current, settings=settings)


# --- messages of the timeline ---------------------------------------------------------------------


def window(story: str) -> Window | None:
    """The window on a large run that the browser asked for, or that a link opened; None where
    neither did."""
    asked = asked_window(TIMELINE)
    if asked is None or asked.get("story") != story:
        view = st.session_state.get("view")
        if view is None or view.axis != "time":
            return None
        return Window(start_s=view.start, end_s=view.end)
    try:
        return Window(
            order=str(asked["order"]),
            first_row=int(asked["first_row"]),
            start_s=float(asked["start_s"]),
            end_s=float(asked["end_s"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def cure(action: str) -> None:
    """Do what a button of an error sentence promises."""
    name, _, value = action.partition(":")
    current = run()
    settings = current.settings
    if name == "preset":
        choose(current.preset)
    elif name == "seqs_auto":
        change(replace(current, settings=replace(settings, max_num_seqs=None)))
    elif name == "chunking_on":
        change(replace(current, settings=replace(settings, chunking=True)))
    elif name == "length":
        change(replace(current, settings=replace(settings, max_model_len=int(value))))
    elif name == "budget":
        change(replace(current, dials=Dials(int(value), current.dials.cap)))

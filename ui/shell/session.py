"""What one browser session keeps: the run that it looks at, the pinned run, its uploaded file.

Everything that a session keeps is a typed object, one per class: `kept(Session)`. Streamlit drops
the values of widgets with their page; these objects stay.

The epoch grows with every change that is not a dial's, so that a message of a drag that was on its
way is known to be old. `replaced` grows when the run was changed by something other than its own
widgets, which then have to be given their values again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar, cast

import streamlit as st

from sim.scenario.load import Scenario
from ui.scenarios import presets
from ui.scenarios.run import Choice, Dials, Run, Upload, UploadRef, start_of
from ui.timeline import View

Kept = TypeVar("Kept")


def key_of(kind: type[object]) -> str:
    """The name under which Streamlit's session holds the object of a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


def kept(kind: type[Kept]) -> Kept:
    """The session's object of a class, made when it is first asked for."""
    key = key_of(kind)
    if key not in st.session_state:
        st.session_state[key] = kind()
    return cast(Kept, st.session_state[key])


@dataclass
class Session:
    """`run` is None until a page that shows a run was opened. `wanted_upload`: the file that a link
    asks for, None once it is at hand. `view`: where a link opens the timeline."""

    run: Run | None = None
    pinned: Run | None = None
    upload: Upload | None = None
    wanted_upload: UploadRef | None = None
    view: View | None = None
    epoch: int = 0
    replaced: int = 0


# --- reading --------------------------------------------------------------------------------------


def run() -> Run:
    """The run that is looked at; at first the first preset."""
    if kept(Session).run is None:
        adopt(Choice(start_of(presets.TOKEN_BUDGET[0].id)))
    found = kept(Session).run
    assert found is not None
    return found


def has_run() -> bool:
    """Has a run been looked at in this session?"""
    return kept(Session).run is not None


def pinned() -> Run | None:
    return kept(Session).pinned


def upload() -> Upload | None:
    return kept(Session).upload


def uploads() -> Mapping[str, bytes]:
    """The content of the uploaded file by its sha256, as sim.results.run wants it."""
    file = upload()
    return {file.sha256: file.content} if file else {}


def choice() -> Choice:
    """Everything that a link carries."""
    file = upload()
    ref = (
        UploadRef(file.name, file.sha256, file.rate_per_s) if file else kept(Session).wanted_upload
    )
    return Choice(run(), pinned(), ref if run().preset == presets.YOUR_TRACE.id else None)


def base(preset_id: str) -> Scenario:
    """The scenario that settings are put into: of a preset, or of the file on its server."""
    scenario = presets.scenario_of(preset_id)
    file = upload()
    return file.scenario(scenario) if file and preset_id == presets.YOUR_TRACE.id else scenario


# --- changing -------------------------------------------------------------------------------------


def adopt(chosen: Choice) -> None:
    """Take over a whole choice: of a link, or at the start."""
    session, ref = kept(Session), chosen.upload
    session.pinned = chosen.pinned
    file = session.upload
    session.wanted_upload = None if file and ref and file.sha256 == ref.sha256 else ref
    change(chosen.run)


def choose(preset_id: str) -> None:
    """Take a preset with its pinned run; a pinned run of the same requests stays."""
    session, before = kept(Session), run()
    session.wanted_upload = session.view = None
    new, others = start_of(preset_id, base(preset_id)), session.pinned
    budget = presets.BESIDE.get(preset_id)
    if budget is not None:
        others = replace(new, dials=Dials(budget, new.dials.cap))
    elif others is not None and base(before.preset).workload != base(preset_id).workload:
        others = None
    session.pinned = others
    change(new)


def use(file: Upload) -> None:
    """Take an uploaded file. Another one than before starts a new run, unless a link asked for
    it."""
    session = kept(Session)
    before, wanted = session.upload, session.wanted_upload
    if before == file and wanted is None:
        return
    session.upload, session.wanted_upload = file, None
    if wanted is not None and wanted.sha256 == file.sha256:
        touch()
        return
    session.pinned = None
    change(start_of(presets.YOUR_TRACE.id, base(presets.YOUR_TRACE.id)))


def change(new: Run) -> None:
    """Replace the run: by a link, a preset or a button, not by a dial or a setting's widget."""
    session = kept(Session)
    session.run = new
    session.replaced += 1
    touch()


def follow(new: Run) -> None:
    """Take over what the run's own dials and widgets say."""
    kept(Session).run = new


def pin(other: Run | None) -> None:
    """Put a run beside the one that is looked at; None takes it away."""
    kept(Session).pinned = other
    touch()


def touch() -> None:
    """Note that something other than a dial changed."""
    kept(Session).epoch += 1


def epoch() -> int:
    return kept(Session).epoch


def start_over() -> None:
    """Forget everything but the uploaded file."""
    before = kept(Session)
    st.session_state[key_of(Session)] = Session(
        upload=before.upload, epoch=before.epoch + 1, replaced=before.replaced + 1
    )

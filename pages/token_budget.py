"""Token budget: every step spends a budget of tokens; who gets them, and who waits."""

import streamlit as st

from sim.scenario import Scenario, ScenarioError
from ui import controls, cures, frame, presets, runs, state, words
from ui.settings import Settings, apply, refused_below, settings_of
from ui.timeline import Envelope, timeline
from ui.upload import uploader

frame.required("token_budget")

st.title("Token budget", anchor=False)
st.markdown(
    ":gray[Every step, the scheduler has a budget of tokens to spend. Decodes take one each; a "
    "prompt takes what is left.]"
)

top = st.container(horizontal=True, vertical_alignment="center")
with top:
    chosen = controls.preset_pills((*presets.TOKEN_BUDGET, presets.YOUR_TRACE), key="preset")
preset = presets.scenario_of(chosen)
story, uploads, upload = chosen, {}, None
if chosen == presets.YOUR_TRACE.id:
    upload = uploader()
    if upload is None:
        controls.no_trace_yet(presets.TOKEN_BUDGET[0])
        st.stop()
    preset = upload.scenario(preset)
    story = f"{chosen} {upload.sha256} {upload.rate_per_s}"
    uploads = {upload.sha256: upload.content}

if st.session_state.get("story") != story:  # another workload: its settings and dials, a new view
    st.session_state["story"] = story
    state.choose(preset)
if action := st.session_state.pop("cure", None):
    state.cure(action, preset)

with top.popover("More settings"):
    controls.more_settings(settings_of(preset))


@st.fragment
def board(preset: Scenario, settings: Settings, story: str) -> None:
    """Dials, sentence, timeline, inspector and tiles: what moves while a dial is dragged."""
    dials, problem = state.dials(), None
    try:
        scenario = apply(preset, settings, dials.budget, dials.cap)
        picture = runs.picture(scenario, state.window(story), uploads)
        st.session_state["last_picture"] = picture
    except ScenarioError as error:
        picture = st.session_state.get("last_picture")
        length = picture.max_model_len if picture else settings.max_model_len or 0
        problem = cures.problem(error, settings, dials.budget, length)
        scenario = preset
    envelope = Envelope(
        dials=dials,
        epoch=state.epoch(),
        story=story,
        sentence=picture.sentence if picture else [],
        settings=words.settings(settings, picture),
        refused_below=refused_below(settings, picture.max_model_len if picture else 0),
        problem=problem,
    )
    action = timeline(picture.packet if picture else b"", envelope, key=state.TIMELINE)
    if action is not None:
        st.session_state["cure"] = action
        st.rerun()
    if picture is None:
        return
    controls.notices(picture)
    controls.tile_row(picture.tiles, stale=problem is not None)


board(preset, state.read(settings_of(preset)), story)

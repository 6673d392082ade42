"""The board: dials, sentence, timeline, inspector, tiles; what moves while a dial is dragged."""

import streamlit as st

from sim.scenario.load import Scenario, ScenarioError
from ui import (
    address,
    comparison,
    controls,
    cures,
    glossary,
    panel,
    prediction,
    presets,
    runs,
    source,
    state,
    take_home,
    words,
)  # fmt: skip
from ui.choice import Run, variants
from ui.real import panel as real_panel
from ui.runs import Asked, Picture
from ui.settings import refused_below
from ui.timeline import Button, Compare, Envelope, Problem, timeline

PIN, UNPIN, SWAP, COMPARE = "pin", "unpin", "swap", "compare:"
SAID_ALOUD = ("TTFT", "ITL", "prefill", "decode")


@st.fragment
def board() -> None:
    """One fragment: a dial that moves runs this and nothing else."""
    before = state.run().dials
    at_rest = state.follow_dials()
    run = state.run()
    if run.dials != before and prediction.asking():
        prediction.over()
    base = state.base(run.preset)
    story = story_of(run)
    picture, problem, asked, beside = look(run, base, story)
    show_action(picture, problem, run, base, story)
    if at_rest and problem is None:
        address.write()
    if picture is None:
        return
    controls.notices(picture)
    controls.tile_row(picture.tiles, stale=problem is not None)
    if asked is not None:
        below(asked, beside, at_rest)


def look(
    run: Run, base: Scenario, story: str
) -> tuple[Picture | None, Problem | None, Asked | None, Asked | None]:
    """The picture of the run, or the last one with the reason why there is no new one."""
    try:
        asked, beside = Asked(run, run.scenario(base)), pinned_run(base)
        picture = runs.picture(asked, beside, state.window(story), state.uploads())
        st.session_state["last_picture"] = picture
        return picture, None, asked, beside
    except ScenarioError as error:
        last: Picture | None = st.session_state.get("last_picture")
        length = last.max_model_len if last else run.settings.max_model_len or 0
        return last, cures.problem(error, run.settings, run.dials.budget, length), None, None


def pinned_run(base: Scenario) -> Asked | None:
    """The run pinned beside it; one that the engine refuses is taken away, and that is said."""
    pinned = state.pinned()
    if pinned is None:
        return None
    own = base if pinned.preset == state.run().preset else state.base(pinned.preset)
    try:
        asked = Asked(pinned, pinned.scenario(own))
        runs.result_of(asked.scenario, state.uploads(), runs.PINNED)
        return asked
    except ScenarioError as error:
        state.pin(None)
        st.warning(f"The pinned run was taken away: {error.problems[0]}", icon=None)
        return None


def story_of(run: Run) -> str:
    """Names the requests: another story is looked at from its beginning."""
    file = state.upload()
    if run.preset == presets.YOUR_TRACE.id and file is not None:
        return f"{run.preset} {file.sha256} {file.rate_per_s}"
    return run.preset


def show_action(
    picture: Picture | None, problem: Problem | None, run: Run, base: Scenario, story: str
) -> None:
    """Mount the timeline; a button that was clicked in it runs the page again."""
    length = picture.max_model_len if picture else 0
    gap = picture.worst_gap_s if picture else None
    can_ask = problem is None and state.pinned() is None and address.shows("predict")
    envelope = Envelope(
        dials=run.dials,
        epoch=state.epoch(),
        story=story,
        sentence=list(picture.sentence) if picture else [],
        settings=words.settings(run.settings, picture),
        refused_below=refused_below(run.settings, length),
        problem=problem,
        compare=compare(run, base, length) if problem is None else None,
        question=prediction.question(run, gap, can_ask),
        view=st.session_state.get("view"),
        link=address.query(),
        caption=words.caption(run, base),
        shown=address.frame().shown,
        terms={name: glossary.TERMS[name] for name in SAID_ALOUD},
        source=source.for_page(picture.engine) if picture else None,
    )
    action = timeline(picture.packet if picture else b"", envelope, key=state.TIMELINE)
    if action is not None:
        st.session_state["action"] = action
        st.rerun()


def compare(run: Run, base: Scenario, length: int) -> Compare | None:
    """What is pinned, or what one click pins."""
    if not address.shows("compare"):
        return None
    pinned = state.pinned()
    if pinned is not None:
        differ = comparison.differences(run, pinned) or ["the same run"]
        return Compare(", ".join(differ), (Button(SWAP, "Swap"), Button(UNPIN, "Take away")))
    one_click = [Button(COMPARE + v.id, v.label) for v in variants(run, base, length)]
    return Compare(None, (*one_click, Button(PIN, "Pin this run")))


def act(action: str) -> None:
    """Do what a button of the timeline promises."""
    run = state.run()
    picture: Picture | None = st.session_state.get("last_picture")
    if action.startswith(prediction.PREFIX):
        prediction.take(action, picture.worst_gap_s if picture else None)
    elif action == PIN:
        state.pin(run)
    elif action == UNPIN:
        state.pin(None)
    elif action == SWAP and state.pinned() is not None:
        other = state.pinned()
        assert other is not None
        state.change(other)
        state.pin(run)
    elif action.startswith(COMPARE):
        length = picture.max_model_len if picture else 0
        for variant in variants(run, state.base(run.preset), length):
            if COMPARE + variant.id == action:
                state.pin(variant.run)
    else:
        state.cure(action)


def below(asked: Asked, beside: Asked | None, at_rest: bool) -> None:
    """Figures and files, computed only while they are open; during a drag they stand still."""
    if at_rest or "below" not in st.session_state:
        st.session_state["below"] = (asked, beside)
    asked, beside = st.session_state["below"]
    if address.shows("figures"):
        panel.show(asked, beside, state.uploads())
    if address.shows("take"):
        take_home.show(asked, state.uploads())
        real_panel.run_it_for_real()

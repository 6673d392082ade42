"""The moving part of the page: dials, sentence, timeline, inspector, tiles."""

import contextlib
from dataclasses import dataclass, replace

import streamlit as st

from sim.scenario.load import Scenario, ScenarioError
from ui.charts.look import Named
from ui.scenarios import presets
from ui.scenarios.run import Dials, Run, start_of
from ui.scenarios.settings import refused_below
from ui.shell import address_bar, frame, kernels, session
from ui.shell.session import Session, kept
from ui.text import captions, comparison, engine_source, glossary, suggested_fixes
from ui.text.suggested_fixes import Button, Problem, refusal
from ui.timeline import Compare, Envelope, asked_window, timeline
from ui.timeline.packet import Window
from ui.token_budget import form, pictures, prediction, sections
from ui.token_budget.pictures import Asked, Picture
from ui.token_budget.variants import variants
from ui.widgets import downloads

PIN, UNPIN, SWAP, COMPARE = "pin", "unpin", "swap", "compare:"
EXPLAINED = ("TTFT", "ITL", "prefill", "decode")  # terms with a tooltip in the timeline


@dataclass
class Board:
    """What the page keeps between its runs. `picture`: the last one, of the run that had replaced
    `replaced` others. `action`: a button of the timeline that was clicked. `at_rest`: the runs
    whose figures stand below, which do not change during a drag."""

    picture: Picture | None = None
    replaced: int = -1
    action: str | None = None
    at_rest: tuple[Asked, Asked | None] | None = None

    @property
    def last_picture(self) -> Picture | None:
        return self.picture if self.replaced == kept(Session).replaced else None


COMPILING = (
    "The simulator is being compiled. The timeline shows an earlier run or the first preset."
)


@frame.fragment
def board() -> None:
    """One fragment: a dial that moves runs this and nothing else."""
    before = session.run().dials
    at_rest = form.follow_dials()
    run = session.run()
    if run.dials != before and prediction.asking():
        prediction.end()
    base = session.base(run.preset)
    story = story_of(run)
    picture, problem, asked, beside = look(run, base, story)
    mount(picture, problem, run, base, story)
    if at_rest and problem is None:
        address_bar.write()
    if picture is None:
        return
    sections.notices(picture)
    sections.tile_row(picture.tiles, stale=problem is not None)
    if asked is not None:
        below(asked, beside, at_rest)


def look(
    run: Run, base: Scenario, story: str
) -> tuple[Picture | None, Problem | None, Asked | None, Asked | None]:
    """The picture of the run, or the last one with the reason why there is no new one."""
    state = kept(Board)
    try:
        asked, beside = Asked(run, run.scenario(base)), pinned_run(base)
        picture = pictures.picture(asked, beside, window(story), session.uploads())
        state.picture, state.replaced = picture, kept(Session).replaced
        return picture, None, asked, beside
    except ScenarioError as error:
        problem = suggested_fixes.problem(error, run.settings, run.dials.budget)
        return state.last_picture, problem, None, None
    except kernels.NotCompiled:
        kernels.show_progress()
        return state.last_picture or first_picture(), Problem(COMPILING), None, None


def first_picture() -> Picture | None:
    """That of the preset which the page opens with, to look at while kernels are compiled."""
    preset = presets.TOKEN_BUDGET[0].id
    base = presets.scenario_of(preset)
    run = start_of(preset, base)
    with contextlib.suppress(kernels.NotCompiled):
        return pictures.picture(Asked(run, run.scenario(base)), None, None, {})
    return None


def pinned_run(base: Scenario) -> Asked | None:
    """The run pinned beside it. One that the engine refuses is removed, with a warning."""
    pinned = session.pinned()
    if pinned is None:
        return None
    own = base if pinned.preset == session.run().preset else session.base(pinned.preset)
    try:
        asked = Asked(pinned, pinned.scenario(own))
        pictures.result_of(asked.scenario, session.uploads(), pictures.PINNED)
        return asked
    except ScenarioError as error:
        session.pin(None)
        st.warning(f"The pinned run was removed: {refusal(error)}", icon=None)
        return None


def story_of(run: Run) -> str:
    """Names the requests: the timeline shows other requests from their beginning."""
    file = session.upload()
    if run.preset == presets.YOUR_TRACE.id and file is not None:
        return f"{run.preset} {file.sha256} {file.rate_per_s}"
    return run.preset


def window(story: str) -> Window | None:
    """The window on a large run that the browser asked for, or that a link opened; None where
    neither did."""
    asked = asked_window(form.TIMELINE)
    if asked is None or asked.get("story") != story:
        view = kept(Session).view
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


def mount(
    picture: Picture | None, problem: Problem | None, run: Run, base: Scenario, story: str
) -> None:
    """Mount the timeline; a button that was clicked in it runs the page again."""
    length = picture.max_model_len if picture else 0
    gap = picture.worst_gap_s if picture else None
    can_ask = problem is None and session.pinned() is None and address_bar.shows("predict")
    max_num_seqs = picture.max_num_seqs if picture else None
    envelope = Envelope(
        dials=run.dials,
        epoch=session.epoch(),
        story=story,
        sentence=list(picture.sentence) if picture else [],
        settings=captions.settings(run.settings, max_num_seqs),
        refused_below=refused_below(run.settings, length),
        problem=problem,
        compare=compare(run, base, length) if problem is None else None,
        question=prediction.question(run, gap, can_ask),
        view=kept(Session).view,
        link=address_bar.query(),
        caption=captions.caption(run, base),
        shown=address_bar.frame().shown,
        terms={name: glossary.TERMS[name] for name in EXPLAINED},
        source=engine_source.for_page(picture.engine) if picture else None,
    )
    action = timeline(picture.packet if picture else b"", envelope, key=form.TIMELINE)
    if action is not None:
        kept(Board).action = action
        st.rerun()


def compare(run: Run, base: Scenario, length: int) -> Compare | None:
    """What is pinned, or what one click pins."""
    if not address_bar.shows("compare"):
        return None
    pinned = session.pinned()
    if pinned is not None:
        differ = comparison.words(comparison.differences(run, pinned)) or "the same run"
        return Compare(differ, (Button(SWAP, "Swap"), Button(UNPIN, "Remove")))
    one_click = [Button(COMPARE + v.id, v.label) for v in variants(run, base, length)]
    return Compare(None, (*one_click, Button(PIN, "Pin this run")))


# --- buttons of the timeline ----------------------------------------------------------------------


def act() -> None:
    """Do what the button promises that was clicked in the timeline, if one was."""
    state = kept(Board)
    action, state.action = state.action, None
    if action is None:
        return
    run, pinned, picture = session.run(), session.pinned(), state.last_picture
    if action.startswith(prediction.PREFIX):
        prediction.take(action, picture.worst_gap_s if picture else None)
    elif action == PIN:
        session.pin(run)
    elif action == UNPIN:
        session.pin(None)
    elif action == SWAP and pinned is not None:
        session.change(pinned)
        session.pin(run)
    elif action.startswith(COMPARE):
        length = picture.max_model_len if picture else 0
        for variant in variants(run, session.base(run.preset), length):
            if COMPARE + variant.id == action:
                session.pin(variant.run)
    else:
        fix(run, action)


def fix(run: Run, action: str) -> None:
    """Do what a suggested fix of a refusal promises."""
    name, _, value = action.partition(":")
    if name == suggested_fixes.PRESET:
        session.choose(run.preset)
    elif name == suggested_fixes.SEQS_AUTO:
        session.change(form.changed(run, max_num_seqs=None))
    elif name == suggested_fixes.CHUNKING_ON:
        session.change(form.changed(run, chunking=True))
    elif name == suggested_fixes.LENGTH:
        session.change(form.changed(run, max_model_len=int(value)))
    elif name == suggested_fixes.BUDGET:
        session.change(replace(run, dials=Dials(int(value), run.dials.cap)))


def below(asked: Asked, beside: Asked | None, at_rest: bool) -> None:
    """Figures and files, computed only while they are open; they do not change during a drag."""
    state = kept(Board)
    if at_rest or state.at_rest is None:
        state.at_rest = (asked, beside)
    now, pinned = state.at_rest

    def lanes() -> list[Named]:
        runs = [Named("now", pictures.result_of(now.scenario, session.uploads(), pictures.NOW))]
        if pinned is not None:
            other = pictures.result_of(pinned.scenario, session.uploads(), pictures.PINNED)
            runs.append(Named("pinned", other))
        return runs

    if address_bar.shows("figures"):
        sections.figures(lanes)
    if address_bar.shows("take"):
        downloads.show(lambda: pictures.result_of(now.scenario, session.uploads(), pictures.NOW))
        sections.run_on_real_engine()

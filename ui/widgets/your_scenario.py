"""The reader's own scenario under all ways: what came along from Token budget, or a trace of
theirs."""

import streamlit as st

from sim.scenario.load import Scenario, ScenarioError
from ui.scenarios import presets
from ui.scenarios.presets import Preset
from ui.scenarios.settings import vllm_v1
from ui.shell import navigation, session
from ui.text.units import count
from ui.widgets.upload import uploader

YOURS = Preset("yours", "Your scenario")
QUERY = {"workload": YOURS.id}  # what an address adds to put the session's run under other engines


def scenario() -> Scenario | None:
    """The run that the session looks at, None where nothing came along yet, where its file is not
    at hand, or where it is refused whatever the scheduler."""
    if not session.has_run():
        return None
    run = session.run()
    if run.preset == presets.YOUR_TRACE.id and session.upload() is None:
        return None
    try:
        return run.scenario(session.base(run.preset))
    except ScenarioError:
        return None


def choose() -> None:
    """Above the lanes: what the scenario is, and where it can be changed."""
    is_trace = session.has_run() and session.run().preset == presets.YOUR_TRACE.id
    if not is_trace and not session.has_run():
        with st.container(border=True):
            st.markdown("**No scenario yet.** Shape it on Token budget, or upload a trace here.")
            if navigation.exists("token_budget"):
                st.page_link("pages/token_budget.py", label=":blue[Open Token budget]")
            take_trace()
        return
    if is_trace:
        take_trace()
    base = scenario()
    if base is None:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(":gray[The scenario of Token budget:]", width="content")
        st.text(told(base), width="content")
        if not is_trace:
            st.button(
                "Take a trace instead", type="tertiary", on_click=session.choose,
                args=(presets.YOUR_TRACE.id,),
            )  # fmt: skip


def take_trace() -> None:
    """Ask for a file; one that can be used becomes the session's run, as on Token budget."""
    file = uploader()
    if file is not None:
        before = session.upload()
        session.use(file)
        if before != file:
            st.rerun()


def told(base: Scenario) -> str:
    """A scenario in a few words."""
    policy = vllm_v1(base.replicas[0].policy)
    name = base.name or session.run().preset
    length = f", max_model_len {count(policy.max_model_len)}" if policy.max_model_len else ""
    return f"{name}; budget {count(policy.max_num_batched_tokens or 0)}{length}; seed {base.seed}"

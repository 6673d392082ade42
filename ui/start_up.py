"""What a server does before its first page: compile or load the kernels, settle the collector."""

import gc

import streamlit as st

from sim.results.run import simulate
from ui.scenarios import presets
from ui.timeline import packet
from ui.token_budget import pictures


def warm_up() -> None:
    """Run the first preset once, so that no page waits for the compiler."""
    result = simulate(presets.scenario_of(presets.TOKEN_BUDGET[0].id))
    packet.build([pictures.lane_of(result, "Now")])


@st.cache_resource(show_spinner="Getting the simulator ready, once after an update")
def once() -> None:
    """Once per process. What is loaded by then stays, so the collector leaves it out."""
    warm_up()
    gc.collect()
    gc.freeze()

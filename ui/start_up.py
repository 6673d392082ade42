"""What a server does before its first page: load the kernels or start to compile them, settle the
collector."""

import contextlib
import gc

import streamlit as st

from sim.results.run import simulate
from ui.scenarios import presets
from ui.shell import kernels
from ui.timeline import packet
from ui.token_budget import pictures


def warm_up() -> None:
    """Load the kernels of the first preset, where they are compiled."""
    with contextlib.suppress(kernels.NotCompiled):
        result = simulate(presets.scenario_of(presets.TOKEN_BUDGET[0].id))
        packet.build([pictures.lane_of(result, "Now")])


@st.cache_resource(show_spinner="Loading the simulator")
def once() -> None:
    """Once per process. What is loaded by then stays, so the collector leaves it out."""
    kernels.serve_without_compiling()
    warm_up()
    gc.collect()
    gc.freeze()

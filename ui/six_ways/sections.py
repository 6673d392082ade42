"""The panel with the model and the GPU of all engines."""

import streamlit as st

from ui.scenarios import gpu_choice
from ui.scenarios.under_engine import Server
from ui.six_ways import form
from ui.widgets import model_choice


def server() -> Server:
    """The widgets, and the server that they choose. A measured profile brings its own model."""
    gpu = form.GPU_FIELD.value
    profile = gpu_choice.profile(gpu)
    model, tp = form.MODEL_FIELD.value, 1
    if profile is not None:
        st.caption(f"Model: {profile.model}, which the profile was measured with.")
    else:
        model = model_choice.choose(st, form.MODEL_FIELD.widget(), form.MODEL)
    gpu = st.selectbox(
        "GPU", gpu_choice.names(gpu), format_func=gpu_choice.title, key=form.GPU_FIELD.widget()
    )
    if profile is None:
        tp = st.selectbox("GPUs (TP)", form.PARALLEL, key=form.TP.widget()) or 1
    return Server(model, gpu, tp)

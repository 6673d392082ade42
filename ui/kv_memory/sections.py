"""The panel with the rules of the block map, and the section on recompute and swap."""

import pandas as pd
import streamlit as st

from sim.hardware import catalog
from sim.scenario.model_config import model_of
from ui.charts.look import CONFIG
from ui.charts.swap import swap_figure
from ui.kv_memory import costs, form
from ui.kv_memory.engines import GATE, WATERMARK, WATERMARKS, Rules
from ui.shell.frame import is_dark
from ui.text import hardware
from ui.text.units import without_markup
from ui.widgets import controls, model_choice

LABELS = {
    GATE: f"Full-prompt gate ({GATE})",
    WATERMARK: "Watermark: blocks kept free at admission",
}
STEPS = {True: f"in a step with {costs.BATCH} decodes", False: "in a step of its own"}


def rules(now: Rules) -> None:
    """The knobs of the map that the chosen engine has."""
    if now.has_cache:
        st.toggle("Prefix caching", key=form.CACHING.widget())
    for knob in now.spec.memory_dials:
        key, options = form.KNOBS[knob].widget(), now.spec.options(knob)
        label = LABELS.get(knob, knob)
        if knob == WATERMARK:
            st.select_slider(label, WATERMARKS, format_func="{:.0%}".format, key=key)
        elif options:
            st.selectbox(label, options, key=key)
        elif isinstance(getattr(now.spec.defaults, knob), bool):
            st.toggle(label, key=key)
        else:
            st.number_input(label, min_value=now.spec.least(knob), key=key)
    if not now.has_cache and not now.spec.memory_dials:
        st.caption(f"{now.spec.title} has no knob for memory but its size.")


def recompute_or_swap() -> None:
    """Model, GPU and link, the verdict on the claim, the curves, the same as a table."""
    one, two, three, four = st.columns([2, 2, 1, 2])
    model = model_of(model_choice.choose(one, form.SWAP_MODEL.widget(), form.MODEL))
    gpu = catalog.gpu(
        controls.choice(
            two, "GPU", catalog.gpu_names(), form.GPU, form.SWAP_GPU.widget(),
            hardware.gpu_title,
        )
    )  # fmt: skip
    sizes = tuple(tp for tp in form.PARALLEL if model.num_heads % tp == 0)
    tp = controls.choice(three, "GPUs (TP)", sizes, 1, form.SWAP_TP.widget())
    links = form.host_links(gpu)
    link = catalog.link(
        controls.choice(
            four, "Link to the host", links, links[0], form.SWAP_LINK.widget(),
            hardware.link_title,
        )
    )  # fmt: skip
    shared = st.pills(
        "Recompute", list(STEPS), required=True, format_func=STEPS.__getitem__,
        key=form.BESIDE.widget(),
    )  # fmt: skip
    where = f"{model.name} on {tp} x {gpu.title} over {hardware.link_name(link.name)}"
    found = costs.curve(model, gpu, tp, link, bool(shared))
    verdict = costs.verdict(found, where)
    st.markdown(f"“Recompute is always cheaper below 4k tokens.” {verdict}")
    st.plotly_chart(
        swap_figure(
            found.lengths, found.recompute_s, found.swap_s, found.crossovers, costs.CLAIMED,
            is_dark(),
        ),
        theme=None, config=CONFIG, key="kv_swap",
        alt=f"Time to recompute and to swap a request over its tokens. {without_markup(verdict)}",
    )  # fmt: skip
    with st.expander("The same as a table"):
        st.dataframe(
            pd.DataFrame(
                {
                    "tokens": found.lengths,
                    "recompute, ms": [round(1e3 * s, 2) for s in found.recompute_s],
                    "swap out and in, ms": [round(1e3 * s, 2) for s in found.swap_s],
                    "cheaper": [found.cheaper(k) for k in range(len(found.lengths))],
                }
            ),
            hide_index=True,
        )
    st.caption(
        f"In a step with {costs.BATCH} decodes at {costs.CONTEXT:,} tokens each, recompute costs "
        "only what it adds to that step: the weights are read anyway. Swap: each GPU moves its "
        "shard over its own link, out and in, with no overlap. Models that share KV heads have "
        "little to move. bf16."
    )
    controls.confidence(costs.confidence(gpu, bool(shared)))

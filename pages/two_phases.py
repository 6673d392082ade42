"""Two phases: prefill computes, decode reads. Why they should share a step."""

import streamlit as st

from sim.hardware import catalog
from sim.latency import inputs as latency_inputs
from sim.latency.roofline import (
    Point,
    decode_step,
    knee_tokens,
    mixed_step,
    operating_point,
    prefill_step,
)
from sim.scenario.model_config import model_of
from ui.charts.look import CONFIG
from ui.charts.two_phases import parts_figure, per_token_figure, roofline_figure
from ui.shell.frame import is_dark, page
from ui.text import units
from ui.text.hardware import gpu_title
from ui.two_phases import form, sections
from ui.widgets import controls, model_choice


def series(rows: list[tuple[int, Point]]) -> list[tuple[int, float]]:
    return [(n, point.seconds_per_token) for n, point in rows]


with page("two_phases", form.TWO_PHASES):
    st.title("Two phases", anchor=False)
    st.markdown(
        ":gray[Prefill works through a prompt at once and is bound by compute. Decode takes one "
        "token per request and is bound by memory: it reads all weights for it.]"
    )
    with st.container(border=True):
        first, second, third, fourth = st.columns([2, 2, 1, 1])
        model = model_of(model_choice.choose(first, form.MODEL.widget(), form.MODEL.usual))
        gpu_name = controls.choice(
            second, "GPU", catalog.gpu_names(), form.GPU.usual, form.GPU.widget(), gpu_title
        )
        gpu = catalog.gpu(gpu_name)
        precision = controls.choice(
            third, "Weights", form.precisions(gpu), "bf16", form.PRECISION.widget()
        )
        sizes = form.parallel_sizes(model)
        tp = controls.choice(fourth, "GPUs (TP)", sizes, 1, form.TP.widget())
        one, two, three = st.columns(3)
        tokens = one.select_slider(
            "Prompt tokens of the step", form.PROMPTS, key=form.TOKENS.widget(),
            format_func=units.count,
        )  # fmt: skip
        batch = two.select_slider(
            "Decodes of the step", form.BATCHES, key=form.BATCH.widget(), format_func=units.count
        )
        context = three.select_slider(
            "Context of each decode", form.PROMPTS, key=form.CONTEXT.widget(),
            format_func=units.count,
        )  # fmt: skip

    row = latency_inputs.roofline(model, gpu, precision, tp, "auto")
    prefill = operating_point("prefill", row, prefill_step(tokens))
    decode = operating_point("decode", row, decode_step(batch, context))
    together = operating_point("together", row, mixed_step(tokens, batch, context))
    points = [prefill, decode, together]

    st.markdown(sections.headline(prefill, decode, row))
    left, right = st.columns(2)
    with left:
        st.subheader("Where a step lands", anchor=False)
        st.plotly_chart(
            roofline_figure(row, points, is_dark()), theme=None, config=CONFIG, key="roofline",
            alt=sections.roofline_text(points, row),
        )  # fmt: skip
    with right:
        st.subheader("Where its time goes", anchor=False)
        st.plotly_chart(
            parts_figure(points, is_dark()), theme=None, config=CONFIG, key="parts",
            alt=sections.parts_text(points),
        )  # fmt: skip
        st.markdown(sections.piggyback(prefill, decode, together))
    with st.expander("The same as a table"):
        st.dataframe(sections.table(points), hide_index=True)

    st.subheader("Arithmetic intensity, derived", anchor=False)
    st.markdown(sections.derivation(model, precision, tp, row, batch, context, decode))
    st.subheader('"Decode is below 1 FLOP per byte": put to the test', anchor=False)
    st.markdown(sections.claim(row, context))

    st.subheader("One token costs less in a larger step", anchor=False)
    decodes = [(n, operating_point("decode", row, decode_step(n, context))) for n in form.BATCHES]
    prompts = [(n, operating_point("prefill", row, prefill_step(n))) for n in form.PROMPTS]
    st.plotly_chart(
        per_token_figure(series(decodes), series(prompts), knee_tokens(row), is_dark()),
        theme=None, config=CONFIG, key="per_token",
        alt=sections.per_token_text(decodes, prompts, knee_tokens(row)),
    )  # fmt: skip

    st.subheader("How long does a 4,096-token prompt freeze 32 streams here?", anchor=False)
    st.markdown(sections.freeze(row, model, gpu, context))

    st.subheader("Two GPUs side by side", anchor=False)
    others = form.other_gpus()
    other = catalog.gpu(
        controls.choice(None, "Compare with", others, others[0], form.OTHER.widget(), gpu_title)
    )
    st.dataframe(
        sections.side_by_side(model, [gpu, other], precision, tp, tokens, batch, context),
        hide_index=True,
    )

    with st.expander("The model card: constants, sources, error"):
        st.markdown(sections.card(model, gpu, precision))
    st.caption(
        f"Simulated with the roofline of this page, {units.seconds(float(row.host_s))} of host "
        "time per step included. Tile quantisation (256 or 257 tokens), CUDA-graph padding and "
        "clocks that drop under load are not modelled: no source in the catalogue gives their size."
    )

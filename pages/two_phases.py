"""Two phases: prefill computes, decode reads. Why they want to share a step."""

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
from ui import frame, panel, phases, units
from ui.figures.phases import parts_figure, per_token_figure, roofline_figure

frame.required("two_phases")
DARK = st.context.theme.type == "dark"

st.title("Two phases", anchor=False)
st.markdown(
    ":gray[Prefill works through a prompt at once and is bound by compute. Decode takes one token "
    "a request and is bound by memory: it reads all weights for it.]"
)

with st.container(border=True):
    first, second, third, fourth = st.columns([2, 2, 1, 1])
    model = phases.model_choice(first)
    gpu = catalog.gpu(phases.choice(second, "GPU", catalog.gpu_names(), "h100_sxm", "phases_gpu"))
    precision = phases.choice(third, "Weights", phases.precisions(gpu), "bf16", "phases_precision")
    sizes = phases.parallel_sizes(model)
    tp = phases.choice(fourth, "GPUs (TP)", sizes, 1, "phases_tp")
    one, two, three = st.columns(3)
    tokens = phases.dial(one, "Prompt tokens of the step", phases.PROMPTS, 2048, "phases_tokens")
    batch = phases.dial(two, "Decodes of the step", phases.BATCHES, 32, "phases_batch")
    context = phases.dial(three, "Context of each decode", phases.PROMPTS, 1024, "phases_context")

row = latency_inputs.roofline(model, gpu, precision, tp, "auto")
prefill = operating_point("prefill", row, prefill_step(tokens))
decode = operating_point("decode", row, decode_step(batch, context))
together = operating_point("together", row, mixed_step(tokens, batch, context))
points = [prefill, decode, together]

st.markdown(phases.headline(prefill, decode, row))
left, right = st.columns(2)
with left:
    st.subheader("Where a step lands", anchor=False)
    st.plotly_chart(
        roofline_figure(row, points, DARK),
        theme=None,
        config=panel.CONFIG,
        key="roofline",
        alt=phases.roofline_text(points, row),
    )
with right:
    st.subheader("Where its time goes", anchor=False)
    st.plotly_chart(
        parts_figure(points, DARK), theme=None, config=panel.CONFIG, key="parts",
        alt=phases.parts_text(points),
    )  # fmt: skip
    st.markdown(phases.piggyback(prefill, decode, together))
with st.expander("The same as a table"):
    st.dataframe(phases.table(points), hide_index=True)

st.subheader("Arithmetic intensity, derived", anchor=False)
st.markdown(phases.derivation(model, precision, tp, row, batch, context, decode))
st.subheader('"Decode is below 1 FLOP per byte": put to the test', anchor=False)
st.markdown(phases.claim(row, context))

st.subheader("One token costs less in company", anchor=False)
decodes = [(n, operating_point("decode", row, decode_step(n, context))) for n in phases.BATCHES]
prompts = [(n, operating_point("prefill", row, prefill_step(n))) for n in phases.PROMPTS]


def series(rows: list[tuple[int, Point]]) -> list[tuple[int, float]]:
    return [(n, point.seconds_per_token) for n, point in rows]


st.plotly_chart(
    per_token_figure(series(decodes), series(prompts), knee_tokens(row), DARK),
    theme=None,
    config=panel.CONFIG,
    key="per_token",
    alt=phases.per_token_text(decodes, prompts, knee_tokens(row)),
)

st.subheader("How long does a 4,096-token prompt freeze 32 streams here?", anchor=False)
st.markdown(phases.freeze(row, model, gpu, context))

st.subheader("Two GPUs side by side", anchor=False)
others = [name for name in catalog.gpu_names() if name != gpu.name]
other = catalog.gpu(phases.choice(st, "Compare with", others, others[0], "phases_other"))
st.dataframe(
    phases.side_by_side(model, [gpu, other], precision, tp, tokens, batch, context),
    hide_index=True,
)

with st.expander("The model card: constants, sources, error"):
    st.markdown(phases.card(model, gpu, precision))
st.caption(
    f"Simulated with the roofline of this page ({units.seconds(float(row.host_s))} of host time a "
    "step included). Tile quantisation (256 against 257 tokens), CUDA-graph padding and clocks "
    "that drop under load are not modelled: no source in the catalogue says how much they are."
)

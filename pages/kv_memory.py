"""KV memory: blocks, who holds them, who loses them, and what it costs."""

import pandas as pd
import streamlit as st

from sim.hardware import catalog
from sim.scenario.model_config import model_of
from ui import address, controls, frame, glossary, models, panel, phases, presets
from ui.figures.memory import swap_figure
from ui.memory import block_map, board, costs, engines, form, prefixes

frame.required("kv_memory")
form.KV_MEMORY.enter()
DARK = st.context.theme.type == "dark"

top = st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center")
top.title("KV memory", anchor=False, width="content")
st.html(
    glossary.marked(
        "Every token that was computed leaves keys and values behind: the [[KV cache]]. It is "
        "given out in [[blocks|KV block]], and when there are none left, somebody is thrown out: "
        "[[preemption]]."
    )
)
labels = {preset.id: preset.label for preset in form.PRESETS}
chosen = st.pills(
    "Scenario", list(labels), required=True, format_func=labels.__getitem__,
    key=form.PRESET.widget(), label_visibility="collapsed",
) or form.PRESETS[0].id  # fmt: skip
st.pills(
    "Engine", list(engines.TITLES), required=True, format_func=engines.TITLES.__getitem__,
    key=form.ENGINE.widget(), label_visibility="collapsed",
)  # fmt: skip
with top.popover("Rules"):
    board.turn_rules(form.rules())
rules = form.rules()
with st.spinner("Replaying the run, step by step"):
    shown = board.shown(chosen, rules)
st.markdown(shown.sentence)
if chosen == "kv_thrash" and rules.engine == "vllm_v1":
    cure = "Turn the gate off again" if rules.gate else "Cure it: turn the full-prompt gate on"
    st.button(cure, key="kv_cure", on_click=board.turn_gate)
block_map(shown.packet, key="kv_map")
st.caption(
    "Number: the request that holds the block. Two frames: several requests read it. c: nobody "
    "holds it, its content is kept. A thick frame: it was lost in this step. Shown while each step "
    f"runs; {engines.TITLES[rules.engine]}'s rules, blocks of {engines.BLOCK} tokens."
)
controls.sureness(shown.sure)

st.subheader("Compute again, or swap to the host?", anchor=False)
one, two, three, four = st.columns([2, 2, 1, 2])
model = model_of(models.choose(one, form.SWAP_MODEL.widget(), form.MODEL))
gpu = catalog.gpu(phases.choice(two, "GPU", catalog.gpu_names(), form.GPU, form.SWAP_GPU.widget()))
sizes = phases.parallel_sizes(model)
tp = phases.choice(three, "GPUs (TP)", sizes, 1, form.SWAP_TP.widget())
links = form.host_links(gpu)
link = catalog.link(
    phases.choice(four, "Link to the host", links, links[0], form.SWAP_LINK.widget())
)
ways = {True: f"beside {costs.BATCH} decodes", False: "a step of its own"}
shared = st.pills(
    "Recompute", list(ways), required=True, format_func=ways.__getitem__, key=form.BESIDE.widget()
)
where = f"{model.name} on {tp} x {gpu.title} over {link.name}"
found = costs.curve(model, gpu, tp, link, bool(shared))
st.markdown(f"“Recompute is always cheaper below 4k tokens.” {costs.verdict(found, where)}")
st.plotly_chart(
    swap_figure(found, DARK), theme=None, config=panel.CONFIG, key="kv_swap",
    alt="Seconds to recompute and to swap a request over its tokens. " + board.plain(
        costs.verdict(found, where)
    ),
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
    f"Beside {costs.BATCH} decodes at {costs.CONTEXT:,} tokens each, recompute costs what it adds "
    "to their step: the weights are read anyway. Swap: each GPU moves its shard over its own link, "
    "out and in, with no overlap. Models that share KV heads have little to move. bf16."
)
controls.sureness(costs.sure(gpu, bool(shared)))

st.subheader("What a generous max_tokens costs", anchor=False)
promises = board.promises("kv_max_tokens")
st.markdown(costs.cost_of_promises(promises))
st.dataframe(board.promise_table(promises), hide_index=True)
st.caption(board.promise_note(presets.scenario_of("kv_max_tokens")))
controls.sureness(max(promises, key=lambda promise: promise.done_s).sure)

st.subheader("Prefix caching: one state, two pictures", anchor=False)
st.markdown(
    "**Hash chain**: the hash of a block covers its tokens and all before them. **Radix tree**: "
    "where chains agree, they share a node. Both are drawn from the blocks of the map above them, "
    "at the step of its play head."
)
caching = board.caching_rules(rules)
st.markdown(prefixes.sentence(board.replay_of("kv_prefix", caching)))
st.markdown(board.resumed_sentence())
block_map(board.shown("kv_prefix", caching, prefixes_open=True).packet, key="kv_prefix_map")
st.caption(
    f"“{labels['kv_prefix']}” under {engines.TITLES[caching.engine]}. Filled: found in the cache "
    "when the request was let in. Dashed: nobody holds it, its content is kept."
)
form.KV_MEMORY.keep()
address.write()

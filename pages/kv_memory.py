"""KV memory: blocks, who holds them, who loses them, and what it costs."""

import pandas as pd
import streamlit as st

from sim import catalog
from ui import frame, glossary, panel, phases, presets
from ui.figures.memory import swap_figure
from ui.memory import block_map, board, costs, prefixes

frame.required("kv_memory")
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
labels = {preset.id: preset.label for preset in board.PRESETS}
chosen = st.pills(
    "Scenario", list(labels), default=board.PRESETS[0].id, required=True,
    format_func=labels.__getitem__, key="kv_preset", label_visibility="collapsed",
) or board.PRESETS[0].id  # fmt: skip
board.follow_preset(chosen)
with top.popover("Rules"):
    rules = board.turn_rules()
with st.spinner("Replaying the run, step by step"):
    shown = board.shown(chosen, rules)
st.markdown(shown.sentence)
if chosen == "kv_thrash":
    cure = "Turn the gate off again" if rules.gate else "Cure it: turn the full-prompt gate on"
    st.button(cure, key="kv_cure", on_click=board.turn_gate)
block_map(shown.packet, key="kv_map")
st.caption(
    "Number: the request that holds the block. Two frames: several requests read it. c: nobody "
    "holds it, its content is kept. A thick frame: it was lost in this step. "
    "Shown after each step; vLLM V1's rules."
)

st.subheader("Compute again, or swap to the host?", anchor=False)
one, two, three, four = st.columns([2, 2, 1, 2])
model = catalog.model(phases.choice(one, "Model", catalog.model_names(), "Llama-2-13B", "kv_model"))
gpu = catalog.gpu(phases.choice(two, "GPU", catalog.gpu_names(), "h100_sxm", "kv_gpu"))
sizes = phases.parallel_sizes(model)
tp = phases.choice(three, "GPUs (TP)", sizes, 1, "kv_tp")
links = board.host_links(gpu)
link = catalog.link(phases.choice(four, "Link to the host", links, links[0], "kv_link"))
ways = {True: f"beside {costs.BATCH} decodes", False: "a step of its own"}
shared = st.pills(
    "Recompute", list(ways), default=True, required=True, format_func=ways.__getitem__,
    key="kv_shared",
)  # fmt: skip
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
    "out and in, with no overlap. Models that share KV heads have little to move. Simulated; bf16."
)

st.subheader("What a generous max_tokens costs", anchor=False)
promises = board.promises("kv_max_tokens")
st.markdown(costs.cost_of_promises(promises))
st.dataframe(board.promise_table(promises), hide_index=True)
st.caption(board.promise_note(presets.scenario_of("kv_max_tokens")))

st.subheader("Prefix caching: one state, two pictures", anchor=False)
cached = board.replay_of("kv_prefix", board.rules_of("kv_prefix"))
st.markdown(prefixes.sentence(cached))
st.markdown(board.resumed_sentence())
left, right = st.columns(2)
with left:
    st.markdown("**Hash chain**: the hash of a block covers its tokens and all before them.")
    st.html(prefixes.chain_html(cached))
with right:
    st.markdown("**Radix tree**: where chains agree, they share a node.")
    st.html(prefixes.tree_html(cached))

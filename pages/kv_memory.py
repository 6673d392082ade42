"""KV memory: blocks, which requests hold them, which lose them, and what that costs."""

import streamlit as st

from ui.block_map import block_map
from ui.kv_memory import captions, controller, costs, engines, form, sections
from ui.scenarios import presets
from ui.shell.frame import page
from ui.text import glossary
from ui.widgets import controls

with page("kv_memory", form.KV_MEMORY):
    top = st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    )
    top.title("KV memory", anchor=False, width="content")
    st.html(
        glossary.marked(
            "Every computed token leaves keys and values behind: the [[KV cache]]. It is allocated "
            "in [[blocks|KV block]]. When no block is free, a running request loses its blocks: "
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
        sections.rules(form.rules())
    rules = form.rules()
    with st.spinner("Replaying the run, step by step"):
        shown = controller.shown(chosen, rules)
    st.markdown(shown.sentence)
    if chosen == form.THRASH.id and rules.has(engines.GATE):
        fix = (
            "Turn the gate off again"
            if rules.value(engines.GATE)
            else "Turn the full-prompt gate on"
        )
        st.button(fix, key="kv_gate_button", on_click=form.toggle_gate)
    block_map(shown.packet, key="kv_map")
    st.caption(
        "Number: the request that holds the block. Two frames: several requests read it. c: no "
        "request holds it, its content is kept. A thick frame: the block was lost in this step. "
        f"Shown while each step runs; {rules.spec.title}'s rules, blocks of "
        f"{engines.BLOCK} tokens."
    )
    controls.confidence(shown.confidence)

    st.subheader("Recompute, or swap to the host?", anchor=False)
    sections.recompute_or_swap()

    st.subheader("What a generous max_tokens costs", anchor=False)
    promises = controller.promises("kv_max_tokens")
    st.markdown(costs.cost_of_promises(promises))
    st.dataframe(controller.promise_table(promises), hide_index=True)
    st.caption(captions.promise_note(presets.scenario_of("kv_max_tokens")))
    controls.confidence(max(promises, key=lambda promise: promise.done_s).confidence)

    st.subheader("Prefix caching: one state, two pictures", anchor=False)
    st.markdown(
        "**Hash chain**: the hash of a block covers its tokens and all tokens before them. **Radix "
        "tree**: where chains agree, they share a node. Both are drawn from the blocks of the map "
        "above them, at the step of its play head."
    )
    caching = controller.caching_rules(rules)
    st.markdown(captions.prefix_sentence(controller.replay_of(form.PREFIXES.id, caching)))
    st.markdown(controller.resumed_sentence())
    block_map(
        controller.shown(form.PREFIXES.id, caching, prefixes_open=True).packet, key="kv_prefix_map"
    )
    st.caption(
        f"“{labels[form.PREFIXES.id]}” under {caching.spec.title}. Filled: found in "
        "the cache when the request was admitted. Dashed: no request holds it, its content is kept."
    )

"""Disaggregation: prefill and decode on servers of their own, and when that pays."""

import streamlit as st

from ui import address, controls, frame, glossary
from ui.disaggregation import board, form, map_section, panel, sections, told
from ui.disaggregation.setups import BY_ID, PRESETS
from ui.six_ways import lanes, table

frame.required("disaggregation")
form.DISAGGREGATION.enter()
DARK = st.context.theme.type == "dark"

top = st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center")
top.title("Disaggregation", anchor=False, width="content")
with top.container(horizontal=True, width="content"):
    hardware, cable, load = (st.popover(name) for name in ("Servers", "Link", "Load and limits"))
st.html(
    glossary.marked(
        "[[Disaggregation|disaggregation]]: [[prefill]] on some servers, [[decode]] on others. "
        "Prompts no longer delay anybody's next token; in return the [[KV cache]] has to travel, "
        "and each pool can be the wrong size."
    )
)
preset = st.pills(
    "Preset", list(BY_ID), required=True, format_func=lambda name: BY_ID[name].label,
    key=form.PRESET.widget(), label_visibility="collapsed",
) or PRESETS[0].id  # fmt: skip
st.caption(BY_ID[preset].story)
panel.main()
with hardware:
    model = panel.servers(form.CHOICES["model"].usual)
with cable:
    panel.links()
with load:
    panel.load()
setup = form.setup(model)

with st.spinner("Running both"):
    shown = board.shown(setup)
split, mixed = shown.apart, shown.together
if isinstance(split, str):
    st.error(told.refused(split, mixed))
else:
    st.markdown(told.headline(split, mixed, setup))
if not isinstance(split, str) or mixed != split:  # else there is nothing to draw
    lanes(shown.packet, key="pd_lanes")
if not isinstance(split, str) and split.recording.status != "finished":
    st.warning(f"Apart did not finish: {split.recording.reason}.")
if setup.requests > board.MOST_DRAWN:
    st.caption(
        f"The lanes draw {board.MOST_DRAWN} of {setup.requests} requests; figures count all."
    )
controls.sureness(shown.sure)

if not isinstance(split, str) and not isinstance(mixed, str):
    found = told.figures(split, mixed)
    best = board.best_budget(repr(setup), setup)
    st.subheader("Apart against co-located", anchor=False)
    st.markdown(f"“Disaggregation is always better.” {told.claim(found, setup, best)}")
    st.html(table.style(DARK) + sections.side_by_side(found, setup))
    st.caption(
        f"Goodput: requests that finish, get their first token within {setup.ttft_ms:g} ms and "
        f"have no gap above {setup.itl_ms:g} ms. Both sides have the same servers, the same "
        "requests and a router that counts outstanding tokens."
    )

st.subheader("How much KV travels", anchor=False)
sections.kv_formula(setup, split)

st.subheader("Where splitting pays", anchor=False)
map_section.show(setup, DARK)

st.subheader("What a bad ratio looks like", anchor=False)
sections.ratios(setup)

if not isinstance(split, str):
    st.subheader("The flow of one request", anchor=False)
    sections.one_request(split)

st.subheader("Configuration to take home", anchor=False)
sections.configuration(setup)
form.DISAGGREGATION.keep()
address.write()

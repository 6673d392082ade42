"""The knobs of a way as widgets, on whichever page shows them."""

from collections.abc import Mapping

import streamlit as st

from ui.form import Field
from ui.six_ways.ways import Way


def turn(way: Way, fields: Mapping[tuple[str, str], Field], most: int) -> None:
    """One widget a knob, numbers up to `most`; the form, whose fields they are by (engine, knob),
    has given them their values."""
    for knob in way.knobs:
        key = fields[way.engine, knob.name].widget()
        if knob.options:
            st.selectbox(knob.name, knob.options, key=key)
        elif isinstance(knob.start, bool):
            st.toggle(knob.name, key=key)
        else:
            st.number_input(knob.name, min_value=knob.least, max_value=most, key=key)

"""The knobs of an engine as widgets, and as values of an address."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from ui.scenarios.ways import Knob, Way
from ui.shell import query_values
from ui.shell.forms import Field
from ui.text.hardware import link_title

MOST = 1_000_000  # of a number


def show(way: Way, fields: Mapping[tuple[str, str], Field]) -> None:
    """One widget per knob. `fields`: of the form that gives them their values."""
    for knob in way.knobs:
        key = fields[way.engine, knob.name].widget()
        if knob.options:
            words = link_title if knob.name == "link" else str
            st.selectbox(knob.name, knob.options, key=key, format_func=words)
        elif isinstance(knob.start, bool):
            st.toggle(knob.name, key=key)
        else:
            st.number_input(knob.name, min_value=knob.least, max_value=MOST, key=key)


def read_knob(knob: Knob) -> Any:
    if knob.options:
        return query_values.name(lambda: knob.options, "value")
    if isinstance(knob.start, bool):
        return query_values.switch
    if knob.least < 0:
        return query_values.either(str(knob.least), knob.least, query_values.whole(1, MOST))
    return query_values.whole(knob.least, MOST)

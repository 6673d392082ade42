"""Small controls that several pages share."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

Option = TypeVar("Option")


def choice(
    where: DeltaGenerator | None,
    label: str,
    options: Sequence[Option],
    default: Option,
    key: str,
    format_func: Callable[[Any], str] = str,
) -> Option:
    """A select box whose value falls back to the default where it is no longer an option."""
    if st.session_state.get(key) not in options:
        st.session_state[key] = default if default in options else options[0]
    select = st.selectbox if where is None else where.selectbox
    chosen = select(label, options, key=key, format_func=format_func)
    return options[0] if chosen is None else chosen


def confidence(notes: Iterable[str]) -> None:
    """How sure the milliseconds above are; each note of sim.results.provenance once."""
    once = list(dict.fromkeys(notes))
    if once:
        st.caption(f"Simulated; {'; '.join(once)}.")

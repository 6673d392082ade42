"""Choosing a model: one of the catalogue, or a pasted config.json, which then stands among them."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from sim.hardware import catalog
from sim.scenario.model_config import DescribedModel, described

PASTE = "paste a config.json"
ASK = "config.json of a dense decoder (Llama, Mistral, Qwen2, Qwen3)"
PASTED, PROBLEM = "pasted_models", "paste_problem"
Ref = str | DescribedModel


def choose(where: Any, key: str, usual: Ref, on_change: Callable[[], None] | None = None) -> Ref:
    """A select box whose value lies in the session's state under `key`; while a config.json is
    being pasted, `usual` stands in."""
    value, pasted = st.session_state.get(key, usual), pasted_models()
    for ref in (value, usual):
        if isinstance(ref, DescribedModel) and ref not in pasted:
            pasted.append(ref)
    options = (*catalog.model_names(), *pasted, PASTE)
    st.session_state[key] = value if value in options else usual
    chosen: Ref = where.selectbox("Model", options, format_func=title, key=key, on_change=on_change)
    if chosen != PASTE:
        if isinstance(chosen, DescribedModel):
            size = chosen.model().parameters / 1e9
            where.caption(f"{size:.2f} billion parameters, from a pasted config.json")
        return chosen
    text_key = f"{key}_text"
    where.text_area(ASK, key=text_key, on_change=take, args=(key, text_key, on_change))
    problem = st.session_state.get(PROBLEM)
    if problem is not None:
        where.error(f"{problem}. {usual} is shown instead.")
    return usual


def take(key: str, text_key: str, on_change: Callable[[], None] | None) -> None:
    """A text was pasted: a model that can be read is chosen at once."""
    st.session_state[PROBLEM] = None
    text = st.session_state[text_key]
    if not text:
        return
    try:
        found = described(text)
    except ValueError as error:
        st.session_state[PROBLEM] = str(error)
        return
    if found not in pasted_models():
        pasted_models().append(found)
    st.session_state[key] = found
    if on_change is not None:
        on_change()


def pasted_models() -> list[DescribedModel]:
    """The models of this session that the catalogue does not know."""
    found: list[DescribedModel] = st.session_state.setdefault(PASTED, [])
    return found


def title(ref: Ref) -> str:
    return f"{ref} (config.json)" if isinstance(ref, DescribedModel) else ref

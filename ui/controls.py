"""Widgets that several pages share: presets, the settings behind a button, tiles."""

from collections.abc import Callable, Iterable
from typing import Literal

import streamlit as st

from ui import machines, models, state
from ui.presets import Preset
from ui.runs import Picture
from ui.settings import Settings
from ui.story import Delta, Tile

KEY = state.PREFIX
Arrow = Literal["up", "down", "off"]


def preset_pills(presets: tuple[Preset, ...], key: str) -> str:
    """A button a preset; returns the id of the chosen one, which cannot be unchosen."""
    names = {preset.id: preset.label for preset in presets}
    chosen = st.pills(
        "Preset", list(names), format_func=names.__getitem__, key=key, required=True,
        label_visibility="collapsed", wrap=True,
    )  # fmt: skip
    return chosen or presets[0].id


def more_settings(base: Settings) -> None:
    """Everything but the two dials. Values lie in the session's state, see ui.state.read."""
    left, right = st.columns(2)
    with left:
        if base.model is not None:
            if found := machines.profile(base.gpu):
                st.caption(f"Model: {found.model}, which the profile was measured with.")
            else:
                models.choose(st, KEY + "model", base.model, state.touch)
            _choice("GPU", "gpu", machines.names(base.gpu), machines.title)
        else:
            st.caption(
                "Step times of this preset come from the linear toy, not from a model and a GPU."
            )
        _number(
            "max_model_len, tokens",
            "max_model_len",
            2,
            "Longest prompt plus output. Empty: the model's own.",
        )
        _number(
            "KV blocks",
            "num_gpu_blocks",
            2,
            "Blocks of 16 tokens. Empty: what fits the GPU's memory.",
        )
        if base.rate_per_s is not None:
            _positive(
                "Arrival rate, requests/s",
                "rate_per_s",
                "Of the first class of requests that has one.",
            )
        if base.time_scale is not None:
            _positive("Time scale", "time_scale", "2 spreads the arrivals over twice the time.")
    with right:
        st.toggle("Chunked prefill", key=KEY + "chunking", on_change=state.touch)
        st.toggle("Prefix caching", key=KEY + "prefix_caching", on_change=state.touch)
        _number(
            "max_num_seqs",
            "max_num_seqs",
            1,
            "Requests that may run at once. Empty: the engine's default, at most the budget.",
        )
        st.number_input(
            "Seed", min_value=0, max_value=2**31, step=1, key=KEY + "seed", on_change=state.touch
        )
        st.number_input(
            "Longest gap between tokens, ms", min_value=1.0, max_value=60_000.0, step=10.0,
            format="%.0f", key=state.LIMIT_MS, help="Your limit: a longer gap is marked.",
            on_change=state.touch,
        )  # fmt: skip


def _choice(
    label: str,
    name: str,
    options: tuple[str, ...],
    words: Callable[[str], str] = str,
    disabled: bool = False,
) -> None:
    st.selectbox(
        label, options, format_func=words, key=KEY + name, on_change=state.touch, disabled=disabled
    )  # fmt: skip


def _number(label: str, name: str, least: int, help: str) -> None:
    st.number_input(
        label, min_value=least, max_value=10_000_000, step=1, key=KEY + name, placeholder="auto",
        help=help, on_change=state.touch, value=None,
    )  # fmt: skip


def _positive(label: str, name: str, help: str) -> None:
    st.number_input(
        label, min_value=0.001, max_value=1e6, key=KEY + name, help=help, on_change=state.touch
    )


def tile_row(tiles: list[Tile], stale: bool) -> None:
    """The figures of a run, side by side; on a phone below each other. `stale`: of the last run
    that the engine accepted."""
    if stale:
        st.caption("Picture and figures are those of the last settings that the engine accepted.")
    with st.container(horizontal=True, key="tiles"):
        for tile in tiles:
            words, color, arrow = told(tile.delta)
            st.metric(
                tile.label, tile.value, words, help=tile.definition, border=True,
                delta_color=color, delta_arrow=arrow,
            )  # fmt: skip


def told(delta: Delta | None) -> tuple[str | None, Literal["green", "orange", "gray"], Arrow]:
    """A difference to the pinned run: never by colour alone."""
    if delta is None:
        return None, "gray", "off"
    arrow: Arrow = "up" if delta.direction > 0 else "down" if delta.direction < 0 else "off"
    if delta.better is None:
        return delta.words, "gray", arrow
    if delta.better:
        return f"{delta.words}, better", "green", arrow
    return f"{delta.words}, worse", "orange", arrow


def no_trace_yet(back: Preset) -> None:
    """Where the timeline would be, before a file is chosen; the way out is a button."""
    with st.container(border=True, height=240, horizontal_alignment="center", gap="small"):
        st.space("medium")
        st.markdown(
            "**No trace yet.** Drop a file above: its requests run on the first preset's server.",
            width="content",
        )
        st.button(f"Back to {back.label.lower()}", on_click=_go_back, args=(back,))


def _go_back(preset: Preset) -> None:
    state.choose(preset.id)


def notices(picture: Picture) -> None:
    """What a reader must know of a run beside its figures: rejected requests, an early end."""
    if picture.rejections:
        st.warning(f"{picture.rejections}. A longer max_model_len stands under More settings.")
    if picture.ending:
        st.warning(f"This run did not finish. {picture.ending}")
    sureness(picture.sure)


def sureness(notes: Iterable[str]) -> None:
    """How sure the milliseconds above are; each note of sim.provenance once."""
    told = list(dict.fromkeys(notes))
    if told:
        st.caption(f"Simulated; {'; '.join(told)}.")

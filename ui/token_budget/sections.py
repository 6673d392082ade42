"""The parts of the page: presets, settings, figures, downloads, the way to the real engine."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import streamlit as st

from ui import charts
from ui.charts.look import CONFIG, Named
from ui.scenarios import gpu_choice
from ui.scenarios.presets import Preset
from ui.scenarios.settings import Settings
from ui.shell import address_bar, frame, navigation, permalink, session
from ui.text.run_summary import Delta, Tile
from ui.token_budget import form
from ui.token_budget.pictures import Picture
from ui.widgets import controls, model_choice, your_scenario

Arrow = Literal["up", "down", "off"]
REAL_ENGINE = "real_engine"  # path of its page


def preset_pills(presets: Sequence[Preset]) -> str:
    """One button per preset; returns the id of the chosen one."""
    form.write_preset()
    names = {preset.id: preset.label for preset in presets}
    chosen = st.pills(
        "Preset", list(names), format_func=names.__getitem__, key=form.PRESET, required=True,
        label_visibility="collapsed", wrap=True,
    )  # fmt: skip
    return chosen or presets[0].id


def more_settings(settings: Settings) -> None:
    """Everything but the two dials. The values are the run's, see form.write_settings."""
    form.write_settings()
    left, right = st.columns(2)
    with left:
        if settings.model is not None and settings.gpu is not None:
            if found := gpu_choice.profile(settings.gpu):
                st.caption(f"Model: {found.model}, which the profile was measured with.")
            else:
                model_choice.choose(st, form.PREFIX + "model", settings.model, session.touch)
            st.selectbox(
                "GPU", gpu_choice.names(settings.gpu), format_func=gpu_choice.title,
                key=form.PREFIX + "gpu", on_change=session.touch,
            )  # fmt: skip
        else:
            st.caption(
                "Step times of this preset come from the linear toy, not from a model and a GPU."
            )
        _number(
            "max_model_len, tokens",
            "max_model_len",
            2,
            "Longest prompt plus output. Empty: the model's own limit.",
        )
        _number(
            "KV blocks",
            "num_gpu_blocks",
            2,
            "Blocks of 16 tokens. Empty: as many as fit into the GPU's memory.",
        )
        if settings.rate_per_s is not None:
            _positive(
                "Arrival rate, requests/s",
                "rate_per_s",
                "Rate of the first class of requests that has one.",
            )
        if settings.time_scale is not None:
            _positive("Time scale", "time_scale", "2 spreads the arrivals over twice the time.")
    with right:
        st.toggle("Chunked prefill", key=form.PREFIX + "chunking", on_change=session.touch)
        st.toggle("Prefix caching", key=form.PREFIX + "prefix_caching", on_change=session.touch)
        _number(
            "max_num_seqs",
            "max_num_seqs",
            1,
            "Requests that may run at once. Empty: the engine's default, at most the budget.",
        )
        st.number_input(
            "Seed", min_value=0, max_value=2**31, step=1, key=form.PREFIX + "seed",
            on_change=session.touch,
        )  # fmt: skip
        st.number_input(
            "Longest gap between tokens, ms", min_value=1.0, max_value=60_000.0, step=10.0,
            format="%.0f", key=form.LIMIT_MS, help="Your limit: a longer gap is marked.",
            on_change=session.touch,
        )  # fmt: skip


def _number(label: str, name: str, least: int, help: str) -> None:
    st.number_input(
        label, min_value=least, max_value=10_000_000, step=1, key=form.PREFIX + name,
        placeholder="auto", help=help, on_change=session.touch, value=None,
    )  # fmt: skip


def _positive(label: str, name: str, help: str) -> None:
    st.number_input(
        label, min_value=0.001, max_value=1e6, key=form.PREFIX + name, help=help,
        on_change=session.touch,
    )  # fmt: skip


def no_trace_yet(back: Preset) -> None:
    """In the timeline's place before a file is chosen: what to do, and a button back."""
    with st.container(border=True, height=240, horizontal_alignment="center", gap="small"):
        st.space("medium")
        st.markdown(
            "**No trace yet.** Drop a file above: its requests run on the first preset's server.",
            width="content",
        )
        st.button(f"Back to {back.label.lower()}", on_click=session.choose, args=(back.id,))


# --- below the timeline ---------------------------------------------------------------------------


def tile_row(tiles: Sequence[Tile], stale: bool) -> None:
    """The figures of a run, side by side; on a phone below each other. `stale`: of the last run
    that the engine accepted."""
    if stale:
        st.caption("Picture and figures are those of the last settings that the engine accepted.")
    with st.container(horizontal=True, key="tiles"):
        for tile in tiles:
            words, color, arrow = delta_of(tile.delta)
            st.metric(
                tile.label, tile.value, words, help=tile.definition, border=True,
                delta_color=color, delta_arrow=arrow,
            )  # fmt: skip


def delta_of(delta: Delta | None) -> tuple[str | None, Literal["green", "orange", "gray"], Arrow]:
    """The difference to the pinned run as words, colour and arrow: never by colour alone."""
    if delta is None:
        return None, "gray", "off"
    arrow: Arrow = "up" if delta.direction > 0 else "down" if delta.direction < 0 else "off"
    if delta.better is None:
        return delta.words, "gray", arrow
    if delta.better:
        return f"{delta.words}, better", "green", arrow
    return f"{delta.words}, worse", "orange", arrow


def notices(picture: Picture) -> None:
    """What must be read beside the figures: rejected requests, an early end, how sure they are."""
    for rejection in picture.rejections:
        st.warning(f"{rejection}.")
    if picture.ending:
        st.warning(f"This run did not finish. {picture.ending}")
    controls.confidence(picture.confidence)


FIGURES: dict[str, tuple[str, Callable[..., Any]]] = {
    "Gaps between tokens": (
        "Each dot is one gap between two tokens of one request, at the moment it ended.",
        charts.itl_over_time,
    ),
    "First tokens": (
        "Time from arrival to the first output token of each request, waiting included.",
        charts.ttft_per_request,
    ),
    "KV memory": ("KV blocks in use while each step runs.", charts.kv_use),
    "Queue": ("Requests waiting after each step was planned.", charts.queue_length),
}


def figures(lanes_of: Callable[[], Sequence[Named]]) -> None:
    """An expander with one figure per tab; nothing is computed while it is closed."""
    box = st.expander("Figures", key="figures", on_change="rerun")
    if not box.open:
        return
    lanes = lanes_of()
    with box:
        for tab, (name, (words, draw)) in zip(
            st.tabs(list(FIGURES), key="figure", on_change="rerun"), FIGURES.items(), strict=True
        ):
            if tab.open:
                with tab:
                    st.caption(words + (" Grey: the pinned run." if len(lanes) > 1 else ""))
                    plot = draw(lanes, dark=frame.is_dark())
                    st.plotly_chart(plot, theme=None, config=CONFIG, alt=f"{name}. {words}")


def run_on_real_engine() -> None:
    """A box with a link that takes the run to the page Real engine."""
    if not navigation.exists(REAL_ENGINE):
        return
    with st.container(border=True, key="run_for_real"):
        st.markdown(
            "**Run this on the real engine.** The same requests under the same budget, computed by "
            "PyTorch on this server: reduced to what it can run, and measured."
        )
        query = permalink.write(session.choice(), address_bar.frame()) | your_scenario.QUERY
        st.page_link(
            f"pages/{REAL_ENGINE}.py", label=":blue[Take this scenario there]", query_params=query
        )

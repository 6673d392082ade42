"""Calibrate on the run that is shown, watch the gap close, keep the profile."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import streamlit as st

from sim.latency import model as latency_model
from sim.latency import profiles
from sim.latency.profiles import Profile, ProfileError
from ui.real.session import Done

MOST_PROFILES = 100  # of this server, all readers together


@dataclass(frozen=True)
class Calibrated:
    """A gpu_backend.calibrate.Fit, and the profile it makes."""

    fit: Any
    profile: Profile


def calibrate(done: Done) -> Calibrated:
    """Fit all measured steps of the shown runs. CalibrationError says why they do not do."""
    from gpu_backend.calibrate import fit

    runs = [one.run for one in done.ran]
    steps = np.concatenate([run.recording.steps for run in runs]).view(np.recarray)
    lengths = [
        run.recording.requests.num_prompt_tokens + run.recording.requests.num_output_tokens
        for run in runs
    ]
    longest = int(max(map(np.max, lengths)))
    run = runs[0]
    found = fit(
        steps, graph_decodes=run.graph_decodes, max_context=longest, contaminated=not_quiet(done)
    )
    device = run.device
    profile = found.profile(
        name_of(run), run.loaded.title.removesuffix(", random weights"), device.title,
        device.dtype_name, backend=run.backend[:200], threads=device.threads,
        measured_on=f"{datetime.now(UTC):%Y-%m-%d}",
    )  # fmt: skip
    return Calibrated(found, profile)


def name_of(run: Any) -> str:
    """A first name for a profile: model, device, dtype."""
    words = f"{run.loaded.title.split(',')[0]} {run.device.title} {run.device.dtype_name}"
    return re.sub(r"[^A-Za-z0-9._-]+", "-", words).strip("-._")[:60]


def times_of(found: Calibrated) -> Any:
    """The LATENCY row to simulate with."""
    return latency_model.measured(found.profile.coefficients.model_dump())


# --- on the page ----------------------------------------------------------------------------------


def panel(done: Done) -> None:
    """The button, the figures of the fit, and where the profile goes."""
    st.subheader("Calibrate", anchor=False)
    st.markdown(
        "The first guess knows this machine's memory bandwidth and its best matrix product, and "
        "nothing else. Calibration fits six coefficients to 70% of the measured steps; the error "
        "it reports is that of the other 30%."
    )
    found = done.calibrated
    why = not_quiet(done)
    if found is None and why is not None:
        st.button("Calibrate on this run", type="primary", disabled=True)
        st.markdown(
            f"Not on this run: the machine was not quiet, {why}. Run it again when other programs "
            "leave the processor alone; then its steps can be trusted."
        )
    elif found is None:
        st.button("Calibrate on this run", type="primary", on_click=take, args=(done,))
        if done.refused is not None:
            st.error(f"Not calibrated: {done.refused}.")
    else:
        told(found)
        keep(found.profile)


def not_quiet(done: Done) -> str | None:
    """Why the times of the shown runs are not to be trusted, None for a quiet machine."""
    runs = [one.run.served for one in done.ran]
    return next((run.contaminated_why for run in runs if run.contaminated), None)


def take(done: Done) -> None:
    """The button was pressed: fit, and simulate again with what was found."""
    from gpu_backend.calibrate import CalibrationError

    try:
        done.use(calibrate(done), times_of)
    except CalibrationError as error:
        done.refused = str(error)


def told(found: Calibrated) -> None:
    c, fit = found.profile.coefficients, found.fit
    eager = f"; a step with a prompt in it, or more than {c.graph_decodes} decodes, takes "
    eager = f"{eager}{cost(c.eager_step_s)} more" if c.graph_decodes else ""
    st.markdown(
        f"Fitted on {fit.num_steps} steps; on the held-out ones the mean absolute error is "
        f"**{fit.mape:.1%}**, the 90th percentile {fit.p90_error:.1%}, R² {fit.r2:.3f}. A step "
        f"costs {cost(c.step_s)}, and {cost(c.prefill_token_s)} a prompt token, "
        f"{cost(c.decode_s)} a decode, {cost(c.decode_context_s)} a token of a decode's context, "
        f"{cost(c.prefill_pair_s)} a pair of prompt tokens{eager}. The figures "
        "above are simulated with it now."
    )


def cost(seconds: float) -> str:
    """Three digits and a unit, down to ns."""
    for unit, factor in (("ms", 1e3), ("µs", 1e6), ("ns", 1e9)):
        if seconds * factor >= 1:
            return f"{seconds * factor:,.3g} {unit}"
    return f"{1e9 * seconds:.2g} ns" if seconds else "nothing"


def keep(profile: Profile) -> None:
    """Save it as a machine of every page, or take it elsewhere."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.text_input("Name of the profile", profile.name, max_chars=60, key="real_save_as")
        st.button("Save as this machine", on_click=save, args=(profile, name))
        st.download_button(
            "Export", profile.to_json, file_name=f"{profile.name}.json", mime="application/json",
            on_click="ignore",
        )  # fmt: skip
    say("real_saved")


def save(profile: Profile, name: str) -> None:
    try:
        check_room()
        named = Profile.model_validate(profile.model_dump() | {"name": name})
        profiles.save(named)
        words = f"Saved. Every page offers “{named.title}” among its GPUs now."
        st.session_state["real_saved"] = (True, words)
    except ProfileError as error:
        st.session_state["real_saved"] = (False, f"Not saved: {error}.")
    except ValueError:
        words = "Not saved: a name has letters, digits, '.', '_' and '-', and begins with one of "
        st.session_state["real_saved"] = (False, f"{words}the first two.")


def check_room() -> None:
    if len(profiles.names()) >= MOST_PROFILES:
        raise ProfileError(f"{MOST_PROFILES} profiles are here already; delete some first")


def bring() -> None:
    """A profile that was exported elsewhere."""
    with st.expander("Import a profile"):
        file = st.file_uploader(
            "A profile that was exported (JSON)", type="json", key="real_file", on_change=forget
        )
        if file is not None:
            st.button("Import it", on_click=bring_in, args=(file.getvalue(),))
        say("real_brought")


def forget() -> None:
    """Another file was chosen: what the last one came to is no longer news."""
    st.session_state.pop("real_brought", None)


def bring_in(content: bytes) -> None:
    try:
        check_room()
        found = profiles.import_profile(content)
        words = f"“{found.title}” is a machine of every page now."
        st.session_state["real_brought"] = (True, words)
    except ProfileError as error:
        st.session_state["real_brought"] = (False, f"Not imported: {error}.")


def say(key: str) -> None:
    """What the last click came to."""
    if key in st.session_state:
        good, words = st.session_state[key]
        (st.success if good else st.error)(words)

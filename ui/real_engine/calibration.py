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
from ui.real_engine.runs import Finished, Runs
from ui.shell.session import kept

MOST_PROFILES = 100  # of this server, all readers together


@dataclass(frozen=True)
class Calibrated:
    """A gpu_backend.calibrate.Fit, and the profile it makes."""

    fit: Any
    profile: Profile


def calibrate(finished: Finished) -> Calibrated:
    """Fit all measured steps of the shown runs. CalibrationError says why they do not do."""
    from gpu_backend.calibration.fit import fit

    runs = [one.run for one in finished.runs]
    steps = np.concatenate([run.recording.steps for run in runs]).view(np.recarray)
    lengths = [
        run.recording.requests.num_prompt_tokens + run.recording.requests.num_output_tokens
        for run in runs
    ]
    longest = int(max(map(np.max, lengths)))
    run = runs[0]
    found = fit(
        steps,
        graph_decodes=run.graph_decodes,
        max_context=longest,
        contaminated=not_quiet(finished),
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


def panel(finished: Finished) -> None:
    """The button, the figures of the fit, and where the profile goes."""
    st.subheader("Calibrate", anchor=False)
    st.markdown(
        "The first guess knows this machine's memory bandwidth and its best matrix product, and "
        "nothing else. Calibration fits six coefficients to 70% of the measured steps; the error "
        "it reports is that of the other 30%."
    )
    found = finished.calibrated
    why = not_quiet(finished)
    if found is None and why is not None:
        st.button("Calibrate on this run", type="primary", disabled=True)
        st.markdown(
            f"Not on this run: the machine was not quiet, {why}. Run it again when other programs "
            "leave the processor alone; then its steps can be trusted."
        )
    elif found is None:
        st.button("Calibrate on this run", type="primary", on_click=take, args=(finished,))
        if finished.refused is not None:
            st.error(f"Not calibrated: {finished.refused}.")
    else:
        show_fit(found)
        save_section(found.profile)


def not_quiet(finished: Finished) -> str | None:
    """Why the times of the shown runs are not to be trusted, None for a quiet machine."""
    runs = [one.run.output for one in finished.runs]
    return next((run.contaminated_why for run in runs if run.contaminated), None)


def take(finished: Finished) -> None:
    """The button was pressed: fit, and simulate again with what was found."""
    from gpu_backend.calibration.fit import CalibrationError

    try:
        finished.use(calibrate(finished), times_of)
    except CalibrationError as error:
        finished.refused = str(error)


def show_fit(found: Calibrated) -> None:
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


def save_section(profile: Profile) -> None:
    """Save it as a machine of every page, or take it elsewhere."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.text_input("Name of the profile", profile.name, max_chars=60, key="real_save_as")
        st.button("Save as this machine", on_click=save, args=(profile, name))
        st.download_button(
            "Export", profile.to_json, file_name=f"{profile.name}.json", mime="application/json",
            on_click="ignore",
        )  # fmt: skip
    show_notice(kept(Runs).saved)


def save(profile: Profile, name: str) -> None:
    try:
        check_room()
        named = Profile.model_validate(profile.model_dump() | {"name": name})
        profiles.save(named)
        words = f"Saved. Every page offers “{named.title}” among its GPUs now."
        kept(Runs).saved = (True, words)
    except ProfileError as error:
        kept(Runs).saved = (False, f"Not saved: {error}.")
    except ValueError:
        words = "Not saved: a name has letters, digits, '.', '_' and '-', and begins with one of "
        kept(Runs).saved = (False, f"{words}the first two.")


def check_room() -> None:
    if len(profiles.names()) >= MOST_PROFILES:
        raise ProfileError(f"{MOST_PROFILES} profiles are here already; delete some first")


def import_section() -> None:
    """A profile that was exported elsewhere."""
    with st.expander("Import a profile"):
        file = st.file_uploader(
            "Exported profile (JSON)", type="json", key="real_file", on_change=forget
        )
        if file is not None:
            st.button("Import it", on_click=import_file, args=(file.getvalue(),))
        show_notice(kept(Runs).imported)


def forget() -> None:
    """Another file was chosen: what the last one came to is no longer news."""
    kept(Runs).imported = None


def import_file(content: bytes) -> None:
    try:
        check_room()
        found = profiles.import_profile(content)
        words = f"“{found.title}” is a machine of every page now."
        kept(Runs).imported = (True, words)
    except ProfileError as error:
        kept(Runs).imported = (False, f"Not imported: {error}.")


def show_notice(notice: tuple[bool, str] | None) -> None:
    """What came of the last click."""
    if notice is not None:
        good, words = notice
        (st.success if good else st.error)(words)

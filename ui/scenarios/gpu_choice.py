"""The machines that a page offers as its GPU: the catalogue's, then measured profiles.

A machine is one string, as it stands in settings and addresses: a GPU's name, or `measured:` and
the name of a profile. A profile brings its own model.
"""

from collections.abc import Mapping
from typing import Any

from sim.hardware import catalog
from sim.latency import profiles
from sim.latency.profiles import Profile, ProfileError
from sim.scenario.load import Replica
from sim.scenario.model_config import DescribedModel

__all__ = [
    "is_profile",
    "machine_of",
    "names",
    "own_model",
    "phrase",
    "profile",
    "read",
    "replica_fields",
    "title",
]

PREFIX = "measured:"


def names(chosen: str | None = None) -> tuple[str, ...]:
    """What a page offers; `chosen` too, where it is a profile that is no longer here."""
    measured = [PREFIX + name for name in profiles.names()]
    if chosen is not None and is_profile(chosen) and chosen not in measured:
        measured.append(chosen)
    return (*catalog.gpu_names(), *measured)


def is_profile(machine: str | None) -> bool:
    return machine is not None and machine.startswith(PREFIX)


def profile(machine: str | None) -> Profile | None:
    """The profile behind a machine; None for a GPU, and for one that is not here."""
    if machine is None or not is_profile(machine):
        return None
    try:
        return profiles.load(machine.removeprefix(PREFIX))
    except ProfileError:
        return None


def own_model(machine: str | None) -> catalog.Model | None:
    """The model that a profile was measured with; None for a GPU, and where the catalogue does not
    know it."""
    found = profile(machine)
    try:
        return catalog.model(found.model) if found else None
    except ValueError:
        return None


def title(machine: str) -> str:
    """A machine as a list of them says it; a profile that has vanished keeps its name there, since
    that is what the browser remembers."""
    if not is_profile(machine):
        return catalog.gpu(machine).title
    found = profile(machine)
    return found.title if found else f"this machine: {machine.removeprefix(PREFIX)}"


def phrase(model: str | DescribedModel | None, machine: str) -> tuple[str, str]:
    """What runs, and what it runs on, as a sentence says it."""
    if not is_profile(machine):
        name = title(machine).removeprefix("NVIDIA ").removeprefix("GeForce ")
        return f"{model}, bf16 on ", name
    found = profile(machine)
    return (f"{found.model}, {found.dtype}, measured on " if found else "measured on "), title(
        machine
    )


# --- in a scenario --------------------------------------------------------------------------------


def machine_of(replica: Replica) -> str | None:
    """The machine of a replica, None for the linear toy."""
    if replica.latency.kind == "measured":
        return PREFIX + replica.latency.profile
    return replica.gpu


def replica_fields(
    model: str | None, machine: str | None, latency: Mapping[str, Any]
) -> dict[str, Any]:
    """model, gpu and latency of a replica on this machine; `latency` is what it had before."""
    if machine is not None and is_profile(machine):
        measured = {"kind": "measured", "profile": machine.removeprefix(PREFIX)}
        return {"model": None, "gpu": None, "latency": measured}
    kept = {"kind": "roofline"} if latency["kind"] == "measured" else latency
    return {"model": model, "gpu": machine, "latency": kept}


def read(text: str) -> str:
    """A machine from an address. ValueError says what it must be: a profile of another machine is
    not here."""
    if text in names():
        return text
    here = ", ".join(profiles.names()) or "none"
    if is_profile(text):
        raise ValueError(f"a profile that was measured or imported here: {here}")
    known = ", ".join(catalog.gpu_names())
    raise ValueError(f"a GPU of this page: {known}; or {PREFIX} and a profile: {here}")

"""The models that can run here, and their names: "random:SHAPE", "smollm2", or a folder."""

import threading
from dataclasses import dataclass
from pathlib import Path

from gpu_backend.device import Device, too_little
from gpu_backend.models import architecture, smollm2, tokenizer, weights
from gpu_backend.models.model import Model
from gpu_backend.models.tokenizer import Tokenizer

__all__ = ["DEFAULT", "Loaded", "Offer", "load", "offers"]

DEFAULT = "random:smollm2-135m"
RANDOM = "random:"


@dataclass(frozen=True)
class Offer:
    """A model that can be requested. `state`: ready and where it is stored, or why not."""

    name: str
    title: str
    state: str


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model in memory with its tokenizer. `random`: its text is meaningless."""

    name: str
    title: str
    model: Model
    tokenizer: Tokenizer
    random: bool


def offers(device: Device) -> list[Offer]:
    """Random weights of every named shape, and SmolLM2."""
    found = []
    for name in architecture.NAMED:
        shape = architecture.named(name)
        title = f"random weights, {shape.shape.parameters / 1e6:,.1f} million parameters"
        state = memory_shortage(shape, device) or "ready: made when asked for"
        found.append(Offer(RANDOM + name, title, state))
    state = "not fetched: python -m gpu_backend fetch smollm2"
    if smollm2.is_fetched():
        state = (
            memory_shortage(architecture.named("smollm2-135m"), device)
            or f"ready: {smollm2.folder()}"
        )
    found.append(Offer("smollm2", f"{smollm2.NAME}, 134.5 million parameters", state))
    return found


def memory_shortage(shape: architecture.Architecture, device: Device) -> str | None:
    """Why the weights of a shape cannot be loaded."""
    wanted = weights.weight_bytes(shape, device)
    free = too_little(device, wanted)
    if free is None:
        return None
    return f"too large for this machine: {wanted / 1e9:.2f} GB, {free / 1e9:.2f} GB free"


LOCK = threading.Lock()
KEPT: dict[tuple[str, Device], Loaded] = {}  # the last model loaded


def load(name: str, device: Device) -> Loaded:
    """The model of that name on that device; the last one stays in memory.

    ValueError for an unknown name or folder; OutOfMemory where it does not fit.
    """
    with LOCK:
        if (name, device) not in KEPT:
            KEPT.clear()  # before the next one takes its memory
            KEPT[name, device] = load_uncached(name, device)
        return KEPT[name, device]


def load_uncached(name: str, device: Device) -> Loaded:
    if name.startswith(RANDOM):
        shape = architecture.named(name.removeprefix(RANDOM))
        model = weights.random_model(shape, device)
        title = f"{shape.shape.name}, random weights"
        return Loaded(name, title, model, tokenizer.ByteTokenizer(), random=True)
    if name == "smollm2":
        if not smollm2.is_fetched():
            raise ValueError(
                "smollm2 is not downloaded yet; fetch it with: python -m gpu_backend fetch smollm2"
            )
        folder, title = smollm2.folder(), smollm2.NAME
    else:
        folder = Path(name).expanduser()
        title = folder.name
        if not folder.is_dir():
            raise ValueError(
                f"no model {name!r}: name random:SHAPE ({', '.join(architecture.NAMED)}), smollm2, "
                "or a folder with config.json and safetensors"
            )
    model = weights.from_folder(folder, architecture.from_config(folder), device)
    return Loaded(name, title, model, tokenizer.load(folder), random=False)

"""Which models can run here, and how one is named: "random:SHAPE", "smollm2", or a folder."""

import threading
from dataclasses import dataclass
from pathlib import Path

from gpu_backend import architecture, smollm2, tokenizer, weights
from gpu_backend.device import Device
from gpu_backend.model import Model
from gpu_backend.tokenizer import Tokenizer

__all__ = ["DEFAULT", "Loaded", "Offer", "load", "offers"]

DEFAULT = "random:smollm2-135m"
RANDOM = "random:"


@dataclass(frozen=True)
class Offer:
    """A model that can be asked for. `place`: where it lies, or how to get it."""

    name: str
    title: str
    ready: bool
    place: str


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model in memory with its tokenizer. `random`: its text means nothing."""

    name: str
    title: str
    model: Model
    tokenizer: Tokenizer
    random: bool


def offers() -> list[Offer]:
    """Random weights of every named shape, SmolLM2, and what a folder must hold."""
    found = []
    for name in architecture.NAMED:
        shape = architecture.named(name).shape
        size = f"{shape.parameters / 1e6:,.1f} million parameters"
        found.append(Offer(RANDOM + name, f"random weights, {size}", True, "made when asked for"))
    ready = smollm2.is_fetched()
    place = str(smollm2.folder()) if ready else "not here: python -m gpu_backend fetch smollm2"
    found.append(Offer("smollm2", f"{smollm2.NAME}, 134.5 million parameters", ready, place))
    found.append(
        Offer("PATH", "a Hugging Face folder (Llama, Qwen2, Qwen3)", True, "safetensors only")
    )
    return found


LOCK = threading.Lock()
KEPT: dict[tuple[str, Device], Loaded] = {}  # the last model loaded


def load(name: str, device: Device) -> Loaded:
    """The model of that name on that device; the last one stays in memory.

    ValueError for a name or a folder that is none; OutOfMemory where it does not fit.
    """
    with LOCK:
        if (name, device) not in KEPT:
            KEPT.clear()  # before the next one takes its memory
            KEPT[name, device] = load_anew(name, device)
        return KEPT[name, device]


def load_anew(name: str, device: Device) -> Loaded:
    if name.startswith(RANDOM):
        shape = architecture.named(name.removeprefix(RANDOM))
        model = weights.random_model(shape, device)
        title = f"{shape.shape.name}, random weights"
        return Loaded(name, title, model, tokenizer.ByteTokenizer(), random=True)
    if name == "smollm2":
        if not smollm2.is_fetched():
            raise ValueError(
                "smollm2 is not here yet; fetch it with: python -m gpu_backend fetch smollm2"
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

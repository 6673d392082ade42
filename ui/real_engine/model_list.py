"""What this server can run for a reader: is PyTorch here, which models, which folders.

A page never opens a path that an address or a text box names: the operator of the server lists the
model folders in $BATCHSCOPE_MODEL_FOLDERS (separated as in $PATH), and a reader chooses by name.
"""

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

FOLDERS = "BATCHSCOPE_MODEL_FOLDERS"
RANDOM, SMOLLM2, FOLDER = "random:", "smollm2", "folder:"
DEFAULT = "random:llama-15m"  # seconds on any processor


def torch_is_here() -> bool:
    """Can the engine be loaded? Nothing is loaded to find out."""
    return importlib.util.find_spec("torch") is not None


def folders(environment: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """The model folders that the operator allows, by the name that a reader sees."""
    paths = [Path(text) for text in environment.get(FOLDERS, "").split(os.pathsep) if text]
    return {path.name: path for path in paths if path.name}


def names() -> tuple[str, ...]:
    """The models of the page as they stand in an address."""
    from gpu_backend.models import architecture

    shapes = (RANDOM + name for name in architecture.NAMED)
    return (*shapes, SMOLLM2, *(FOLDER + name for name in folders()))


def title(name: str) -> str:
    """A model as a list of them says it."""
    from gpu_backend.models import architecture

    if name.startswith(RANDOM):
        shape = architecture.named(name.removeprefix(RANDOM)).shape
        return f"Random weights, {size(shape.parameters)} ({shape.name})"
    if name == SMOLLM2:
        return "SmolLM2-135M-Instruct, real text"
    return f"{name.removeprefix(FOLDER)}, a folder of this server"


def size(parameters: int) -> str:
    millions = parameters / 1e6
    return f"{millions:,.0f}M" if millions < 1000 else f"{millions / 1000:,.1f}B"


def loadable(name: str) -> str:
    """The model as gpu_backend.models.zoo knows it. ValueError for a folder that is not allowed."""
    if not name.startswith(FOLDER):
        return name
    found = folders().get(name.removeprefix(FOLDER))
    if found is None:
        raise ValueError(f"{name} is not among the folders that this server allows (${FOLDERS})")
    return str(found)

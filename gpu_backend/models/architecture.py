"""The architecture of a Llama-family decoder: its shape and the constants of its forward pass.

One dataclass covers Llama, Qwen2 (biases on Q, K, V) and Qwen3 (QK-norm). It comes from a named
shape of the catalogue or from the config.json of a Hugging Face folder; features in that file that
the decoder does not compute are refused, never ignored.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.hardware import catalog
from sim.scenario.model_config import model_from_config

__all__ = ["NAMED", "Architecture", "RopeScaling", "from_config", "named"]


@dataclass(frozen=True)
class RopeScaling:
    """Llama 3's stretched rotary frequencies (`rope_type` "llama3")."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int

    def stretch(self, frequency: float) -> float:
        """Long wavelengths are stretched by `factor`, short ones kept, those in between
        interpolated."""
        wavelength = 2 * math.pi / frequency
        longest = self.original_max_position_embeddings / self.low_freq_factor
        shortest = self.original_max_position_embeddings / self.high_freq_factor
        if wavelength > longest:
            return frequency / self.factor
        if wavelength < shortest:
            return frequency
        share = self.original_max_position_embeddings / wavelength - self.low_freq_factor
        share /= self.high_freq_factor - self.low_freq_factor
        return (1 - share) * frequency / self.factor + share * frequency


@dataclass(frozen=True)
class Architecture:
    """A dense decoder: `shape` as the catalogue has it, and the constants of its forward pass."""

    shape: catalog.Model
    rope_theta: float = 10_000.0
    rope_scaling: RopeScaling | None = None
    rms_norm_eps: float = 1e-5
    eos_token_ids: tuple[int, ...] = ()

    @property
    def q_size(self) -> int:
        return self.shape.num_heads * self.shape.head_dim

    @property
    def kv_size(self) -> int:
        return self.shape.num_kv_heads * self.shape.head_dim

    @property
    def group_size(self) -> int:
        """Query heads that share a KV head."""
        return self.shape.num_heads // self.shape.num_kv_heads

    def frequencies(self) -> list[float]:
        """Rotary frequencies in radians per position, one for each pair of dimensions of a head."""
        dim = self.shape.head_dim
        plain = [self.rope_theta ** (-2 * k / dim) for k in range(dim // 2)]
        if self.rope_scaling is None:
            return plain
        return [self.rope_scaling.stretch(frequency) for frequency in plain]


# --- named shapes ---------------------------------------------------------------------------------

LLAMA_15M = catalog.Model(
    name="Llama-15M",
    num_layers=6,
    hidden_size=288,
    num_heads=6,
    num_kv_heads=6,
    head_dim=48,
    intermediate_size=768,
    vocab_size=32_000,
    tied_embeddings=True,
    max_model_len=2048,
    source="the shape of the 15M TinyStories Llama, with a longer context; 15.2 million parameters",
)
LLAMA_3_SCALING = RopeScaling(8.0, 1.0, 4.0, 8192)

# Name on the command line and on the page -> entry of the catalogue, rotary theta.
CATALOGUED = {
    "smollm2-135m": ("SmolLM2-135M", 100_000.0),
    "qwen2.5-0.5b": ("Qwen2.5-0.5B", 1_000_000.0),
    "qwen3-0.6b": ("Qwen3-0.6B", 1_000_000.0),
    "llama-3.2-1b": ("Llama-3.2-1B", 500_000.0),
    "qwen2.5-7b": ("Qwen2.5-7B", 1_000_000.0),
    "llama-3.1-8b": ("Llama-3.1-8B", 500_000.0),
    "qwen3-8b": ("Qwen3-8B", 1_000_000.0),
}
NAMED = ("llama-15m", *CATALOGUED)


def named(name: str) -> Architecture:
    """The architecture of a named shape; ValueError that lists them for another name."""
    key = name.strip().lower()
    if key == "llama-15m":
        return Architecture(LLAMA_15M)
    if key not in CATALOGUED:
        raise ValueError(f"unknown shape {name!r}; known: {', '.join(NAMED)}")
    entry, theta = CATALOGUED[key]
    scaling = LLAMA_3_SCALING if key.startswith("llama-3") else None
    return Architecture(catalog.model(entry), rope_theta=theta, rope_scaling=scaling)


# --- config.json ----------------------------------------------------------------------------------

# Keys that change the computation, and the values that are supported.
PLAIN_VALUES: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("silu",),
    "use_sliding_window": (False, None),
    "mlp_bias": (False, None),
    "pretraining_tp": (1, None),
    "partial_rotary_factor": (1, 1.0, None),
}
FAMILIES = ("llama", "qwen2", "qwen3")


def from_config(folder: Path) -> Architecture:
    """The architecture that the config.json of a folder describes. ValueError for a file that is
    missing, is not JSON, or needs an unsupported feature."""
    path = folder / "config.json"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    try:
        shape = model_from_config(text, folder.name)
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from None
    config = json.loads(text)
    family = config["model_type"]
    if family not in FAMILIES:
        raise ValueError(f"{path}: model_type {family!r} does not run here: {', '.join(FAMILIES)}")
    for key, plain in PLAIN_VALUES.items():
        if key in config and config[key] not in plain:
            raise ValueError(
                f"{path}: {key} is {config[key]!r}; this engine computes {plain[0]!r} only"
            )
    if family == "llama" and shape.qkv_bias:
        raise ValueError(f"{path}: attention_bias of a Llama model is not computed here")
    if any("sliding" in str(kind) for kind in config.get("layer_types") or ()):
        raise ValueError(f"{path}: layer_types names sliding windows; full attention only")
    if shape.head_dim % 2:
        raise ValueError(f"{path}: head_dim {shape.head_dim} is odd; rotary embeddings need pairs")
    theta, scaling = rope_of(config, path)
    return Architecture(
        shape=shape,
        rope_theta=theta,
        rope_scaling=scaling,
        rms_norm_eps=float(config.get("rms_norm_eps", 1e-6)),
        eos_token_ids=eos_of(config, folder),
    )


def rope_of(config: dict[str, Any], path: Path) -> tuple[float, RopeScaling | None]:
    """(theta, scaling), from the keys of transformers 4 (`rope_theta`, `rope_scaling`) or 5
    (`rope_parameters`)."""
    asked = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = float(config.get("rope_theta") or asked.get("rope_theta") or 10_000.0)
    kind = asked.get("rope_type", asked.get("type", "default"))
    if kind == "default":
        return theta, None
    if kind != "llama3":
        raise ValueError(f"{path}: rope_type {kind!r} is not computed here: default, llama3")
    try:
        return theta, RopeScaling(
            factor=float(asked["factor"]),
            low_freq_factor=float(asked["low_freq_factor"]),
            high_freq_factor=float(asked["high_freq_factor"]),
            original_max_position_embeddings=int(asked["original_max_position_embeddings"]),
        )
    except KeyError as error:
        raise ValueError(f"{path}: rope_type llama3 lacks the key {error}") from None


def eos_of(config: dict[str, Any], folder: Path) -> tuple[int, ...]:
    """Token ids that end a generation: generation_config.json's, else config.json's."""
    found = config.get("eos_token_id")
    path = folder / "generation_config.json"
    if path.is_file():
        try:
            found = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id", found)
        except (ValueError, AttributeError):
            raise ValueError(f"{path}: not a JSON object") from None
    if found is None:
        return ()
    return tuple(int(token) for token in (found if isinstance(found, list) else [found]))

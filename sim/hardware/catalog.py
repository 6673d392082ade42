"""GPUs, models and links of `data/*.toml`, and the sizes computed from them.

Names are matched without regard to case, "-", "_", spaces, an owner before "/" or the endings -hf
and -Instruct; an unknown name is a ValueError that lists the nearest three. Units: SI.
"""

import difflib
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

__all__ = [
    "WEIGHT_BYTES",
    "Gpu",
    "Link",
    "Model",
    "gpu",
    "gpu_names",
    "link",
    "link_names",
    "match",
    "model",
    "model_names",
    "precision",
    "table",
]

DATA = Path(__file__).parent / "data"
# Bytes of a weight in a linear layer. int4: weights only (AWQ, GPTQ), with a 16-bit scale and a
# 4-bit zero point for each group of 128; computed in bf16.
WEIGHT_BYTES = {"bf16": 2.0, "fp8": 1.0, "int4": 0.5 + 2.5 / 128}
COMPUTED_IN = {"bf16": "bf16", "fp8": "fp8", "int4": "bf16"}
KV_ELEMENT_BYTES = {"bf16": 2.0, "fp8": 1.0}
BF16_BYTES = 2.0  # embeddings, LM head, norms and activations, whatever the precision
PRECISION_ALIASES = {
    "fp16": "bf16",
    "bfloat16": "bf16",
    "float16": "bf16",
    "fp8_e4m3": "fp8",
    "awq": "int4",
    "gptq": "int4",
    "w4a16": "int4",
}


@dataclass(frozen=True)
class Gpu:
    """One GPU. Peaks are dense FLOP/s by precision; `host_s` is what the CPU adds to a step;
    `sources` has one line per number."""

    name: str
    title: str
    peak_flops: dict[str, float]
    memory_bytes: float
    bandwidth: float
    gpu_link: str
    host_link: str
    host_s: float
    sources: dict[str, str]


@dataclass(frozen=True)
class Link:
    """A link, bytes/s each way."""

    name: str
    bandwidth: float
    peak_bandwidth: float
    latency_s: float
    sources: dict[str, str]


@dataclass(frozen=True)
class Model:
    """A dense decoder. `max_model_len`: the context it was trained for."""

    name: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    tied_embeddings: bool
    max_model_len: int
    source: str
    qkv_bias: bool = False
    qk_norm: bool = False

    @property
    def linear_parameters(self) -> int:
        """Weights of all layers that every token is multiplied with; every step reads them."""
        query = self.num_heads * self.head_dim
        key_value = 2 * self.num_kv_heads * self.head_dim
        attention = self.hidden_size * (query + key_value) + query * self.hidden_size
        return self.num_layers * (attention + 3 * self.hidden_size * self.intermediate_size)

    @property
    def small_parameters(self) -> int:
        """Norms and biases, kept in bf16."""
        bias = (self.num_heads + 2 * self.num_kv_heads) * self.head_dim if self.qkv_bias else 0
        norms = 2 * self.hidden_size + (2 * self.head_dim if self.qk_norm else 0)
        return self.num_layers * (bias + norms) + self.hidden_size

    @property
    def head_parameters(self) -> int:
        """The LM head; also the size of the embedding table."""
        return self.vocab_size * self.hidden_size

    @property
    def parameters(self) -> int:
        tables = 1 if self.tied_embeddings else 2
        return self.linear_parameters + self.small_parameters + tables * self.head_parameters

    def weight_bytes(self, precision: str) -> float:
        """Bytes of all weights on all GPUs together."""
        linear = self.linear_parameters * WEIGHT_BYTES[precision]
        return linear + (self.parameters - self.linear_parameters) * BF16_BYTES

    def kv_heads_per_gpu(self, tp: int) -> int:
        """KV heads of one GPU: replicated once there are more GPUs than heads."""
        return max(1, self.num_kv_heads // tp)

    def kv_bytes_per_token(self, tp: int, element_bytes: float) -> float:
        """Keys and values of one token in all layers, on one GPU."""
        return 2 * self.num_layers * self.kv_heads_per_gpu(tp) * self.head_dim * element_bytes


# --- names ----------------------------------------------------------------------------------------


def plain(name: str) -> str:
    """`meta-llama/Llama-3.1-8B-Instruct` and `llama_3.1_8b` are the same name."""
    short = name.rsplit("/", 1)[-1].lower()
    for mark in "-_ ":
        short = short.replace(mark, "")
    for ending in ("instruct", "hf"):
        short = short.removesuffix(ending)
    return short


def match(name: str, table: dict[str, dict[str, Any]], what: str) -> str:
    """The canonical name of an entry of `table`, or ValueError with the nearest three."""
    known = {plain(alias): key for key in table for alias in (key, *table[key].get("aliases", ()))}
    found = known.get(plain(name))
    if found is not None:
        return found
    near = difflib.get_close_matches(plain(name), known, n=12, cutoff=0.0)
    canonical = list(dict.fromkeys(known[alias] for alias in near))[:3]
    raise ValueError(f"unknown {what} {name!r}; the nearest known: {', '.join(canonical)}")


def precision(name: str) -> str:
    """bf16, fp8 or int4; fp16 is read as bf16."""
    found = PRECISION_ALIASES.get(name.lower(), name.lower())
    if found not in WEIGHT_BYTES:
        known = ", ".join((*WEIGHT_BYTES, "fp16"))
        raise ValueError(f"unknown precision {name!r}; known: {known}")
    return found


def kv_element_bytes(kv_cache_dtype: str) -> float:
    """Bytes of a number in the KV cache. `auto` is the model's own type, bf16, as in vLLM."""
    name = "bf16" if kv_cache_dtype == "auto" else precision(kv_cache_dtype)
    if name not in KV_ELEMENT_BYTES:
        known = ", ".join(KV_ELEMENT_BYTES)
        raise ValueError(f"the KV cache cannot hold {name}; known: auto, {known}")
    return KV_ELEMENT_BYTES[name]


# --- entries --------------------------------------------------------------------------------------


@cache
def table(file: str) -> dict[str, dict[str, Any]]:
    """A parsed TOML file of sim/hardware/data."""
    with (DATA / f"{file}.toml").open("rb") as stream:
        return tomllib.load(stream)


def numbers(entry: dict[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
    """Values and sources of the numbers of an entry, `key = { value = ..., source = ... }`."""
    measured = {key: item for key, item in entry.items() if isinstance(item, dict)}
    values = {key: float(item["value"]) for key, item in measured.items()}
    return values, {key: str(item["source"]) for key, item in measured.items()}


@cache
def gpu(name: str) -> Gpu:
    """The GPU of that name; ValueError if there is none."""
    entries = table("gpus")
    key = match(name, entries, "GPU")
    values, sources = numbers(entries[key])
    peaks = {p: values[f"peak_flops_{p}"] for p in WEIGHT_BYTES if f"peak_flops_{p}" in values}
    return Gpu(
        name=key,
        title=entries[key]["title"],
        peak_flops=peaks,
        memory_bytes=values["memory_bytes"],
        bandwidth=values["bandwidth"],
        gpu_link=entries[key]["gpu_link"],
        host_link=entries[key]["host_link"],
        host_s=values["host_s"],
        sources=sources,
    )


@cache
def model(name: str) -> Model:
    """The model of that name; ValueError if there is none."""
    entries = table("models")
    key = match(name, entries, "model")
    shape = {field: value for field, value in entries[key].items() if field != "aliases"}
    return Model(name=key, **shape)


@cache
def link(name: str) -> Link:
    """The link of that name; ValueError if there is none."""
    entries = table("links")
    key = match(name, entries, "link")
    values, sources = numbers(entries[key])
    return Link(key, values["bandwidth"], values["peak_bandwidth"], values["latency_s"], sources)


def names(file: str) -> Iterable[str]:
    return table(file)


def gpu_names() -> tuple[str, ...]:
    return tuple(names("gpus"))


def model_names() -> tuple[str, ...]:
    return tuple(names("models"))


def link_names() -> tuple[str, ...]:
    return tuple(names("links"))

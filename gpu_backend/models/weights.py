"""Weights of a model: random ones of a named shape, or the safetensors of a Hugging Face folder.

Never a pickle, never code from a folder. Q, K and V are laid into one matrix, gate and up into
another; the rows of each head of Q and K are reordered so that rotary pairs stand side by side.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from gpu_backend.device import Device, check_memory, too_little
from gpu_backend.models.architecture import Architecture
from gpu_backend.models.linear import Linear, packing
from gpu_backend.models.model import Layer, Model

__all__ = ["from_folder", "pair_rows", "random_model", "weight_bytes"]

UNUSED = ("rotary_emb.inv_freq",)

# Returns a tensor by name and shape, on the device and in its number format.
Source = Callable[[str, tuple[int, ...]], torch.Tensor]


def weight_bytes(architecture: Architecture, device: Device) -> int:
    """Bytes of all weights; a tied table counts twice where the head is packed separately."""
    shape = architecture.shape
    parameters = shape.parameters
    if shape.tied_embeddings and packing(device.torch_device, device.dtype) == "oneDNN":
        parameters += shape.head_parameters
    return parameters * device.element_bytes


def keeps_plain(architecture: Architecture, device: Device) -> bool:
    """Whether the plain weights are kept beside oneDNN's for compiled decode steps: where both fit,
    and the same amount stays free."""
    if device.is_cuda or packing(device.torch_device, device.dtype) != "oneDNN":
        return False
    shape = architecture.shape
    again = shape.linear_parameters + (0 if shape.tied_embeddings else shape.head_parameters)
    both = weight_bytes(architecture, device) + again * device.element_bytes
    return too_little(device, 2 * both) is None


def random_model(architecture: Architecture, device: Device, seed: int = 0) -> Model:
    """The shape with normal random weights: the latency of the real model with meaningless output.

    Standard deviation 1 / sqrt(columns), so that activations keep their scale through the layers.
    """
    generator = torch.Generator(device.torch_device).manual_seed(seed)

    def draw(name: str, size: tuple[int, ...]) -> torch.Tensor:
        if len(size) == 1:
            make = torch.zeros if name.endswith("bias") else torch.ones
            return make(size, dtype=device.dtype, device=device.torch_device)
        table = torch.empty(size, dtype=device.dtype, device=device.torch_device)
        return table.normal_(0.0, size[1] ** -0.5, generator=generator)

    return assemble(architecture, device, draw)


def from_folder(folder: Path, architecture: Architecture, device: Device) -> Model:
    """The weights of `folder`. ValueError, with the file, for a tensor that is missing, has another
    shape, or is not known; for a folder with pickles only; for a file that is not safetensors.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        others = sorted(p.name for p in folder.glob("*") if p.suffix in (".bin", ".pt", ".pth"))
        found = f"; {others[0]} is a pickle, which this engine never opens" if others else ""
        raise ValueError(f"{folder}: there is no .safetensors file{found}")
    try:
        opened = {path: safe_open(path, framework="pt") for path in files}
        places = {name: path for path, file in opened.items() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{folder}: not readable as safetensors: {error}") from None
    taken: set[str] = set()

    def read(name: str, size: tuple[int, ...]) -> torch.Tensor:
        if name not in places:
            raise ValueError(f"{folder}: no tensor {name} in its {len(files)} safetensors file(s)")
        tensor: torch.Tensor = opened[places[name]].get_tensor(name)
        if tuple(tensor.shape) != size:
            raise ValueError(
                f"{places[name]}: {name} has the shape {tuple(tensor.shape)}, config.json asks for "
                f"{size}"
            )
        if not tensor.is_floating_point():
            raise ValueError(
                f"{places[name]}: {name} is {tensor.dtype}; quantised weights do not run here"
            )
        taken.add(name)
        return tensor.to(device.torch_device, device.dtype)

    model = assemble(architecture, device, read)
    tied = {"lm_head.weight"} if architecture.shape.tied_embeddings else set()
    unknown = sorted(n for n in places.keys() - taken - tied if not n.endswith(UNUSED))
    if unknown:
        raise ValueError(
            f"{folder}: {len(unknown)} unknown tensor(s), the first is "
            f"{unknown[0]}: another architecture than config.json says"
        )
    return model


# --- assembling -----------------------------------------------------------------------------------


def assemble(architecture: Architecture, device: Device, source: Source) -> Model:
    """The model from its tensors. OutOfMemory before allocation, where they do not fit."""
    shape = architecture.shape
    check_memory(device, weight_bytes(architecture, device), f"the weights of {shape.name}")
    embedding = source("model.embed_tokens.weight", (shape.vocab_size, shape.hidden_size))
    keep = keeps_plain(architecture, device)
    layers = [layer(architecture, source, k, keep) for k in range(shape.num_layers)]
    final_norm = source("model.norm.weight", (shape.hidden_size,))
    if shape.tied_embeddings:
        head = Linear(embedding, keep=True)
    else:
        head = Linear(source("lm_head.weight", (shape.vocab_size, shape.hidden_size)), keep=keep)
    return Model(architecture, device, embedding, layers, final_norm, head)


def layer(architecture: Architecture, source: Source, k: int, keep: bool) -> Layer:
    """Layer `k`, its matrices joined. keep: plain weights are kept beside the packed ones."""
    shape, prefix = architecture.shape, f"model.layers.{k}"
    hidden, middle, dim = shape.hidden_size, shape.intermediate_size, shape.head_dim
    attention = f"{prefix}.self_attn"

    def joined(*names: str, rows: int, columns: int) -> torch.Tensor:
        return torch.cat([source(f"{prefix}.mlp.{name}.weight", (rows, columns)) for name in names])

    def projection(kind: str) -> torch.Tensor:
        parts = []
        for name, rows in (
            ("q", architecture.q_size),
            ("k", architecture.kv_size),
            ("v", architecture.kv_size),
        ):
            size = (rows, hidden) if kind == "weight" else (rows,)
            part = source(f"{attention}.{name}_proj.{kind}", size)
            parts.append(part if name == "v" else pair_rows(part, dim))
        return torch.cat(parts)

    linear = partial(Linear, keep=keep)
    norms: dict[str, Any] = {"q_norm": None, "k_norm": None}
    if shape.qk_norm:
        norms = {n: pair_rows(source(f"{attention}.{n}.weight", (dim,)), dim) for n in norms}
    return Layer(
        input_norm=source(f"{prefix}.input_layernorm.weight", (hidden,)),
        qkv=linear(projection("weight"), projection("bias") if shape.qkv_bias else None),
        output=linear(source(f"{attention}.o_proj.weight", (hidden, architecture.q_size))),
        mlp_norm=source(f"{prefix}.post_attention_layernorm.weight", (hidden,)),
        gate_up=linear(joined("gate_proj", "up_proj", rows=middle, columns=hidden)),
        down=linear(source(f"{prefix}.mlp.down_proj.weight", (hidden, middle))),
        **norms,
    )


def pair_rows(tensor: torch.Tensor, head_dim: int) -> torch.Tensor:
    """Reorder the rows of each head from (first half, second half) to pairs (0, d/2, 1, ...)."""
    heads = tensor.view(-1, 2, head_dim // 2, *tensor.shape[1:])
    return heads.transpose(1, 2).flatten(0, 2).contiguous()

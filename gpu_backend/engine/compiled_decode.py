"""A decode step on a CPU as one compiled loop.

A decode step reads every weight once for a few rows, so it is bound by memory bandwidth once the
overhead of operators is removed and activations stay in the cache. It computes the same as
`Model.forward`, from the plain weights and the same pages, on numba's threads. Measured on two
cores with AVX2 and the shape of SmolLM2 in fp32: one request 24 ms per step against 45 ms with
torch's operators; from about 16 requests on, torch is as fast.

Only steps without prompt tokens run this way, like the CUDA graphs of a GPU (runner.py).
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_backend.engine.decode_kernels import (
    COMPILES,
    decode_layer,
    head_product,
    use_threads,
)
from gpu_backend.models.batch import Batch
from gpu_backend.models.kv_pool import KvPool
from gpu_backend.models.model import Layer, Model

__all__ = ["MOST_ROWS", "CompiledDecode", "unavailable_reason"]

# With more requests oneDNN is faster; it multiplies bf16 without widening.
MOST_ROWS = {torch.float32: 16, torch.bfloat16: 4}
THREADS = threading.Lock()  # numba's threads serve one caller at a time

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Step:
    """Inputs of all layers: cos and sin (rows, head_dim / 2) of the positions, the slots of the
    new keys and values, and the tokens that each request attends to."""

    cos: Floats
    sin: Floats
    slots: NDArray[np.int64]
    block_table: NDArray[np.int64]
    context: NDArray[np.int64]
    span: NDArray[np.int64]

    def __iter__(self) -> Any:
        return iter(self.__dict__.values())


def unavailable_reason(model: Model) -> str | None:
    """Why the decode steps of a model cannot be compiled, None if they can."""
    if model.device.is_cuda:
        return "not on a CPU"
    if not COMPILES:
        return "NUMBA_DISABLE_JIT is set"
    if model.layers[0].qkv.weight is None:
        return "the plain weights do not fit beside the packed ones"
    return None


class CompiledDecode:
    """Decode steps of one model over one pool, where `unavailable_reason` names no reason."""

    def __init__(self, model: Model, pool: KvPool) -> None:
        self.model = model
        self.layers = [arrays(layer) for layer in model.layers]
        self.pages = [
            (stored(keys), stored(values))
            for keys, values in zip(pool.keys, pool.values, strict=True)
        ]
        self.final_norm, self.head = stored(model.final_norm), stored(model.head.plain)
        self.frequencies = model.frequencies.numpy()
        # kept: allocating this much costs as much as computing it
        most = MOST_ROWS[model.device.dtype]
        self.logits = np.empty((most, model.architecture.shape.vocab_size), np.float32)

    def prepare(self, batch: Batch) -> Callable[[Callable[[], None] | None], torch.Tensor]:
        """The function that computes a step of decodes; for at most MOST_ROWS of them."""
        token_ids = torch.from_numpy(batch.token_ids)
        x = self.model.embedding.index_select(0, token_ids).float().numpy()
        step, scratch = self.step(batch), self.scratch(batch)
        return lambda check: self.forward(x, step, scratch, batch.sampled, check)

    def forward(
        self,
        x: Floats,
        step: Step,
        scratch: tuple[Floats, ...],
        sampled: NDArray[np.int64],
        check: Callable[[], None] | None,
    ) -> torch.Tensor:
        """Write the batch's KV into the pool; logits (len(sampled), vocab_size) in fp32, which the
        next step overwrites."""
        epsilon = self.model.architecture.rms_norm_eps
        with THREADS:
            use_threads(self.model.device.threads)
            for weights, (keys, values) in zip(self.layers, self.pages, strict=True):
                if check is not None:
                    check()
                decode_layer(x, scratch, tuple(step), keys, values, weights, epsilon)
            rows = x[sampled]
            logits = self.logits[: len(rows)]
            head_product(rows, self.final_norm, epsilon, self.head, np.empty_like(rows), logits)
        return torch.from_numpy(logits)

    def step(self, batch: Batch) -> Step:
        angles = np.outer(batch.positions.astype(np.float32), self.frequencies)
        held = np.full_like(batch.held, batch.held.max()) if batch.rectangle else None
        return Step(
            cos=np.cos(angles),
            sin=np.sin(angles),
            slots=batch.slots,
            block_table=batch.block_table,
            context=batch.context,
            span=batch.context if held is None else held * batch.block_size,
        )

    def scratch(self, batch: Batch) -> tuple[Floats, ...]:
        """Room for a layer's intermediate results, as `decode_layer` names them."""
        shape, rows = self.model.architecture.shape, batch.num_rows
        all_heads = shape.num_heads + 2 * shape.num_kv_heads
        sizes: tuple[tuple[int, ...], ...] = (
            (shape.hidden_size,),
            (all_heads, shape.head_dim),
            (shape.num_heads, shape.head_dim),
            (shape.intermediate_size,),
            (shape.intermediate_size,),
            (shape.hidden_size,),
            (shape.num_heads, int(batch.held.max()) * batch.block_size),
        )
        return tuple(np.empty((rows, *size), np.float32) for size in sizes)


def arrays(layer: Layer) -> tuple[NDArray[Any], ...]:
    """The weights of a layer in the order of `decode_layer`; empty arrays for missing ones."""
    nothing = stored(layer.input_norm)[:0]

    def optional(tensor: torch.Tensor | None) -> NDArray[Any]:
        return nothing if tensor is None else stored(tensor)

    return (
        stored(layer.input_norm),
        stored(layer.qkv.plain),
        optional(layer.qkv.bias),
        optional(layer.q_norm),
        optional(layer.k_norm),
        stored(layer.output.plain),
        stored(layer.mlp_norm),
        stored(layer.gate_up.plain),
        stored(layer.down.plain),
    )


def stored(tensor: torch.Tensor) -> NDArray[Any]:
    """The same memory as an array; bf16 as its bits in uint16."""
    plain: NDArray[Any] = (
        tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor
    ).numpy()
    return plain

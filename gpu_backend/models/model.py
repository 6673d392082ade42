"""One Llama-family decoder over a ragged batch and paged KV.

A step's tokens, chunks of prompts and decodes alike, go through every layer as one flat matrix;
only attention
distinguishes requests. Rotary pairs are neighbouring dimensions, so that a rotation is
one complex product: `weights.py` reorders the rows of Q and K once, which changes no score.
Only rows whose token is sampled reach the LM head. Covered: RMSNorm, grouped-query
attention, biases on Q, K, V (Qwen2), QK-norm (Qwen3), SwiGLU, tied embeddings. Not covered:
experts, sliding windows, tensor parallelism.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F

from gpu_backend.device import Device
from gpu_backend.models.architecture import Architecture
from gpu_backend.models.batch import Batch
from gpu_backend.models.kv_pool import KvPool
from gpu_backend.models.linear import Linear

__all__ = ["Attention", "Inputs", "Layer", "Model"]


class Attention(Protocol):
    """A route through paged attention."""

    name: str

    def prepare(self, batch: Batch) -> Any: ...

    def attend(
        self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, metadata: Any
    ) -> torch.Tensor: ...


@dataclass(frozen=True)
class Layer:
    """Weights of one layer. Norms are vectors; q_norm and k_norm are Qwen3's, else None."""

    input_norm: torch.Tensor
    qkv: Linear
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    output: Linear
    mlp_norm: torch.Tensor
    gate_up: Linear
    down: Linear


@dataclass(frozen=True)
class Inputs:
    """A batch on the device. rotation: (T, 1, head_dim / 2) complex; sampled: token indices."""

    token_ids: torch.Tensor
    slots: torch.Tensor
    rotation: torch.Tensor
    sampled: torch.Tensor
    attention: Any


class Model:
    """The decoder. `check`, if given, is called before every layer and may raise to stop a step."""

    def __init__(
        self,
        architecture: Architecture,
        device: Device,
        embedding: torch.Tensor,
        layers: list[Layer],
        final_norm: torch.Tensor,
        head: Linear,
    ) -> None:
        self.architecture, self.device = architecture, device
        self.embedding, self.layers = embedding, layers
        self.final_norm, self.head = final_norm, head
        self.epsilon = torch.tensor(architecture.rms_norm_eps)
        self.frequencies = torch.tensor(
            architecture.frequencies(), dtype=torch.float32, device=device.torch_device
        )

    def inputs(self, batch: Batch, attention: Attention) -> Inputs:
        """Copy a batch to the device, with the rotary angles of its positions."""
        positions = self.ids(batch.positions).to(torch.float32)
        angles = torch.outer(positions, self.frequencies)
        return Inputs(
            token_ids=self.ids(batch.token_ids),
            slots=self.ids(batch.slots),
            rotation=torch.polar(torch.ones_like(angles), angles).unsqueeze(1),
            sampled=self.ids(batch.sampled),
            attention=attention.prepare(batch),
        )

    def ids(self, values: Any) -> torch.Tensor:
        return torch.from_numpy(values).to(self.device.torch_device)

    def forward(
        self,
        inputs: Inputs,
        pool: KvPool,
        attention: Attention,
        check: Callable[[], None] | None = None,
    ) -> torch.Tensor:
        """Write the batch's KV into the pool; logits (len(sampled), vocab_size)."""
        x = self.embedding.index_select(0, inputs.token_ids)
        for number, layer in enumerate(self.layers):
            if check is not None:
                check()
            keys, values = pool.keys[number], pool.values[number]
            x = self.attention_block(layer, x, keys, values, inputs, attention)
            x = self.mlp_block(layer, x)
        rows = x.index_select(0, inputs.sampled)
        return self.head(self.norm(rows, self.final_norm))

    def attention_block(
        self,
        layer: Layer,
        x: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        inputs: Inputs,
        attention: Attention,
    ) -> torch.Tensor:
        """x + W_o attention(norm(x)), after this step's keys and values went to their slots."""
        shape = self.architecture.shape
        heads, dim = shape.num_heads, shape.head_dim
        qkv = layer.qkv(self.norm(x, layer.input_norm)).view(len(x), -1, dim)
        qk, v = qkv[:, : heads + shape.num_kv_heads], qkv[:, heads + shape.num_kv_heads :]
        if layer.q_norm is not None and layer.k_norm is not None:
            q_normed = self.norm(qk[:, :heads], layer.q_norm)
            qk = torch.cat((q_normed, self.norm(qk[:, heads:], layer.k_norm)), dim=1)
        qk = apply_rope(qk, inputs.rotation)
        keys.flatten(0, 1).index_copy_(0, inputs.slots, qk[:, heads:])
        values.flatten(0, 1).index_copy_(0, inputs.slots, v)
        found = attention.attend(qk[:, :heads], keys, values, inputs.attention)
        return layer.output.add(found.flatten(1), x)

    def mlp_block(self, layer: Layer, x: torch.Tensor) -> torch.Tensor:
        """x + W_down(silu(gate) * up)."""
        gate, up = layer.gate_up(self.norm(x, layer.mlp_norm)).chunk(2, dim=-1)
        return layer.down.add(F.silu(gate).mul_(up), x)

    def norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """RMSNorm. In fp32 on a CPU, where torch has no fused kernel, it takes five short operators
        instead of eight."""
        if self.device.is_cuda or x.dtype != torch.float32:
            return F.rms_norm(x, weight.shape, weight, self.architecture.rms_norm_eps)
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        mean_square = torch.addcmul(self.epsilon, length, length, value=1 / x.shape[-1])
        return (x * mean_square.rsqrt_()).mul_(weight)


def apply_rope(x: torch.Tensor, rotation: torch.Tensor) -> torch.Tensor:
    """Rotary embedding: pairs of neighbouring dimensions as complex numbers, rotated in fp32; in
    place where x is fp32."""
    turned = x.float()
    torch.view_as_complex(turned.unflatten(-1, (-1, 2))).mul_(rotation)
    return turned.to(x.dtype)

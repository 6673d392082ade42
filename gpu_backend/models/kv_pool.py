"""Paged KV memory: the tensors behind the block ids that the scheduler hands out.

keys, values: (num_layers, num_blocks, block_size, num_kv_heads, head_dim). There is no block
manager here: the scheduler allocates blocks (sim/core/kv_cache.py). Block 0 is its null block,
which is never allocated; here it holds zeros, and padding of a gather reads it.

A block keeps the data of its last holder. A step may read the tail of a partly filled block;
`open_blocks` clears it when the block is first written, so data of another request is never read.
With `poison` a block is filled with NaN when it is allocated, which exposes any other read; tests
run with it.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_backend.device import Device, check_memory
from gpu_backend.models.architecture import Architecture

__all__ = ["KvPool", "block_bytes"]


def block_bytes(architecture: Architecture, block_size: int, device: Device) -> int:
    """Bytes of keys and values of one block in all layers."""
    layers = architecture.shape.num_layers
    return 2 * layers * block_size * architecture.kv_size * device.element_bytes


class KvPool:
    """Keys and values of `num_blocks` blocks, the null block included."""

    def __init__(
        self,
        architecture: Architecture,
        num_blocks: int,
        block_size: int,
        device: Device,
        *,
        poison: bool = False,
    ) -> None:
        """OutOfMemory, before anything is allocated, where the pool does not fit."""
        wanted = num_blocks * block_bytes(architecture, block_size, device)
        check_memory(device, wanted, f"the KV cache of {num_blocks:,} blocks")
        shape = architecture.shape
        size = (shape.num_layers, num_blocks, block_size, shape.num_kv_heads, shape.head_dim)
        options: dict[str, Any] = {"dtype": device.dtype, "device": device.torch_device}
        self.keys = torch.empty(size, **options)
        self.values = torch.empty(size, **options)
        self.num_blocks, self.block_size, self.poison = num_blocks, block_size, poison
        if poison:
            self.keys.fill_(torch.nan)
            self.values.fill_(torch.nan)
        self.keys[:, 0] = 0
        self.values[:, 0] = 0

    @property
    def num_bytes(self) -> int:
        return 2 * int(self.keys.nbytes)

    def open_blocks(self, blocks: NDArray[np.int64], tails: NDArray[np.int64]) -> None:
        """Prepare newly written blocks: `blocks` ids allocated since the last step, `tails` slots
        (block * block_size + offset) in them that stay unwritten and may be read."""
        for pages in (self.keys, self.values):
            if self.poison and len(blocks):
                pages.index_fill_(1, self.to_device(blocks), torch.nan)
            if len(tails):
                slots = pages.view(pages.shape[0], -1, *pages.shape[3:])
                slots.index_fill_(1, self.to_device(tails), 0)

    def to_device(self, ids: NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(ids).to(self.keys.device)

    def copy_out(self, blocks: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of these blocks, copied to host memory."""
        ids = self.to_device(blocks)
        return self.keys.index_select(1, ids).cpu(), self.values.index_select(1, ids).cpu()

    def copy_in(self, blocks: NDArray[np.int64], kept: tuple[torch.Tensor, torch.Tensor]) -> None:
        """Write the result of `copy_out` into the first blocks of `blocks`."""
        ids = self.to_device(blocks[: kept[0].shape[1]])
        self.keys.index_copy_(1, ids, kept[0].to(self.keys.device))
        self.values.index_copy_(1, ids, kept[1].to(self.values.device))

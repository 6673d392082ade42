"""Attention over paged KV with plain torch: used on a CPU, and as the fallback on a GPU.

Query heads that share a KV head are grouped; the KV is not repeated: a decode's group is a short
matrix of queries; for a chunk the KV is a view with stride 0 along the group. Decodes are taken in
tiles: neighbours of similar length, about TILE_TOKENS tokens of KV together, gathered by whole
blocks and padded with the null block, which holds zeros. A chunk of a prompt attends to the
request's pages gathered to its exact length.

The keys and values of the step are written before any are read, so that chunks, decodes and
prefix hits within one step see the same KV.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from gpu_backend.models.architecture import Architecture
from gpu_backend.models.batch import Batch

__all__ = ["TILE_TOKENS", "Chunk", "Tile", "TiledAttention", "TiledMetadata", "cut_tiles"]

TILE_TOKENS = 1024


@dataclass(frozen=True)
class Tile:
    """Rows [first, end) of the batch, one query token each. blocks: (rows x blocks per row,) flat;
    mask: (rows, 1, 1, tokens) added to the scores, None if all rows are equally long."""

    first: int
    end: int
    blocks: torch.Tensor
    num_tokens: int
    mask: torch.Tensor | None


@dataclass(frozen=True)
class Chunk:
    """Query tokens [first, end) of one row, the last of which attends to `context` tokens.

    mask: (end - first, context), None for a prompt from its start on.
    """

    first: int
    end: int
    blocks: torch.Tensor
    context: int
    mask: torch.Tensor | None


@dataclass(frozen=True)
class TiledMetadata:
    """The tiles and chunks of a step; all layers use the same."""

    tiles: tuple[Tile, ...]
    chunks: tuple[Chunk, ...]


def cut_tiles(held: NDArray[np.int64], block_size: int, tile_tokens: int) -> list[tuple[int, int]]:
    """[first, end) of rows that are gathered together; `held` ascends.

    Rows x blocks of the longest x block_size is at most `tile_tokens`, or a tile is one row.
    """
    tiles, first = [], 0
    for row in range(1, len(held) + 1):
        full = row < len(held) and (row + 1 - first) * held[row] * block_size > tile_tokens
        if row == len(held) or full:
            tiles.append((first, row))
            first = row
    return tiles


class TiledAttention:
    """Grouped-query attention over gathered pages."""

    name = "tiled SDPA"

    def __init__(
        self,
        architecture: Architecture,
        device: torch.device,
        dtype: torch.dtype,
        tile_tokens: int = TILE_TOKENS,
    ) -> None:
        shape = architecture.shape
        self.kv_heads, self.group = shape.num_kv_heads, architecture.group_size
        self.head_dim = shape.head_dim
        self.device, self.dtype, self.tile_tokens = device, dtype, tile_tokens

    # --- once a step ------------------------------------------------------------------------------

    def prepare(self, batch: Batch) -> TiledMetadata:
        """The metadata of the batch that every layer needs."""
        held = batch.held[: batch.num_single]
        if batch.rectangle and len(held):
            held = np.full_like(held, held.max())
        tiles = [
            self.tile(batch, held, first, end)
            for first, end in cut_tiles(held, batch.block_size, self.tile_tokens)
        ]
        chunks = [self.chunk(batch, row) for row in range(batch.num_single, batch.num_rows)]
        return TiledMetadata(tuple(tiles), tuple(chunks))

    def tile(self, batch: Batch, held: NDArray[np.int64], first: int, end: int) -> Tile:
        width = int(held[end - 1])
        num_tokens = width * batch.block_size
        context = batch.context[first:end]
        mask = None
        if (context != num_tokens).any():
            hidden = np.arange(num_tokens) >= context[:, None]
            mask = self.mask(hidden)[:, None, None]
        blocks = batch.block_table[first:end, :width].ravel()
        return Tile(first, end, self.ids(blocks), num_tokens, mask)

    def chunk(self, batch: Batch, row: int) -> Chunk:
        first, end = int(batch.query_start[row]), int(batch.query_start[row + 1])
        context = int(batch.context[row])
        mask = None
        if context > end - first:
            hidden = np.arange(context) > batch.positions[first:end, None]
            mask = self.mask(hidden)
        blocks = batch.block_table[row, : batch.held[row]]
        return Chunk(first, end, self.ids(blocks), context, mask)

    def mask(self, hidden: NDArray[np.bool_]) -> torch.Tensor:
        mask = torch.zeros(hidden.shape, dtype=self.dtype)
        mask.masked_fill_(torch.from_numpy(hidden), -torch.inf)
        return mask.to(self.device)

    def ids(self, blocks: NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(blocks)).to(self.device)

    # --- in every layer ---------------------------------------------------------------------------

    def attend(
        self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, metadata: TiledMetadata
    ) -> torch.Tensor:
        """(T, heads, head_dim) of q (T, heads, head_dim) over pages (blocks, block_size, KV heads,
        head_dim) of one layer."""
        parts = [self.attend_tile(q, keys, values, tile) for tile in metadata.tiles]
        parts += [self.attend_chunk(q, keys, values, chunk) for chunk in metadata.chunks]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def attend_tile(
        self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, tile: Tile
    ) -> torch.Tensor:
        rows = tile.end - tile.first
        size = (rows, tile.num_tokens, self.kv_heads, self.head_dim)
        k = keys.index_select(0, tile.blocks).view(size).transpose(1, 2)
        v = values.index_select(0, tile.blocks).view(size).transpose(1, 2)
        grouped = q[tile.first : tile.end].view(rows, self.kv_heads, self.group, self.head_dim)
        found = F.scaled_dot_product_attention(grouped, k, v, attn_mask=tile.mask)
        return found.reshape(rows, -1, self.head_dim)

    def attend_chunk(
        self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, chunk: Chunk
    ) -> torch.Tensor:
        n = chunk.end - chunk.first
        grouped = q[chunk.first : chunk.end].view(n, self.kv_heads, self.group, self.head_dim)
        found = F.scaled_dot_product_attention(
            grouped.permute(1, 2, 0, 3),
            self.shared(keys, chunk),
            self.shared(values, chunk),
            attn_mask=chunk.mask,
            is_causal=chunk.mask is None,
        )
        return found.permute(2, 0, 1, 3).reshape(n, -1, self.head_dim)

    def shared(self, pages: torch.Tensor, chunk: Chunk) -> torch.Tensor:
        """(KV heads, group, context, head_dim), a view for each head of the group."""
        gathered = pages.index_select(0, chunk.blocks).flatten(0, 1)[: chunk.context]
        return gathered.transpose(0, 1).unsqueeze(1).expand(-1, self.group, -1, -1)

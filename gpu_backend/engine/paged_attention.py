"""Attention that reads the pages in place: torch's variable-length kernel on a GPU.

One call per layer handles prompt chunks and
decodes together: queries of all rows one after the other,
a block table, and the context length of each row. The kernel built into torch (FlashAttention 2)
wants pages of a multiple of 256 tokens, and its split-KV is silently wrong (pytorch#194167), so it
always runs with num_splits=1.

It is used only after it agreed with the tiled kernel on pages filled with NaN (`self_test`);
`choose_attention` returns which kernel runs and why.
"""

from dataclasses import dataclass

import numpy as np
import torch

from gpu_backend.device import Device
from gpu_backend.engine.attention import TiledAttention
from gpu_backend.models.architecture import Architecture
from gpu_backend.models.batch import Batch, Rows, make_batch
from gpu_backend.models.kv_pool import KvPool
from gpu_backend.models.model import Attention

__all__ = ["PAGE_TOKENS", "PagedAttention", "PagedMetadata", "choose_attention", "self_test"]

PAGE_TOKENS = 256  # pages are a multiple of it
CAUSAL = (-1, 0)  # causal, aligned at the end of the row
TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 4e-3, torch.float32: 1e-4}


@dataclass(frozen=True)
class PagedMetadata:
    """R rows. query_start: (R + 1,) int32; context: (R,) int32 tokens that a row attends to;
    block_table: (R, most blocks) int32."""

    query_start: torch.Tensor
    context: torch.Tensor
    block_table: torch.Tensor
    max_query: int
    max_context: int


class PagedAttention:
    """`torch.nn.attention.varlen.varlen_attn` over the block table."""

    name = "paged varlen"

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def prepare(self, batch: Batch) -> PagedMetadata:
        return PagedMetadata(
            query_start=self.int32(batch.query_start),
            context=self.int32(batch.context),
            block_table=self.int32(batch.block_table),
            max_query=int(np.diff(batch.query_start).max()),
            max_context=int(batch.context.max()),
        )

    def int32(self, values: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> torch.Tensor:
        return torch.from_numpy(values.astype(np.int32)).to(self.device)

    def attend(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        metadata: PagedMetadata,
    ) -> torch.Tensor:
        """(T, heads, head_dim) of q (T, heads, head_dim) over pages (blocks, block_size, KV heads,
        head_dim) of one layer."""
        from torch.nn.attention import varlen

        found = varlen.varlen_attn(
            q,
            keys,
            values,
            metadata.query_start,
            None,
            metadata.max_query,
            metadata.max_context,
            window_size=CAUSAL,
            enable_gqa=q.shape[1] != keys.shape[2],
            seqused_k=metadata.context,
            block_table=metadata.block_table,
            num_splits=1,
        )
        assert isinstance(found, torch.Tensor)
        return found


# --- which route runs -----------------------------------------------------------------------------


def choose_attention(
    architecture: Architecture, device: Device, block_size: int
) -> tuple[Attention, str]:
    """The kernel for this device and block size, and a sentence that says which and why."""
    tiled = TiledAttention(architecture, device.torch_device, device.dtype)
    if not device.is_cuda:
        return tiled, f"{tiled.name} on the CPU"
    if block_size % PAGE_TOKENS:
        return tiled, (
            f"{tiled.name}: the paged kernel wants blocks of a multiple of {PAGE_TOKENS} tokens, "
            f"these have {block_size}"
        )
    paged = PagedAttention(device.torch_device)
    wrong = self_test(paged, tiled, architecture, device, block_size)
    if wrong is not None:
        return tiled, f"{tiled.name}: the paged kernel failed its self-test ({wrong})"
    return paged, f"{paged.name}, which agreed with {tiled.name} in its self-test"


def self_test(
    paged: Attention,
    tiled: Attention,
    architecture: Architecture,
    device: Device,
    block_size: int,
) -> str | None:
    """None if `paged` agrees with `tiled` for a mixed step on NaN-filled pages, else the
    difference.

    Two decodes, one of them at the end of a page, a whole prompt, and a chunk after an earlier one;
    pages are allocated out of order, and everything outside the tokens of the rows is NaN."""
    shape = architecture.shape
    starts = np.array([block_size - 1, 2 * block_size + 3, 0, block_size + 7])
    counts = np.array([1, 1, 37, block_size // 2])
    context = starts + counts
    held = -(-context // block_size)
    ids = np.arange(held.sum(), 0, -1)
    tables = np.split(ids, np.cumsum(held)[:-1])
    rows = Rows(np.arange(4), starts, counts, np.arange(4), np.ones(4, bool))
    tokens = np.zeros((4, int(context.max())), np.int64)
    batch = make_batch(rows, tokens, list(tables), block_size)
    one_layer = Architecture(
        type(shape)(**{**shape.__dict__, "num_layers": 1}), architecture.rope_theta
    )
    pool = KvPool(one_layer, int(ids[0]) + 1, block_size, device, poison=True)
    generator = torch.Generator().manual_seed(0)

    def draw(num_tokens: int, heads: int) -> torch.Tensor:
        drawn = torch.randn(num_tokens, heads, shape.head_dim, generator=generator)
        return drawn.to(device.torch_device, device.dtype)

    for table, length in zip(tables, context, strict=True):
        positions = np.arange(length)
        slots = torch.from_numpy(table[positions // block_size] * block_size)
        slots = (slots + torch.from_numpy(positions % block_size)).to(device.torch_device)
        for pages in (pool.keys[0], pool.values[0]):
            pages.flatten(0, 1).index_copy_(0, slots, draw(int(length), shape.num_kv_heads))
    q = draw(batch.num_tokens, shape.num_heads)
    try:
        found = paged.attend(q, pool.keys[0], pool.values[0], paged.prepare(batch))
    except (RuntimeError, ValueError, TypeError, ImportError, AssertionError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    tails = last_tails(batch)
    pool.open_blocks(np.zeros(0, np.int64), tails)
    expected = tiled.attend(q, pool.keys[0], pool.values[0], tiled.prepare(batch))
    if not bool(torch.isfinite(found).all()):
        return "it read unallocated pages"
    worst = float((found.float() - expected.float()).abs().max())
    if worst > TOLERANCE[device.dtype]:
        return f"it differs by {worst:.2g}"
    return None


def last_tails(batch: Batch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Unwritten slots of every row's last block, which the tiled kernel reads and masks."""
    tails = []
    for row in range(batch.num_rows):
        last = int(batch.held[row]) - 1
        used = int(batch.context[row]) - last * batch.block_size
        first = int(batch.block_table[row, last]) * batch.block_size
        tails.append(np.arange(first + used, first + batch.block_size))
    return np.concatenate(tails)

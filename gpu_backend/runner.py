"""How a step's forward pass is started: eagerly, or on a GPU as a recorded graph.

A step of decodes alone is a fixed sequence of kernels, so it is recorded once for each batch of 1,
2, 4, 8, ... rows and replayed from static tensors that are refilled in place; a smaller batch is
padded with rows that write to the null block and whose logits nobody reads. Launching thirty layers
of small kernels one by one costs a small model more than computing them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from gpu_backend.batch import Batch
from gpu_backend.kv_pool import KvPool
from gpu_backend.model import Attention, Inputs, Model
from gpu_backend.paged_attention import PagedAttention, PagedMetadata

__all__ = ["MOST_GRAPH_ROWS", "Graph", "Prepared", "Runner", "cuda_capture", "graph_rows"]

MOST_GRAPH_ROWS = 256

# Records what a function does on the device; returns what does it again, into the same tensors.
Capture = Callable[[Callable[[], torch.Tensor]], Callable[[], torch.Tensor]]


def graph_rows(rows: int) -> int:
    """Rows of the graph that `rows` decodes run in: the next power of two; 0 for too many."""
    size = 1 << max(rows - 1, 0).bit_length()
    return size if size <= MOST_GRAPH_ROWS else 0


def cuda_capture(device: torch.device) -> Capture:
    """Record with CUDA graphs that share one memory pool; two runs before warm up the kernels."""
    pool = torch.cuda.graph_pool_handle()

    def capture(work: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            work()
            work()
        torch.cuda.current_stream(device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            found = work()

        def again() -> torch.Tensor:
            graph.replay()
            return found

        return again

    return capture


@dataclass(frozen=True)
class Graph:
    """A recorded decode step of so many rows: its static tensors and what replays it."""

    rows: int
    inputs: Inputs
    replay: Callable[[], torch.Tensor]


@dataclass(frozen=True)
class Prepared:
    """A step ready to go: `graph` where it is a replay of its first `rows` rows."""

    inputs: Inputs
    graph: Graph | None
    rows: int


class Runner:
    """Starts forward passes of one model over one pool."""

    def __init__(
        self,
        model: Model,
        pool: KvPool,
        attention: Attention,
        *,
        capture: Capture | None = None,
        table_width: int = 0,
    ) -> None:
        """capture: records decode steps (paged attention only), whose block tables have
        `table_width` columns; None: every step is eager."""
        self.model, self.pool, self.attention = model, pool, attention
        self.capture = capture if isinstance(attention, PagedAttention) else None
        self.table_width = table_width
        self.graphs: dict[int, Graph] = {}
        self.last_graph = 0  # rows of the graph of the last step, 0 for an eager one

    def prepare(self, batch: Batch) -> Prepared:
        """The batch on the device; decodes alone in the static tensors of a graph."""
        inputs = self.model.inputs(batch, self.attention)
        decodes = batch.num_single == batch.num_rows == len(batch.sampled)
        size = graph_rows(batch.num_rows) if self.capture is not None and decodes else 0
        self.last_graph = size
        if not size:
            return Prepared(inputs, None, len(batch.sampled))
        if size not in self.graphs:
            self.graphs[size] = self.record(size)
        graph = self.graphs[size]
        refill(graph.inputs, inputs, batch.num_rows)
        return Prepared(graph.inputs, graph, batch.num_rows)

    def forward(self, prepared: Prepared, check: Callable[[], None] | None = None) -> torch.Tensor:
        """Logits (rows sampled, vocab_size)."""
        if prepared.graph is None:
            return self.model.forward(prepared.inputs, self.pool, self.attention, check)
        if check is not None:
            check()
        return prepared.graph.replay()[: prepared.rows]

    def record(self, size: int) -> Graph:
        """Record a decode step of `size` rows, all of them padding so far."""
        assert self.capture is not None
        device = self.model.device.torch_device
        half = len(self.model.frequencies)
        long: dict[str, Any] = {"dtype": torch.int64, "device": device}
        short: dict[str, Any] = {"dtype": torch.int32, "device": device}
        attention = PagedMetadata(
            query_start=torch.arange(size + 1, **short),
            context=torch.ones(size, **short),
            block_table=torch.zeros((size, self.table_width), **short),
            max_query=1,
            max_context=self.table_width * self.pool.block_size,
        )
        inputs = Inputs(
            token_ids=torch.zeros(size, **long),
            slots=torch.zeros(size, **long),
            rotation=torch.ones((size, 1, half), dtype=torch.complex64, device=device),
            sampled=torch.arange(size, **long),
            attention=attention,
        )
        work = self.capture(lambda: self.model.forward(inputs, self.pool, self.attention))
        return Graph(size, inputs, work)


def refill(static: Inputs, fresh: Inputs, rows: int) -> None:
    """Copy a batch of `rows` decodes into static tensors; the rows behind become padding: they
    attend to one token of the null block and write there."""
    for name in ("token_ids", "slots", "rotation"):
        target = getattr(static, name)
        target[:rows].copy_(getattr(fresh, name))
        target[rows:].fill_(0)
    metadata: PagedMetadata = static.attention
    metadata.context[:rows].copy_(fresh.attention.context)
    metadata.context[rows:].fill_(1)
    width = fresh.attention.block_table.shape[1]
    metadata.block_table.fill_(0)
    metadata.block_table[:rows, :width].copy_(fresh.attention.block_table)

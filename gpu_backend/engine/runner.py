"""How the forward pass of a step is launched: operator by operator (eager), or, for decodes only,
as one unit: on a CPU as a compiled loop (compiled_decode.py), on a GPU as a CUDA graph.

On a GPU such a step is a fixed sequence of kernels, so it is recorded once for each batch of 1, 2,
4, 8, ... rows and replayed from static tensors that are refilled in place; a smaller batch is
padded with rows that write to the null block and whose logits are not read. For a small model,
launching the kernels one by one takes longer than computing them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from gpu_backend.engine.compiled_decode import MOST_ROWS, CompiledDecode, unavailable_reason
from gpu_backend.engine.paged_attention import PagedAttention, PagedMetadata
from gpu_backend.models.batch import Batch
from gpu_backend.models.kv_pool import KvPool
from gpu_backend.models.model import Attention, Inputs, Model

__all__ = ["MOST_GRAPH_ROWS", "Forward", "Graph", "Runner", "cuda_capture", "graph_rows"]

MOST_GRAPH_ROWS = 256

# Records the work of a function on the device; returns a function that replays it on the same
# tensors.
Capture = Callable[[Callable[[], torch.Tensor]], Callable[[], torch.Tensor]]

# Called before every layer, or before a graph; may raise to stop the step.
Check = Callable[[], None] | None

# A prepared step: calling it returns logits (rows sampled, vocab_size).
Forward = Callable[[Check], torch.Tensor]


def graph_rows(rows: int) -> int:
    """Rows of the graph that `rows` decodes run in: the next power of two; 0 if there are
    too many."""
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
    """A recorded decode step for one batch size: its static tensors and its replay function."""

    rows: int
    inputs: Inputs
    replay: Callable[[], torch.Tensor]


class Runner:
    """Launches forward passes of one model over one pool."""

    def __init__(
        self,
        model: Model,
        pool: KvPool,
        attention: Attention,
        *,
        capture: Capture | None = None,
        table_width: int = 0,
        compiled: bool = False,
    ) -> None:
        """capture: records decode steps (paged attention only), whose block tables have
        `table_width` columns; compiled: decode steps on a CPU run as one loop where possible.
        Without either every step is eager."""
        self.model, self.pool, self.attention = model, pool, attention
        self.capture = capture if isinstance(attention, PagedAttention) else None
        self.table_width = table_width
        self.graphs: dict[int, Graph] = {}
        whole = compiled and unavailable_reason(model) is None
        self.compiled = CompiledDecode(model, pool) if whole else None
        self.last_rows = 0  # rows of the last step if it ran as one unit, 0 for an eager one

    @property
    def most_rows(self) -> int:
        """Decodes that run as one unit in a step without prompts; 0: every step is eager."""
        if self.compiled is not None:
            return MOST_ROWS[self.model.device.dtype]
        return MOST_GRAPH_ROWS if self.capture is not None else 0

    def prepare(self, batch: Batch) -> Forward:
        """The function that computes the step; its inputs are on the device."""
        decodes = batch.num_single == batch.num_rows <= self.most_rows
        self.last_rows = 0
        if decodes and self.compiled is not None:
            self.last_rows = batch.num_rows
            return self.compiled.prepare(batch)
        inputs = self.model.inputs(batch, self.attention)
        if decodes and len(batch.sampled) == batch.num_rows:
            return self.replay(inputs, batch.num_rows)
        return lambda check: self.model.forward(inputs, self.pool, self.attention, check)

    def replay(self, inputs: Inputs, rows: int) -> Forward:
        """`rows` decodes in the static tensors of a graph, which is recorded at first use."""
        size = self.last_rows = graph_rows(rows)
        if size not in self.graphs:
            self.graphs[size] = self.record(size)
        graph = self.graphs[size]
        refill(graph.inputs, inputs, rows)

        def forward(check: Check) -> torch.Tensor:
            if check is not None:
                check()
            return graph.replay()[:rows]

        return forward

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
    """Copy a batch of `rows` decodes into static tensors; the remaining rows are padding: they
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

"""The tiled route against attention written out, and the paged route's metadata and fallbacks."""

from typing import Any

import numpy as np
import pytest
import torch

from gpu_backend.device import Device
from gpu_backend.engine.attention import TiledAttention, cut_tiles
from gpu_backend.engine.loop import serve
from gpu_backend.engine.paged_attention import PagedAttention, choose_attention, self_test
from gpu_backend.engine.request_inputs import make_inputs
from gpu_backend.engine.runner import MOST_GRAPH_ROWS, Runner, graph_rows
from gpu_backend.models.batch import Batch, Rows, make_batch
from gpu_backend.models.kv_pool import KvPool
from gpu_backend.models.model import Model
from tests.gpu_backend.conftest import CPU, Peer
from tests.gpu_backend.harness import PROMPTS, executor_for
from tests.tools.builders import policy_rows

BLOCK = 256


def spelled_out(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, batch: Batch
) -> torch.Tensor:
    """Every query token on its own: softmax(q K / sqrt(d)) V over its own context."""
    out = torch.empty_like(q)
    group = q.shape[1] // keys.shape[2]
    for row in range(batch.num_rows):
        first, end = int(batch.query_start[row]), int(batch.query_start[row + 1])
        blocks = torch.from_numpy(batch.block_table[row, : batch.held[row]])
        k = keys[blocks].flatten(0, 1).repeat_interleave(group, 1)
        v = values[blocks].flatten(0, 1).repeat_interleave(group, 1)
        for token in range(first, end):
            seen = int(batch.positions[token]) + 1
            scores = torch.einsum("hd,thd->ht", q[token], k[:seen]) / q.shape[2] ** 0.5
            out[token] = torch.einsum("ht,thd->hd", scores.softmax(-1), v[:seen])
    return out


def varlen_spelled_out(q: Any, k: Any, v: Any, starts: Any, cu_seq_k: Any, *_: Any, **o: Any):
    """What torch documents of varlen_attn with a block table, token by token."""
    assert cu_seq_k is None
    assert o["num_splits"] == 1  # split-KV is silently wrong
    assert o["window_size"] == (-1, 0)
    assert k.shape[1] % 256 == 0
    assert {t.dtype for t in (starts, o["seqused_k"], o["block_table"])} == {torch.int32}
    assert o["enable_gqa"] == (q.shape[1] != k.shape[2])
    out = torch.empty_like(q)
    group = q.shape[1] // k.shape[2]
    for row, seen in enumerate(o["seqused_k"].tolist()):
        first, end = starts[row].item(), starts[row + 1].item()
        blocks = o["block_table"][row, : -(-seen // k.shape[1])].long()
        keys = k[blocks].flatten(0, 1)[:seen].repeat_interleave(group, 1)
        values = v[blocks].flatten(0, 1)[:seen].repeat_interleave(group, 1)
        for token in range(first, end):
            upto = seen - (end - 1 - token)
            scores = torch.einsum("hd,thd->ht", q[token], keys[:upto]) / q.shape[2] ** 0.5
            out[token] = torch.einsum("ht,thd->hd", scores.softmax(-1), values[:upto])
    return out


def random_step(rng: np.random.Generator, block_size: int, rows: int) -> Batch:
    starts = rng.integers(0, 90, rows)
    counts = np.where(rng.random(rows) < 0.6, 1, rng.integers(2, 40, rows))
    held = -(-(starts + counts) // block_size)
    ids = rng.permutation(int(held.sum())) + 1
    tables = np.split(ids, np.cumsum(held)[:-1])
    planned = Rows(np.arange(rows), starts, counts, np.arange(rows), np.ones(rows, bool))
    return make_batch(planned, np.zeros((rows, 200), np.int64), list(tables), block_size)


@pytest.mark.parametrize("tile_tokens", [1, 100, 4096])
@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("seed", range(3))
def test_tiles_equal_attention_spelled_out(
    tiny: dict[str, Model], seed: int, block_size: int, tile_tokens: int
) -> None:
    rng = np.random.default_rng(seed)
    architecture = tiny["qwen3"].architecture
    shape = architecture.shape
    batch = random_step(rng, block_size, 9)
    pool = KvPool(architecture, int(batch.held.sum()) + 1, block_size, CPU)
    torch.manual_seed(seed)
    keys, values = torch.randn_like(pool.keys[0]), torch.randn_like(pool.keys[0])
    q = torch.randn(batch.num_tokens, shape.num_heads, shape.head_dim)
    attention = TiledAttention(architecture, CPU.torch_device, CPU.dtype, tile_tokens)
    found = attention.attend(q, keys, values, attention.prepare(batch))
    assert torch.allclose(found, spelled_out(q, keys, values, batch), atol=1e-5)


def test_tiles_are_cut_by_padded_tokens() -> None:
    held = np.array([1, 1, 2, 4, 4, 9])
    assert cut_tiles(held, 16, 64) == [(0, 2), (2, 3), (3, 4), (4, 5), (5, 6)]
    assert cut_tiles(held, 16, 128) == [(0, 3), (3, 5), (5, 6)]
    assert cut_tiles(held, 16, 10_000) == [(0, 6)]
    assert cut_tiles(np.zeros(0, int), 16, 64) == []


# --- the paged route ------------------------------------------------------------------------------


def test_paged_metadata() -> None:
    batch = random_step(np.random.default_rng(0), BLOCK, 5)
    metadata = PagedAttention(CPU.torch_device).prepare(batch)
    assert metadata.query_start.tolist() == batch.query_start.tolist()
    assert metadata.context.tolist() == batch.context.tolist()
    assert metadata.block_table.tolist() == batch.block_table.tolist()
    for tensor in (metadata.query_start, metadata.context, metadata.block_table):
        assert tensor.dtype == torch.int32
    assert metadata.max_query == int(np.diff(batch.query_start).max())
    assert metadata.max_context == int(batch.context.max())


@pytest.fixture
def varlen(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.nn.attention import varlen as module

    monkeypatch.setattr(module, "varlen_attn", varlen_spelled_out)


def routes(model: Model) -> tuple[PagedAttention, TiledAttention]:
    tiled = TiledAttention(model.architecture, CPU.torch_device, CPU.dtype)
    return PagedAttention(CPU.torch_device), tiled


def test_the_self_test_passes_for_a_right_kernel(varlen: None, tiny: dict[str, Model]) -> None:
    model = tiny["llama"]
    assert self_test(*routes(model), model.architecture, CPU, BLOCK) is None


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda found: found * 1.01, "differs by"),
        (lambda found: found.index_fill(0, torch.tensor([3]), torch.nan), "unallocated pages"),
    ],
)
def test_the_self_test_finds_a_wrong_kernel(
    varlen: None, tiny: dict[str, Model], wrong: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny["llama"]
    paged, tiled = routes(model)
    plain = paged.attend
    monkeypatch.setattr(paged, "attend", lambda *arguments: wrong(plain(*arguments)))
    assert words in str(self_test(paged, tiled, model.architecture, CPU, BLOCK))


def test_a_kernel_that_is_not_there_fails_its_self_test(tiny: dict[str, Model]) -> None:
    """torch's own kernel has no CPU form: it raises, and that is said."""
    model = tiny["llama"]
    found = self_test(*routes(model), model.architecture, CPU, BLOCK)
    assert found is not None


def test_which_route_runs_is_said(
    varlen: None, tiny: dict[str, Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    architecture = tiny["llama"].architecture
    route, said = choose_attention(architecture, CPU, BLOCK)
    assert (route.name, said) == ("tiled SDPA", "tiled SDPA on the CPU")
    monkeypatch.setattr(Device, "is_cuda", True)  # a GPU whose tensors lie on the CPU
    route, said = choose_attention(architecture, CPU, 16)
    assert route.name == "tiled SDPA"
    assert "multiple of 256 tokens, these have 16" in said
    monkeypatch.setattr("gpu_backend.device.free_memory", lambda device: 1 << 34)
    route, said = choose_attention(architecture, CPU, BLOCK)
    assert route.name == "paged varlen"
    assert "self-test" in said
    monkeypatch.undo()
    monkeypatch.setattr(Device, "is_cuda", True)
    monkeypatch.setattr("gpu_backend.device.free_memory", lambda device: 1 << 34)
    route, said = choose_attention(architecture, CPU, BLOCK)
    assert route.name == "tiled SDPA"
    assert "failed its self-test" in said


# --- graphs ---------------------------------------------------------------------------------------


def test_graph_sizes() -> None:
    assert [graph_rows(n) for n in (1, 2, 3, 5, 8, 9)] == [1, 2, 4, 8, 8, 16]
    assert graph_rows(MOST_GRAPH_ROWS) == MOST_GRAPH_ROWS
    assert graph_rows(MOST_GRAPH_ROWS + 1) == 0


def test_decode_steps_replay_from_static_tensors(
    varlen: None, tiny: dict[str, Model], peers: dict[str, Peer]
) -> None:
    """A graph is recorded once a batch size and refilled in place: tokens as without it.

    The recorder here runs the step again on the same tensors, as a replay does.
    """
    model = tiny["qwen2"]
    policy = policy_rows(block_size=BLOCK, num_gpu_blocks=20, max_num_batched_tokens=64)
    inputs = make_inputs(PROMPTS[:3], [16, 3, 9])
    executor = executor_for(model, policy, inputs)
    recorded = []

    def capture(work: Any) -> Any:
        recorded.append(work().shape[0])
        return work

    paged = PagedAttention(CPU.torch_device)
    pool = executor.runner.pool
    executor.runner = Runner(model, pool, paged, capture=capture, table_width=2)
    served = serve(inputs, policy, executor)
    assert served.error is None
    assert recorded == [4, 2, 1]
    padded = served.times["padded_batch"]
    decodes = served.recording.steps.num_decodes
    pure = np.asarray(served.recording.steps.num_prefill_tokens == 0)
    assert (padded[pure] == [graph_rows(int(n)) for n in decodes[pure]]).all()
    assert (padded[~pure] == 0).all()
    expected = zip(PROMPTS[:3], (16, 3, 9), strict=True)
    assert served.outputs == tuple(peers["qwen2"].greedy(p, n) for p, n in expected)


def test_the_tiled_route_is_never_recorded(tiny: dict[str, Model]) -> None:
    model = tiny["llama"]
    pool = KvPool(model.architecture, 4, 16, CPU)
    tiled = TiledAttention(model.architecture, CPU.torch_device, CPU.dtype)
    assert Runner(model, pool, tiled, capture=lambda work: work, table_width=2).capture is None

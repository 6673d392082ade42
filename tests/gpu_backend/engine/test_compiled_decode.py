"""Decode steps as one compiled loop against the same steps operator by operator."""

from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import torch

from gpu_backend.device import Device
from gpu_backend.engine.attention import TiledAttention
from gpu_backend.engine.compiled_decode import MOST_ROWS
from gpu_backend.engine.dtypes import narrow, rounded, widen
from gpu_backend.engine.loop import serve
from gpu_backend.engine.request_inputs import make_inputs
from gpu_backend.engine.run import make_runner
from gpu_backend.engine.runner import Runner
from gpu_backend.models.batch import Batch, Rows, make_batch
from gpu_backend.models.kv_pool import KvPool
from gpu_backend.models.model import Model
from gpu_backend.models.weights import keeps_plain
from tests.gpu_backend.conftest import CPU, FAMILIES, Peer, load
from tests.gpu_backend.harness import PROMPTS, executor_for, generate
from tests.tools.builders import policy_rows

BF16 = Device(torch.device("cpu"), torch.bfloat16, 1, "CPU")
TWO_THREADS = Device(torch.device("cpu"), torch.float32, 2, "CPU")
TOKENS = 90  # of each request, known in advance


def runner_of(model: Model, num_blocks: int, *, compiled: bool) -> Runner:
    """Pages filled with NaN; the same random numbers where `context` tokens went before."""
    pool = KvPool(model.architecture, num_blocks, 8, model.device, poison=True)
    device = model.device
    attention = TiledAttention(model.architecture, device.torch_device, device.dtype, 64)
    return Runner(model, pool, attention, compiled=compiled)


def steps_of(rng: np.random.Generator, rows: int) -> tuple[list[Batch], int]:
    """A prefill of `rows` requests and two decode steps after it; blocks in random order."""
    tokens = rng.integers(0, 384, (rows, TOKENS))
    lengths = rng.integers(1, TOKENS - 2, rows)
    held = -(-(lengths + 2) // 8)
    tables = np.split(rng.permutation(int(held.sum())) + 1, np.cumsum(held)[:-1])
    batches = []
    for start, count in ((np.zeros_like(lengths), lengths), (lengths, 1), (lengths + 1, 1)):
        counts = np.broadcast_to(count, rows).astype(np.int64)
        items = np.arange(rows)
        planned = Rows(items, start, counts, items, np.ones(rows, bool))
        batches.append(make_batch(planned, tokens, list(tables), 8))
    return batches, int(held.sum()) + 1


def logits_of(runner: Runner, batches: list[Batch]) -> list[torch.Tensor]:
    found = []
    with torch.inference_mode():
        for batch in batches:
            runner.pool.open_blocks(batch.fresh_blocks, batch.tails)
            found.append(runner.prepare(batch)(None).float().clone())
    return found


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("rows", [1, 2, 4, 5, 11])
def test_logits_and_pages_equal_those_of_torch(
    family: str, rows: int, tiny: dict[str, Model]
) -> None:
    batches, num_blocks = steps_of(np.random.default_rng(rows), rows)
    whole = runner_of(tiny[family], num_blocks, compiled=True)
    eager = runner_of(tiny[family], num_blocks, compiled=False)
    for found, expected in zip(logits_of(whole, batches), logits_of(eager, batches), strict=True):
        torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-4)
    assert whole.last_rows == rows
    assert eager.last_rows == 0
    for name in ("keys", "values"):
        ours, theirs = getattr(whole.pool, name), getattr(eager.pool, name)
        torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-4, equal_nan=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_bf16_stays_near_fp32(family: str, tiny_folders: dict[str, Path]) -> None:
    """Teacher-forced, from the same tokens; torch's own bf16 steps are the measure."""
    batches, num_blocks = steps_of(np.random.default_rng(0), 4)
    model = load(tiny_folders[family], BF16)
    exact = logits_of(runner_of(load(tiny_folders[family]), num_blocks, compiled=False), batches)
    torchs = logits_of(runner_of(model, num_blocks, compiled=False), batches)
    whole = runner_of(model, num_blocks, compiled=True)
    found = logits_of(whole, batches)
    assert whole.last_rows == 4 == whole.most_rows
    for ours, theirs, true in list(zip(found, torchs, exact, strict=True))[1:]:
        assert (ours - true).abs().max() < 0.35 * true.std()
        assert (ours - true).norm() < 1.2 * (theirs - true).norm()  # sums are fp32 throughout


@numba.njit
def round_all(bits: Any, found: Any) -> None:
    for i in range(len(bits)):
        found[i] = rounded(bits[i])


def test_bf16_is_rounded_as_torch_rounds_it() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 100_000, dtype=np.uint32)
    edges = [0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0x7F7FFFFF, 0xFFFFFFFF]
    ties = (bits[:1000] & np.uint32(0xFFFF0000)) | np.uint32(0x8000)
    bits = np.concatenate([bits, ties, np.array(edges, np.uint32)])
    found = np.zeros(len(bits), np.uint16)
    round_all(bits, found)
    ours = torch.from_numpy(found).view(torch.bfloat16)
    theirs = torch.from_numpy(bits.view(np.float32)).to(torch.bfloat16)
    assert torch.equal(ours.isnan(), theirs.isnan())
    number = ~theirs.isnan()
    assert torch.equal(ours[number].view(torch.int16), theirs[number].view(torch.int16))


def test_stored_numbers_are_read_and_written_by_plain_python_too() -> None:
    numbers = np.array([0.0, -1.5, 3.14159, 1e-30, 65504.0, np.inf], np.float32)
    theirs = torch.from_numpy(numbers).to(torch.bfloat16)
    bits = theirs.view(torch.int16).numpy().view(np.uint16)
    assert [narrow(number, bits) for number in numbers] == bits.tolist()
    assert [widen(stored) for stored in bits] == theirs.float().tolist()
    assert [widen(narrow(number, numbers)) for number in numbers] == numbers.tolist()


def test_a_static_batch_walks_its_padding_and_hides_it(tiny: dict[str, Model]) -> None:
    """A rectangle: every row as long as the longest; one is sampled, the other pads."""
    start, table = np.array([3, 21]), [np.array([1]), np.array([2, 3, 4])]
    tokens = np.arange(2 * TOKENS).reshape(2, TOKENS)
    items, sampled = np.arange(2), np.array([True, False])
    prompts = Rows(items, np.zeros(2, np.int64), start, items, sampled, rectangle=True)
    decodes = Rows(items, start, np.ones(2, np.int64), items, sampled, rectangle=True)
    batches = [make_batch(rows, tokens, table, 8) for rows in (prompts, decodes)]
    whole, eager = (runner_of(tiny["qwen3"], 5, compiled=c) for c in (True, False))
    found, expected = logits_of(whole, batches)[-1], logits_of(eager, batches)[-1]
    assert found.shape == (1, 384)
    torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-4)


def test_threads_change_no_number(tiny_folders: dict[str, Path]) -> None:
    batches, num_blocks = steps_of(np.random.default_rng(7), 3)
    one, two = (
        logits_of(
            runner_of(load(tiny_folders["llama"], device), num_blocks, compiled=True), batches
        )
        for device in (CPU, TWO_THREADS)
    )
    assert torch.equal(one[1], two[1])
    assert torch.equal(one[2], two[2])


def test_decodes_alone_run_as_a_whole_unless_there_are_too_many(
    tiny: dict[str, Model], peers: dict[str, Peer]
) -> None:
    most = MOST_ROWS[torch.float32]
    prompts = [PROMPTS[k % 8][: 9 + k] for k in range(most + 2)]
    lengths = [4 + 3 * (k > 3) for k in range(len(prompts))]
    policy = policy_rows(num_gpu_blocks=200, max_num_seqs=most + 2, max_num_batched_tokens=300)
    inputs = make_inputs(prompts, lengths)
    served = serve(inputs, policy, executor_for(tiny["qwen2"], policy, inputs))
    steps, rows = served.recording.steps, served.times["padded_batch"]
    alone = np.asarray(steps.num_prefill_tokens == 0)
    assert steps.num_decodes.max() == most + 2
    assert (rows[~alone] == 0).all()
    few = alone & np.asarray(steps.num_decodes <= most)
    assert few.any()
    assert (rows[few] == steps.num_decodes[few]).all()
    assert (rows[alone & ~few] == 0).all()
    expected = zip(prompts, lengths, strict=True)
    assert served.outputs == tuple(peers["qwen2"].greedy(p, n) for p, n in expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_operator_by_operator_the_tokens_equal_transformers_too(
    family: str, tiny: dict[str, Model], peers: dict[str, Peer]
) -> None:
    served = generate(
        tiny[family], PROMPTS, 48, compiled=False, max_num_batched_tokens=40, num_gpu_blocks=30
    )
    assert (served.times["padded_batch"] == 0).all()
    assert served.recording.requests.num_preemptions.sum() > 0
    assert served.outputs == tuple(peers[family].greedy(prompt, 48) for prompt in PROMPTS)


def test_a_step_can_be_stopped_between_layers(tiny: dict[str, Model]) -> None:
    batches, num_blocks = steps_of(np.random.default_rng(1), 2)
    runner = runner_of(tiny["llama"], num_blocks, compiled=True)
    logits_of(runner, batches[:1])
    inputs = 0

    def check() -> None:
        nonlocal inputs
        inputs += 1
        if inputs == 2:
            raise KeyboardInterrupt

    with torch.inference_mode(), pytest.raises(KeyboardInterrupt):
        runner.prepare(batches[1])(check)
    assert inputs == 2


def test_where_weights_do_not_fit_twice_every_step_is_eager(
    tiny_folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_backend.models.weights.too_little", lambda device, wanted: 0)
    model = load(tiny_folders["qwen3"])
    assert not keeps_plain(model.architecture, CPU)
    policy = policy_rows(num_gpu_blocks=20)
    loaded: Any = type("Loaded", (), {"model": model})
    runner, said = make_runner(loaded, policy, CPU)
    assert runner.compiled is None
    assert runner.most_rows == 0
    assert "do not fit" in said

"""The real small model, where it has been fetched: tokens and tokenizer as transformers' own."""

from pathlib import Path

import numpy as np
import pytest
import torch

from gpu_backend.device import Device
from gpu_backend.engine.request_inputs import make_inputs
from gpu_backend.models import tokenizer
from gpu_backend.models.batch import Rows, make_batch
from gpu_backend.models.model import Model
from tests.gpu_backend.conftest import Peer, load
from tests.gpu_backend.harness import TEXTS, executor_for, generate
from tests.tools.builders import policy_rows

NUM_TOKENS = 48


@pytest.fixture(scope="module")
def smollm2(smollm2_folder: Path) -> Model:
    return load(smollm2_folder)


@pytest.fixture(scope="module")
def smollm2_peer(smollm2_folder: Path) -> Peer:
    return Peer(smollm2_folder)


@pytest.fixture(scope="module")
def prompts(smollm2_folder: Path) -> list[tuple[int, ...]]:
    words = tokenizer.load(smollm2_folder)
    return [tuple(words.encode(text)) for text in TEXTS]


def test_the_tokenizer_reads_back_what_it_wrote(smollm2_folder: Path) -> None:
    words = tokenizer.load(smollm2_folder)
    for text in TEXTS:
        assert words.decode(words.encode(text)) == text
    assert len(words.encode("<|im_start|>")) == 1
    assert len(words.encode("2026")) == 4  # digits one by one


def test_tokens_equal_transformers(
    smollm2: Model, smollm2_peer: Peer, prompts: list[tuple[int, ...]]
) -> None:
    """Chunks, and so few blocks that a request is preempted."""
    served = generate(
        smollm2, prompts, NUM_TOKENS, max_num_batched_tokens=24, num_gpu_blocks=28, max_num_seqs=8
    )
    assert served.recording.requests.num_preemptions.sum() > 0
    for prompt, found in zip(prompts, served.outputs, strict=True):
        assert len(found) == NUM_TOKENS
        assert found == smollm2_peer.likeliest(prompt, found)


def test_bf16_logits_stay_near(
    smollm2_folder: Path, smollm2_peer: Peer, prompts: list[tuple[int, ...]]
) -> None:
    """Teacher-forced: the fp32 model's own tokens go through the bf16 one."""
    device = Device(torch.device("cpu"), torch.bfloat16, 1, "CPU")
    model = load(smollm2_folder, device)
    prompt = prompts[0]
    tokens = list(prompt + smollm2_peer.greedy(prompt, 12))
    policy = policy_rows()
    inputs = make_inputs([tokens], 1)
    runner = executor_for(model, policy, inputs).runner
    n = len(tokens)
    whole = Rows(*(np.array([x]) for x in (0, 0, n, 0)), np.array([True]))
    batch = make_batch(whole, inputs.tokens, [np.arange(1, n // 16 + 2)], 16)
    batch.__dict__["sampled"] = np.arange(n)
    with torch.inference_mode():
        runner.pool.open_blocks(batch.fresh_blocks, batch.tails)
        found = runner.prepare(batch)(None).float()
    expected = smollm2_peer.logits(tokens)
    worst = float((found - expected).abs().max())
    spread = float(expected.std())
    assert worst < 0.35 * spread, (worst, spread)
    agree = (found.argmax(-1) == expected.argmax(-1)).float().mean()
    assert agree > 0.85

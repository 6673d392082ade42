"""Greedy tokens in fp32 equal transformers', whatever the scheduler does to a request."""

from typing import Any

import numpy as np
import pytest

from gpu_backend.models.model import Model
from tests.gpu_backend.conftest import FAMILIES, Peer
from tests.gpu_backend.harness import PROMPTS, generate

NUM_TOKENS = 48
LONGEST = max(map(len, PROMPTS)) + NUM_TOKENS
HALF = [-(-LONGEST // 8) + 4, 2 * -(-LONGEST // 8)]  # blocks of 8 for one request, for two


def knobs_of(engine: str, rng: np.random.Generator) -> dict[str, Any]:
    """Random budgets, and so few blocks that requests must be preempted."""
    budget, blocks = int(rng.integers(9, 130)), int(rng.integers(*HALF))
    size = int(rng.choice([4, 8, 16]))
    scarce = {"num_gpu_blocks": -(-blocks * 8 // size) + 2, "block_size": size}
    if engine == "vllm_v1":
        return scarce | {
            "max_num_batched_tokens": budget,
            "max_num_seqs": int(rng.integers(3, 9)),
            "enable_prefix_caching": bool(rng.integers(2)),
            "long_prefill_token_threshold": int(rng.choice([0, 13])),
        }
    if engine in ("vllm_v0", "vllm_v0_swap"):
        return scarce | {"max_num_batched_tokens": 200 + budget}
    if engine == "sarathi":
        return scarce | {"chunk_size": budget}
    if engine == "orca":
        return {"max_model_len": 160, "num_gpu_blocks": int(rng.integers(10, 40))}
    if engine == "static":
        return {"max_batch_size": int(rng.integers(2, 9)), "kv_tokens": int(rng.integers(300, 900))}
    if engine == "sglang":
        return {
            "chunked_prefill_size": size * int(rng.integers(1, 9)),
            "page_size": size,
            "max_total_tokens": size * (blocks * 8 // size + 3),
            "enable_mixed_chunk": bool(rng.integers(2)),
            "disable_radix_cache": bool(rng.integers(2)),
        }
    return {
        "max_num_tokens": 200 + budget,
        "tokens_per_block": size,
        "num_blocks": -(-blocks * 8 // size) + 2,
        "enable_block_reuse": bool(rng.integers(2)),
    }


ENGINES = (
    "vllm_v1",
    "vllm_v0",
    "vllm_v0_swap",
    "sarathi",
    "orca",
    "static",
    "sglang",
    "tensorrt_llm",
)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("engine", ENGINES)
def test_tokens_equal_transformers(
    engine: str, seed: int, tiny: dict[str, Model], peers: dict[str, Peer]
) -> None:
    rng = np.random.default_rng([seed, ENGINES.index(engine)])
    family = FAMILIES[(seed + ENGINES.index(engine)) % len(FAMILIES)]
    columns = {"num_host_blocks": 1_000} if engine == "vllm_v0_swap" else None
    served = generate(
        tiny[family],
        PROMPTS,
        NUM_TOKENS,
        engine.removesuffix("_swap"),
        columns=columns,
        **knobs_of(engine, rng),
    )
    assert served.recording.status == "finished", (served.error, served.recording.reason)
    for prompt, found in zip(PROMPTS, served.outputs, strict=True):
        assert len(found) == NUM_TOKENS
        assert found == peers[family].likeliest(prompt, found)

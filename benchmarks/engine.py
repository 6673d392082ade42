"""`make bench-engine`: the real engine beside transformers, and beside this machine's limits.

8 requests of 64 prompt and 32 output tokens, greedy, the same weights, number format and threads
for all: this engine (vLLM V1's policy), `generate` of transformers at batch 8, and its continuous
batching (`generate_batch`). The three alternate, so that load on the machine affects all of them;
the best of each counts. Then batch-1 decode against the bandwidth of this machine and a prompt of
256 tokens against its matrix products, both measured in the same run. Ends with one JSON line.

Bandwidth: best of 5 reads (a sum) of 1 GiB. GEMM: the larger of the best of 5 products at
256 x 576 x 1536 and at 2048 cubed. In the engine's number format: bf16 where the processor
multiplies it, else fp32.
"""

import gpu_backend  # noqa: F401 (first: it says how torch's threads wait, before torch starts any)

# isort: split
import contextlib
import io
import json
import logging
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from gpu_backend.device import Device, choose
from gpu_backend.engine.executor import Executor
from gpu_backend.engine.loop import RunOutput, serve
from gpu_backend.engine.machine_limits import bandwidth, gemm_flops
from gpu_backend.engine.request_inputs import RequestInputs, make_inputs
from gpu_backend.engine.run import make_runner
from gpu_backend.engine.runner import Runner
from gpu_backend.models import architecture, smollm2, tokenizer, weights
from gpu_backend.models.zoo import Loaded
from gpu_backend.prompts import corpus
from gpu_backend.terminal import device_options
from sim.core.requests import Table
from sim.core.state import POLICY, records
from sim.engines.knobs.vllm_v1 import VllmV1

REQUESTS, PROMPT, OUTPUT = 8, 64, 32
DECODE_CONTEXT = 128
LONG_PROMPT = 256
READ_BYTES = 1 << 30
Size = tuple[int, int, int]
GEMMS: tuple[Size, ...] = ((256, 576, 1536), (2048, 2048, 2048))


def policy_row(budget: int, block_size: int) -> Table:
    """vLLM V1 with room for every request."""
    knobs = VllmV1(
        engine="vllm_v1",
        max_num_batched_tokens=budget,
        max_num_seqs=16,
        max_model_len=1024,
        block_size=block_size,
        num_gpu_blocks=2 + 16 * 1024 // block_size,
        enable_prefix_caching=False,
    )
    rows = records(1, POLICY)
    rows[0] = knobs.row()
    return rows


def model_folder(work: Path) -> Path:
    """SmolLM2, or random weights of its shape as transformers saves them."""
    if smollm2.is_fetched():
        return smollm2.folder()
    import transformers

    shape = architecture.named("smollm2-135m").shape
    config = transformers.LlamaConfig(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        num_key_value_heads=shape.num_kv_heads,
        max_position_embeddings=shape.max_model_len,
        tie_word_embeddings=True,
        eos_token_id=None,
        bos_token_id=None,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(work)
    return work


class Ours:
    """This engine with one pool, serving one batch after the other."""

    def __init__(self, loaded: Loaded, device: Device, budget: int) -> None:
        block_size = 256 if device.is_cuda else 16
        self.policy = policy_row(budget, block_size)
        self.runner: Runner
        self.runner, self.backend = make_runner(loaded, self.policy, device)

    def serve(self, inputs: RequestInputs) -> RunOutput:
        served = serve(inputs, self.policy, Executor(self.runner, inputs))
        assert served.error is None, served.error
        return served


def generate(model: Any, prompts: list[list[int]]) -> int:
    """transformers at batch 8; returns output tokens."""
    ids = torch.tensor(prompts, device=model.device)
    with torch.inference_mode():
        found = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=OUTPUT,
            min_new_tokens=OUTPUT,
            do_sample=False,
            pad_token_id=0,
        )
    return int((found.shape[1] - PROMPT) * len(prompts))


def continuous(model: Any, prompts: list[list[int]]) -> int:
    """Continuous batching of transformers; returns output tokens."""
    from transformers import ContinuousBatchingConfig, GenerationConfig

    config = GenerationConfig(
        max_new_tokens=OUTPUT, do_sample=False, eos_token_id=-1, pad_token_id=0
    )
    memory = ContinuousBatchingConfig(num_blocks=64, max_batch_tokens=512)
    with torch.inference_mode(), contextlib.redirect_stderr(io.StringIO()):
        found = model.generate_batch(
            inputs=prompts, generation_config=config, continuous_batching_config=memory
        )
    return sum(len(output.generated_tokens) for output in found.values())


def timed(work: Callable[[], int]) -> float:
    """Output tokens per second."""
    started_s = time.perf_counter()
    tokens = work()
    assert tokens == REQUESTS * OUTPUT, tokens
    return tokens / (time.perf_counter() - started_s)


def decode_step_s(ours: Ours, text: np.ndarray) -> float:
    """Median step time of one request that decodes at about DECODE_CONTEXT tokens of context."""
    served = ours.serve(make_inputs([text[: DECODE_CONTEXT - OUTPUT // 2]], OUTPUT))
    return float(np.median(served.times["whole_s"][2:]))


def prefill_step_s(ours: Ours, text: np.ndarray) -> float:
    """The step time of one whole prompt of LONG_PROMPT tokens."""
    served = ours.serve(make_inputs([text[:LONG_PROMPT]], 1))
    assert len(served.times) == 1
    return float(served.times["whole_s"][0])


@click.command()
@device_options
@click.option("--rounds", type=click.IntRange(1, 100), default=5)
def main(kind: str, dtype: str, threads: int | None, rounds: int) -> None:
    """Print a table and one JSON line."""
    import transformers

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    device = choose(kind, dtype, threads)
    with tempfile.TemporaryDirectory() as work:
        folder = model_folder(Path(work))
        model = weights.from_folder(folder, architecture.from_config(folder), device)
        loaded = Loaded(folder.name, folder.name, model, tokenizer.load(folder), random=False)
        peer = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=device.dtype, attn_implementation="sdpa"
        ).to(device.torch_device)
    text = corpus.text_tokens(loaded)
    prompts = [text[k * PROMPT : (k + 1) * PROMPT] for k in range(REQUESTS)]
    lists = [prompt.tolist() for prompt in prompts]
    inputs = make_inputs(prompts, OUTPUT)
    batch, single = Ours(loaded, device, 512), Ours(loaded, device, 512)

    def ours() -> int:
        return sum(map(len, batch.serve(inputs).outputs))

    contenders: dict[str, Callable[[], int]] = {
        "this engine": ours,
        "transformers generate": lambda: generate(peer, lists),
        "transformers generate_batch": lambda: continuous(peer, lists),
    }
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    for work_ in contenders.values():
        work_()  # warm up
    decode_step_s(single, text)
    prefill_step_s(single, text)
    decodes, prefills, reads = [], [], []
    gemms: dict[Size, list[float]] = {size: [] for size in GEMMS}
    for _ in range(rounds):
        for name, work_ in contenders.items():
            speeds[name].append(timed(work_))
        decodes.append(decode_step_s(single, text))
        reads.append(bandwidth(device, READ_BYTES))
        prefills.append(prefill_step_s(single, text))
        for size, values in gemms.items():
            values.append(gemm_flops(device, size))
    click.echo(f"{device.title}, {device.dtype_name}, {device.threads} threads; {batch.backend}")
    click.echo(f"{REQUESTS} x ({PROMPT} in + {OUTPUT} out) tokens, best of {rounds}")
    best = {name: max(values) for name, values in speeds.items()}
    peaks = {size: max(values) for size, values in gemms.items()}
    figures = report(best, peaks)
    figures |= beside_limits(
        model.architecture, device, min(decodes), min(prefills), max(reads), max(peaks.values())
    )
    about = {"device": device.title, "dtype": device.dtype_name, "threads": device.threads}
    click.echo(json.dumps(figures | about | {"model": folder.name}))


def report(best: dict[str, float], peaks: dict[Size, float]) -> dict[str, Any]:
    """Print the speeds; returns them, and how many times as fast this engine is."""
    mine = best["this engine"]
    ratios = {name: mine / speed for name, speed in best.items() if name != "this engine"}
    for name, speed in best.items():
        beside = f"   this engine is {ratios[name]:.2f} times as fast" if name in ratios else ""
        click.echo(f"  {name:<30}{speed:8.1f} tokens/s{beside}")
    for size, flops in peaks.items():
        click.echo(f"  {'GEMM ' + ' x '.join(map(str, size)):<30}{flops / 1e9:8.1f} GFLOP/s")
    return {
        "tokens_per_s": {name.replace(" ", "_"): speed for name, speed in best.items()},
        "ratios": {name.replace(" ", "_"): ratio for name, ratio in ratios.items()},
        "gemm_flops": {"x".join(map(str, size)): flops for size, flops in peaks.items()},
    }


def beside_limits(
    arch: architecture.Architecture,
    device: Device,
    decode_s: float,
    prefill_s: float,
    read: float,
    gemm: float,
) -> dict[str, float]:
    """Print decode as a share of the bandwidth and a prompt as a share of the GEMM; returns the
    shares.

    A decode reads all weights once, including the LM head, and the request's KV. A prompt
    multiplies by the layers' weights for each token and by the head once; attention covers half a
    square."""
    shape = arch.shape
    parameters = shape.linear_parameters + shape.small_parameters + shape.head_parameters
    kv = DECODE_CONTEXT * shape.kv_bytes_per_token(1, device.element_bytes)
    decode_share = (parameters * device.element_bytes + kv) / decode_s / read
    flop = 2.0 * (shape.linear_parameters * LONG_PROMPT + shape.head_parameters)
    flop += 4.0 * shape.num_layers * arch.q_size * LONG_PROMPT * LONG_PROMPT / 2
    prefill_share = flop / prefill_s / gemm
    click.echo(f"  {'read of 1 GiB':<30}{read / 1e9:8.1f} GB/s")
    click.echo(f"  {'decode, batch 1':<30}{decode_s * 1e3:8.1f} ms, {decode_share:.0%} of that")
    label = f"prompt of {LONG_PROMPT} tokens"
    click.echo(f"  {label:<30}{prefill_s * 1e3:8.1f} ms, {prefill_share:.0%} of the larger GEMM")
    return {
        "batch1_bandwidth_fraction": decode_share,
        "prefill256_gemm_fraction": prefill_share,
        "bandwidth_bytes_per_s": read,
        "decode_step_s": decode_s,
        "prefill256_s": prefill_s,
    }


if __name__ == "__main__":
    main()

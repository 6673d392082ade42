"""Tiny random models as transformers makes them, and what transformers generates with them."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from gpu_backend.device import Device
from gpu_backend.models import smollm2
from gpu_backend.models.architecture import from_config
from gpu_backend.models.model import Model
from gpu_backend.models.weights import from_folder

FAMILIES = ("llama", "qwen2", "qwen3")
TINY = {
    "vocab_size": 384,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,
    "eos_token_id": None,
    "bos_token_id": None,
    "pad_token_id": None,
}
torch.set_num_threads(1)  # tiny matrices: a second thread would only wait
CPU = Device(torch.device("cpu"), torch.float32, 1, "CPU")


def tiny_config(family: str) -> Any:
    import transformers

    if family == "llama":
        scaling = {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
            "rope_theta": 10_000.0,
        }
        return transformers.LlamaConfig(**TINY, rope_parameters=scaling, tie_word_embeddings=False)
    if family == "qwen2":
        return transformers.Qwen2Config(**TINY, tie_word_embeddings=True)
    return transformers.Qwen3Config(**TINY, head_dim=24, tie_word_embeddings=True)


def save_tiny(family: str, folder: Path) -> Path:
    """A random model as `save_pretrained` writes it, biases and norms random too."""
    import transformers

    torch.manual_seed(FAMILIES.index(family))
    config = tiny_config(family)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.copy_(torch.randn_like(parameter) * 0.3 + (0.0 if "bias" in name else 1))
    model.save_pretrained(folder)
    return folder


class Peer:
    """The same folder in transformers: greedy tokens and logits to compare with."""

    def __init__(self, folder: Path) -> None:
        import transformers

        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.greedy = cache(self._greedy)
        self.likeliest = cache(self._likeliest)

    def _greedy(self, prompt: tuple[int, ...], n: int) -> tuple[int, ...]:
        ids = torch.tensor([prompt])
        with torch.inference_mode():
            found = self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=n,
                do_sample=False,
                eos_token_id=None,
                pad_token_id=0,
            )
        return tuple(found[0, len(prompt) :].tolist())

    def _likeliest(self, prompt: tuple[int, ...], outputs: tuple[int, ...]) -> tuple[int, ...]:
        """The likeliest token after the prompt and each part of the outputs, in one forward pass.

        It equals `outputs` exactly when they are the greedy tokens: the first is the likeliest
        after the prompt; if the first k are greedy, the one after them is the likeliest after what
        greedy decoding has by then."""
        scores = self.logits([*prompt, *outputs[:-1]])
        return tuple(scores[len(prompt) - 1 :].argmax(-1).tolist())

    def logits(self, tokens: list[int]) -> torch.Tensor:
        with torch.inference_mode():
            return self.model(torch.tensor([tokens])).logits[0]


@pytest.fixture(scope="session")
def tiny_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: save_tiny(name, tmp_path_factory.mktemp(name)) for name in FAMILIES}


@pytest.fixture(scope="session")
def tiny(tiny_folders: dict[str, Path]) -> dict[str, Model]:
    return {name: load(folder) for name, folder in tiny_folders.items()}


@pytest.fixture(scope="session")
def peers(tiny_folders: dict[str, Path]) -> dict[str, Peer]:
    return {name: Peer(folder) for name, folder in tiny_folders.items()}


@pytest.fixture(scope="session")
def smollm2_folder() -> Path:
    if not smollm2.is_fetched():
        pytest.skip("SmolLM2 is not fetched (python -m gpu_backend fetch smollm2)")
    return smollm2.folder()


def load(folder: Path, device: Device = CPU) -> Model:
    return from_folder(folder, from_config(folder), device)

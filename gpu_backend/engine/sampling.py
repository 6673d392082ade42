"""The next token: the most likely one, or one drawn at a temperature.

A draw depends on the request's seed and the position alone, so it is the same for every policy,
batch and preemption: Gumbel noise of a generator seeded with both is added to logits / temperature.
"""

from dataclasses import dataclass

import torch

from gpu_backend.engine.presets import TEMPERATURES

__all__ = ["Sampling", "sample"]


@dataclass(frozen=True)
class Sampling:
    """temperature 0 is greedy; `seed` belongs to the request."""

    temperature: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        low, high = TEMPERATURES
        if not low <= self.temperature <= high:
            raise ValueError(f"temperature must be {low:g} to {high:g}, found {self.temperature}")


def sample(logits: torch.Tensor, wanted: list[tuple[Sampling, int]]) -> list[int]:
    """One token id per row of logits (rows, vocab_size); `wanted` has the sampling of each row and
    the position of its token. One copy to the host."""
    drawn = [row for row, (sampling, _) in enumerate(wanted) if sampling.temperature > 0]
    if drawn:
        logits = logits.float()
        for row in drawn:
            sampling, position = wanted[row]
            noise = gumbel(logits.shape[1], sampling.seed, position).to(logits.device)
            logits[row] = logits[row] / sampling.temperature + noise
    return [int(token) for token in logits.argmax(dim=-1).tolist()]


def gumbel(size: int, seed: int, position: int) -> torch.Tensor:
    """Standard Gumbel noise; the same on every device, because it is drawn on the host."""
    mixed = (seed * 0x9E3779B97F4A7C15 + position * 0xBF58476D1CE4E5B9) & ((1 << 63) - 1)
    generator = torch.Generator().manual_seed(mixed)
    uniform = torch.rand(size, generator=generator).clamp_(1e-20, 1 - 1e-7)
    return -torch.log(-torch.log(uniform))

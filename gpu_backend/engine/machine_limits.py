"""Limits of this machine: bytes read per second, FLOP per second.

Both are measured, not looked up. They give a first guess of step times before a calibration: all
weights read once per step, and the FLOP of each token at the best rate."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from gpu_backend.device import Device
from gpu_backend.models.architecture import Architecture
from sim.latency import model as latency_model

__all__ = ["Limits", "bandwidth", "best_seconds", "first_guess", "gemm_flops", "measure_limits"]

READ_BYTES = 1 << 28
GEMM_SIZES = ((256, 576, 1536), (1024, 1024, 1024))


@dataclass(frozen=True)
class Limits:
    """bandwidth: bytes/s of the best read; flops: FLOP/s of the best product, in this dtype."""

    bandwidth: float
    flops: float


def best_seconds(work: Callable[[], Any], device: Device, tries: int = 5) -> float:
    """The shortest of `tries` runs, after one to warm up."""
    seconds = []
    for _ in range(tries + 1):
        started_s = time.perf_counter()
        work()
        if device.is_cuda:
            torch.cuda.synchronize(device.torch_device)
        seconds.append(time.perf_counter() - started_s)
    return min(seconds[1:])


def bandwidth(device: Device, read_bytes: int = READ_BYTES) -> float:
    """Bytes/s of the best of 5 reads (a sum) of a tensor of that size."""
    options: dict[str, Any] = {"dtype": device.dtype, "device": device.torch_device}
    table = torch.ones(read_bytes // device.element_bytes, **options)
    return read_bytes / best_seconds(table.sum, device)


def gemm_flops(device: Device, size: tuple[int, int, int]) -> float:
    """FLOP/s of the best of 5 products of (m, k) and (k, n)."""
    m, k, n = size
    options: dict[str, Any] = {"dtype": device.dtype, "device": device.torch_device}
    a, b = torch.ones((m, k), **options), torch.ones((k, n), **options)
    return 2.0 * m * k * n / best_seconds(lambda: a @ b, device)


@cache
def measure_limits(device: Device) -> Limits:
    """Both, measured once per process; the best product size counts."""
    return Limits(bandwidth(device), max(gemm_flops(device, size) for size in GEMM_SIZES))


def first_guess(architecture: Architecture, device: Device, limits: Limits) -> Any:
    """A LATENCY row of the linear kind for a model on this machine, before any calibration."""
    shape = architecture.shape
    read = shape.linear_parameters + shape.head_parameters
    token_s = 2.0 * shape.linear_parameters / limits.flops
    return latency_model.linear(read * device.element_bytes / limits.bandwidth, token_s, token_s)

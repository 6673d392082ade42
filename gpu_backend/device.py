"""The device of the engine: a GPU when there is one, else the CPU, and the number format.

bf16 needs instructions that multiply it (AVX512_BF16 or AMX; every GPU from Ampere on has them);
without them it is slower than fp32 by a factor of a hundred, so a CPU without them computes in
fp32.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

__all__ = ["Device", "OutOfMemory", "check_memory", "choose", "free_memory", "too_little"]

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


class OutOfMemory(RuntimeError):
    """Something does not fit in the memory of the device; found before allocation, or by torch."""


@dataclass(frozen=True)
class Device:
    """A torch device, the number format of weights and KV, and the threads of a CPU."""

    torch_device: torch.device
    dtype: torch.dtype
    threads: int
    title: str

    @property
    def is_cuda(self) -> bool:
        return self.torch_device.type == "cuda"

    @property
    def dtype_name(self) -> str:
        return next(name for name, dtype in DTYPES.items() if dtype == self.dtype)

    @property
    def element_bytes(self) -> int:
        return self.dtype.itemsize


def choose(kind: str = "auto", dtype: str = "auto", threads: int | None = None) -> Device:
    """The device to run on: "auto", "cuda" or "cpu"; "bf16", "fp32" or "auto"; CPU threads, None
    for OMP_NUM_THREADS where it is set, else as many as this process may use.

    Sets torch's number of threads. ValueError for an unknown name or a missing GPU.
    """
    if kind not in ("auto", "cuda", "cpu"):
        raise ValueError(f"unknown device {kind!r}; known: auto, cuda, cpu")
    if dtype != "auto" and dtype not in DTYPES:
        raise ValueError(f"unknown dtype {dtype!r}; known: auto, {', '.join(DTYPES)}")
    if threads is not None and not 1 <= threads <= 1024:
        raise ValueError(f"threads must be 1 to 1024, found {threads}")
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError("there is no CUDA device; torch sees only the CPU")
    if kind != "cpu" and torch.cuda.is_available():
        chosen = "bf16" if dtype == "auto" else dtype
        index = torch.cuda.current_device()
        name = torch.cuda.get_device_name(index)
        return Device(torch.device("cuda", index), DTYPES[chosen], torch.get_num_threads(), name)
    chosen = dtype
    if dtype == "auto":
        chosen = "bf16" if cpu_multiplies_bf16() else "fp32"
    wanted = threads or default_threads()
    if torch.get_num_threads() != wanted:
        torch.set_num_threads(wanted)
    return Device(torch.device("cpu"), DTYPES[chosen], wanted, cpu_name())


def default_threads() -> int:
    """OMP_NUM_THREADS, or the processors that this process may use."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdecimal() and int(asked):
        return int(asked)
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_flags() -> set[str]:
    """Instruction sets of the processor, as Linux names them; empty elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    lines = (line for line in text.splitlines() if line.startswith("flags"))
    return set(next(lines, "").partition(":")[2].split())


def cpu_multiplies_bf16() -> bool:
    return bool(cpu_flags() & {"avx512_bf16", "amx_bf16"})


def cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return "CPU"
    names = (line for line in text.splitlines() if line.startswith("model name"))
    return next(names, "").partition(":")[2].strip() or "CPU"


# --- memory ---------------------------------------------------------------------------------------

KEPT_FREE = 256 << 20  # bytes, for everything that is not estimated


def free_memory(device: Device) -> int:
    """Bytes that can still be allocated: of the GPU, or available memory of the host, within the
    limit of the control group."""
    if device.is_cuda:
        return int(torch.cuda.mem_get_info(device.torch_device)[0])
    free = int(psutil.virtual_memory().available)
    return min(free, group_limit() or free)


def group_limit() -> int | None:
    """Bytes that the control group of this process has left, None without a limit."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
        stat = (folder / "memory.stat").read_text().splitlines()
    except (OSError, ValueError):
        return None
    if limit == "max":
        return None
    cached = sum(int(line.split()[1]) for line in stat if line.startswith("inactive_file "))
    return max(int(limit) - used + cached, 0)


def too_little(device: Device, wanted: int, kept_free: int = KEPT_FREE) -> int | None:
    """The free bytes, where `wanted` bytes plus `kept_free` do not fit; None where they do."""
    free = free_memory(device)
    return free if wanted + kept_free > free else None


def check_memory(device: Device, wanted: int, what: str, kept_free: int = KEPT_FREE) -> None:
    """Raise OutOfMemory, with the numbers, if `wanted` bytes plus `kept_free` do not fit."""
    free = too_little(device, wanted, kept_free)
    if free is not None:
        raise OutOfMemory(
            f"{what} would take {wanted / 1e9:.2f} GB, and {device.title} has {free / 1e9:.2f} GB "
            f"free, of which {kept_free / 1e9:.2f} GB stay free; choose a smaller model, fewer "
            "KV blocks or fewer and shorter requests"
        )

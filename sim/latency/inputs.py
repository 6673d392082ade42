"""The LATENCY row of a replica from the catalogue: work and hardware of one of its GPUs."""

from collections.abc import Mapping
from typing import Any

from sim.hardware import catalog
from sim.latency.efficiency import all_reduce, efficiency
from sim.latency.model import unit_row

__all__ = [
    "activation_bytes",
    "hardware_row",
    "roofline",
    "set_efficiency",
    "set_swap",
    "set_work",
]

DIRECT = (
    "mfu",
    "mfu_half_tokens",
    "attention_mfu",
    "mbu_weights",
    "mbu_kv",
    "smooth_exponent",
    "fixed_s",
    "allreduce_scale",
)


def set_work(row: Any, model: catalog.Model, precision: str, tp: int, kv_bytes: float) -> None:
    """Fill in what one GPU of `tp` computes and moves. `kv_bytes`: bytes of one number in the KV
    cache."""
    linear = model.linear_parameters
    row.num_gpus = tp
    row.gemm_flop_per_token = 2 * linear / tp
    row.head_flop_per_row = 2 * model.head_parameters / tp
    # scores and weighted sum: 2 x 2 FLOP for each number of each head
    row.attention_flop_per_pair = 4 * model.num_layers * model.num_heads * model.head_dim / tp
    row.weight_bytes = linear * catalog.WEIGHT_BYTES[precision] / tp
    row.head_bytes = model.head_parameters * catalog.BF16_BYTES / tp
    row.kv_bytes_per_token = model.kv_bytes_per_token(tp, kv_bytes)
    if tp > 1:
        row.message_bytes_per_token = model.hidden_size * catalog.BF16_BYTES
        row.allreduce_calls = 2 * model.num_layers


def set_swap(row: Any, block_bytes: float, host_link: catalog.Link) -> None:
    """Fill in the cost of a swapped KV block: its bytes on one GPU, each with its own host link."""
    row.swap_block_bytes = block_bytes
    row.host_bandwidth = host_link.bandwidth
    row.host_link_s = host_link.latency_s


def activation_bytes(model: catalog.Model, tp: int) -> float:
    """bf16 traffic of one token between the kernels of all layers, each tensor written and read
    once."""
    query = (model.num_heads + 2 * model.num_kv_heads) * model.head_dim / tp
    layer = 4 * model.hidden_size + 2 * query + 3 * model.intermediate_size / tp
    return 2 * model.num_layers * layer * catalog.BF16_BYTES


def hardware_row(
    model: catalog.Model, gpu: catalog.Gpu, precision: str, tp: int, kv_cache_dtype: str
) -> Any:
    """Work and hardware of one GPU, without efficiencies. ValueError where the GPU lacks the
    precision."""
    computed_in = catalog.COMPUTED_IN[precision]
    if computed_in not in gpu.peak_flops:
        known = ", ".join(gpu.peak_flops)
        raise ValueError(f"{gpu.name} has no {precision} kernels; it has {known}")
    row = unit_row()
    set_work(row, model, precision, tp, catalog.kv_element_bytes(kv_cache_dtype))
    row.peak_flops = gpu.peak_flops[computed_in]
    row.attention_peak_flops = gpu.peak_flops["bf16"]
    row.bandwidth = gpu.bandwidth
    if tp > 1:
        row.allreduce_log_bytes, row.allreduce_log_s = all_reduce(gpu.name, tp)
    return row


def set_efficiency(
    row: Any, constants: Mapping[str, float], activation_bytes: float, num_layers: int
) -> None:
    """Fill in the constants of Efficiency, by name."""
    for name in DIRECT:
        row[name] = constants[name]
    row.activation_bytes_per_token = constants["activation_passes"] * activation_bytes
    row.launch_s = constants["launch_s_per_layer"] * num_layers


def roofline(
    model: catalog.Model, gpu: catalog.Gpu, precision: str, tp: int, kv_cache_dtype: str
) -> Any:
    """The roofline row of `model` on `tp` GPUs. ValueError where the GPU lacks the precision."""
    row = hardware_row(model, gpu, precision, tp, kv_cache_dtype)
    known = efficiency(gpu.name, precision)
    set_efficiency(row, known.constants, activation_bytes(model, tp), model.num_layers)
    row.host_s = gpu.host_s
    return row

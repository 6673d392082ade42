"""Names, sources, and what follows from the shapes."""

import re

import pytest

from sim.hardware import catalog
from sim.hardware.kv_pool_size import KvPool, is_large, kv_pool

PUBLISHED_PARAMETERS = {
    "Llama-3.1-8B": 8_030_261_248,
    "Llama-3.1-70B": 70_553_706_496,
    "Qwen2.5-7B": 7_615_616_512,
    "Qwen3-8B": 8_190_735_360,
    "Qwen3-32B": 32_762_123_264,
    "SmolLM2-135M": 134_515_008,
}


def pool(model: str, gpu: str, **settings: object) -> KvPool:
    wanted: dict[str, object] = {
        "precision": "bf16",
        "tp": 1,
        "kv_cache_dtype": "auto",
        "utilization": 0.9,
        "max_num_batched_tokens": 2048,
        "max_num_seqs": 256,
        "block_size": 16,
    }
    return kv_pool(catalog.model(model), catalog.gpu(gpu), **{**wanted, **settings})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("H100", "h100_sxm"),
        ("h100-80GB", "h100_sxm"),
        ("A100 80GB", "a100_sxm"),
        ("RTX 4090", "rtx_4090"),
        ("b200", "b200_sxm"),
    ],
)
def test_gpu_names(name: str, canonical: str) -> None:
    assert catalog.gpu(name).name == canonical


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama-3.1-8B"),
        ("llama_3.1_70b", "Llama-3.1-70B"),
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen2.5-7B"),
        ("smollm2-135m", "SmolLM2-135M"),
        ("Llama-3.1-8B-hf", "Llama-3.1-8B"),
    ],
)
def test_model_names(name: str, canonical: str) -> None:
    assert catalog.model(name).name == canonical


def test_unknown_names_list_the_nearest_three() -> None:
    with pytest.raises(ValueError, match=r"unknown GPU 'a100_40gb'; the nearest known: \w+, \w+, "):
        catalog.gpu("a100_40gb")
    with pytest.raises(ValueError, match=r"unknown model .*Llama-3.1-8B"):
        catalog.model("Llama-3.1-9B")
    with pytest.raises(ValueError, match="unknown precision 'int3'; known: bf16, fp8, int4, fp16"):
        catalog.precision("int3")
    assert catalog.precision("FP16") == "bf16"


def test_no_name_or_alias_means_two_things() -> None:
    for file in ("gpus", "models", "links"):
        entries = catalog.table(file)
        names = [catalog.plain(n) for key in entries for n in (key, *entries[key]["aliases"])]
        assert len(names) == len(set(names))


def test_parameters_are_those_published() -> None:
    for name, published in PUBLISHED_PARAMETERS.items():
        assert catalog.model(name).parameters == published
    for name in catalog.model_names():
        model = catalog.model(name)
        stated = re.search(r"([\d.]+) billion parameters", model.source)
        if stated:
            assert model.parameters / 1e9 == pytest.approx(float(stated[1]), rel=5e-3), name
        else:
            assert name in PUBLISHED_PARAMETERS


def test_every_number_has_a_source() -> None:
    for name in catalog.gpu_names():
        gpu = catalog.gpu(name)
        assert {"memory_bytes", "bandwidth", "peak_flops_bf16"} <= gpu.sources.keys()
        assert all(gpu.sources.values())
        assert catalog.link(gpu.gpu_link).bandwidth > 0
        assert catalog.link(gpu.host_link).bandwidth > 0
    for name in catalog.link_names():
        link = catalog.link(name)
        assert all(link.sources.values())
        assert link.bandwidth <= link.peak_bandwidth
    assert all(catalog.model(name).source for name in catalog.model_names())


def test_kv_of_4096_tokens_of_a_70b_model_is_1_34_gb() -> None:
    per_token = catalog.model("Llama-3.1-70B").kv_bytes_per_token(1, 2.0)
    assert per_token * 4096 == 2 * 80 * 8 * 128 * 2 * 4096 == pytest.approx(1.34e9, rel=0.01)


def test_pool_of_a_real_server() -> None:
    """vLLM 0.19.0 reported 2,588 blocks for Llama-3.1-8B on an RTX 4090."""
    assert pool("Llama-3.1-8B", "rtx_4090").num_gpu_blocks == 2588
    assert pool("Llama-3.1-8B", "rtx_4090").tokens(16) == 2587 * 16


def test_pool_near_another_report() -> None:
    """282,496 tokens were computed from a vLLM 0.11.0 log: Qwen3-32B, 2 H100, 0.9."""
    found = pool("Qwen3-32B", "h100", tp=2, max_num_batched_tokens=8192, max_num_seqs=1024)
    assert found.tokens(16) == pytest.approx(282_496, rel=0.05)


def test_a_larger_budget_leaves_less_kv() -> None:
    small, large = (
        pool("Llama-3.1-70B", "a100", tp=2, utilization=0.95, max_num_batched_tokens=budget)
        for budget in (2048, 8192)
    )
    assert large.num_gpu_blocks < 0.95 * small.num_gpu_blocks


def test_a_model_that_does_not_fit_is_refused_with_numbers() -> None:
    with pytest.raises(
        ValueError, match=r"weights take 141.1 GB .* may use 22.7 GB .*try a larger"
    ):
        pool("Llama-3.1-70B", "rtx_4090")


def test_size_classes() -> None:
    assert {name: is_large(catalog.gpu(name)) for name in catalog.gpu_names()} == {
        "h100_sxm": True,
        "h200_sxm": True,
        "a100_sxm": False,
        "rtx_4090": False,
        "l40s": False,
        "b200_sxm": True,
        "b300_sxm": True,
        "gb200": True,
        "gb300": True,
        "rtx_pro_6000_server": True,
        "l4": False,
        "a10g": False,
        "mi300x": True,
    }

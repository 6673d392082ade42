"""What is loaded, and what is refused in words."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from gpu_backend.device import OutOfMemory, check_memory, choose, default_threads
from gpu_backend.models import architecture, tokenizer, zoo
from gpu_backend.models.architecture import from_config
from gpu_backend.models.kv_pool import KvPool, block_bytes
from gpu_backend.models.linear import Linear, packing
from gpu_backend.models.smollm2 import hub_name, unpermuted
from gpu_backend.models.weights import from_folder, pair_rows, random_model, weight_bytes
from tests.gpu_backend.conftest import CPU


@pytest.fixture
def folder(tiny_folders: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of the tiny Qwen3 to spoil."""
    return Path(shutil.copytree(tiny_folders["qwen3"], tmp_path / "model"))


def spoil_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "gpt2"}, "model_type"),
        ({"model_type": "mistral"}, "does not run here: llama, qwen2, qwen3"),
        ({"num_experts": 8}, "mixture of experts"),
        ({"use_sliding_window": True}, "use_sliding_window is True"),
        ({"hidden_act": "gelu"}, "computes 'silu' only"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "rope_type 'yarn'"),
        ({"rope_parameters": {"rope_type": "llama3"}}, "lacks the key 'factor'"),
        ({"head_dim": 23}, "is odd"),
    ],
)
def test_a_config_that_asks_for_more_is_refused(
    folder: Path, changes: dict[str, Any], words: str
) -> None:
    spoil_config(folder, **changes)
    with pytest.raises(ValueError, match=words):
        from_config(folder)


def test_a_folder_without_a_config(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such file"):
        from_config(tmp_path)


def test_a_pickle_is_never_opened(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"pytorch_model\.bin is a pickle"):
        from_folder(folder, from_config(folder), CPU)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda t: t.pop("model.norm.weight"), "no tensor model.norm.weight"),
        (lambda t: t.update({"model.norm.weight": torch.ones(3)}), r"has the shape \(3,\)"),
        (lambda t: t.update({"model.layers.9.x": torch.ones(3)}), "unknown tensor"),
        (
            lambda t: t.update({"model.norm.weight": torch.ones(64, dtype=torch.int8)}),
            "quantised",
        ),
    ],
)
def test_weights_that_do_not_fit_the_config(folder: Path, spoil: Any, words: str) -> None:
    tensors = load_file(folder / "model.safetensors")
    spoil(tensors)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ValueError, match=words):
        from_folder(folder, from_config(folder), CPU)


def test_a_broken_file(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\x00" * 64)
    with pytest.raises(ValueError, match="not readable as safetensors"):
        from_folder(folder, from_config(folder), CPU)


def test_pairs_of_rotary_dimensions_stand_side_by_side() -> None:
    """Two heads of six: first half and second half, interleaved."""
    assert pair_rows(torch.arange(12), 6).tolist() == [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]


def test_gguf_order_is_undone() -> None:
    """Pairs to halves is the inverse of halves to pairs."""
    rows = torch.arange(24).view(12, 2)
    assert torch.equal(unpermuted(pair_rows(rows, 6), 2), rows)
    assert hub_name("blk.3.attn_q.weight") == "model.layers.3.self_attn.q_proj.weight"
    assert hub_name("token_embd.weight") == "model.embed_tokens.weight"


@pytest.mark.parametrize("name", architecture.NAMED)
def test_named_shapes(name: str) -> None:
    shape = architecture.named(name).shape
    assert shape.num_heads % shape.num_kv_heads == 0
    assert 15e6 < shape.parameters < 8.5e9


def test_random_weights_repeat_with_their_seed() -> None:
    arch = architecture.named("llama-15m")
    a, b, c = (random_model(arch, CPU, seed).embedding for seed in (1, 1, 2))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)
    assert a.numel() == arch.shape.head_parameters


def test_unknown_models_are_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="llama-15m, smollm2-135m"):
        zoo.load("random:gpt-5", CPU)
    with pytest.raises(ValueError, match="name random:SHAPE"):
        zoo.load("/no/such/folder", CPU)


def test_memory_is_checked_before_anything_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_backend.device.free_memory", lambda device: 1 << 30)
    arch = architecture.named("llama-3.1-8b")
    assert weight_bytes(arch, CPU) > 32e9
    with pytest.raises(OutOfMemory, match=r"the weights of Llama-3.1-8B would take 32.12 GB"):
        random_model(arch, CPU)
    with pytest.raises(OutOfMemory, match="the KV cache of 10,000 blocks"):
        KvPool(arch, 10_000, 16, CPU)
    check_memory(CPU, 1 << 29, "half of it")
    assert block_bytes(arch, 16, CPU) == 2 * 32 * 16 * 1024 * 4


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"kind": "tpu"}, "unknown device 'tpu'"),
        ({"dtype": "fp8"}, "unknown dtype 'fp8'"),
        ({"threads": 0}, "threads must be"),
    ],
)
def test_a_device_that_is_none(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        choose(**asked)


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_packed_linears_are_linear(rows: int) -> None:
    torch.manual_seed(0)
    weight, bias, x = torch.randn(96, 64), torch.randn(96), torch.randn(rows, 64)
    residual = torch.randn(rows, 96)
    linear, biased = Linear(weight), Linear(weight, bias)
    assert torch.allclose(linear(x), x @ weight.T, atol=1e-4)
    assert torch.allclose(biased(x), x @ weight.T + bias, atol=1e-4)
    assert torch.allclose(linear.add(x, residual), x @ weight.T + residual, atol=1e-4)


def test_without_onednn_plain_linears_do_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_backend.models.linear.TRIED", {})
    monkeypatch.setattr("gpu_backend.models.linear.reorder", lambda weight: weight * 2)
    assert packing(torch.device("cpu"), torch.float32) == "plain"
    linear, x = Linear(torch.eye(8)), torch.randn(2, 8)
    assert linear.packed is None
    assert torch.equal(linear.add(x, x), x + x)


def test_bytes_are_the_tokenizer_of_random_weights(tmp_path: Path) -> None:
    plain = tokenizer.load(None)
    text = "Grüße, 你好"
    assert plain.decode(plain.encode(text)) == text
    assert plain.decode([72, 105, 4000, 33]) == "Hi[4000]!"
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="not a tokenizer"):
        tokenizer.load(tmp_path)


def test_threads_follow_the_argument_then_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert choose("cpu", threads=2).threads == 2
    assert choose("cpu").threads == 3
    for unset in ("", "0", "many"):
        monkeypatch.setenv("OMP_NUM_THREADS", unset)
        assert choose("cpu").threads == default_threads() >= 1

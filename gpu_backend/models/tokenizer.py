"""Text to token ids and back.

A Hugging Face folder has a tokenizer.json. Random weights have no vocabulary: a token is a byte of
UTF-8, and a generated id beyond the bytes is shown as its number in brackets.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

__all__ = ["ByteTokenizer", "FolderTokenizer", "Tokenizer", "load"]


class Tokenizer(Protocol):
    def encode(self, text: str) -> list[int]: ...

    def decode(self, tokens: Sequence[int]) -> str: ...


class ByteTokenizer:
    """Bytes as ids 0 to 255."""

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: Sequence[int]) -> str:
        pieces, waiting = [], bytearray()
        for token in tokens:
            if token < 256:
                waiting.append(token)
                continue
            pieces += [waiting.decode(errors="replace"), f"[{token}]"]
            waiting.clear()
        return "".join([*pieces, waiting.decode(errors="replace")])


class FolderTokenizer:
    """The tokenizer.json of a folder, read by `tokenizers`."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))


def load(folder: Path | None) -> Tokenizer:
    """The tokenizer of a folder; bytes without one. ValueError for a file that cannot be read."""
    if folder is None or not (folder / "tokenizer.json").is_file():
        return ByteTokenizer()
    from tokenizers import Tokenizer as Fast

    path = folder / "tokenizer.json"
    try:
        return FolderTokenizer(Fast.from_file(str(path)))
    except Exception as error:  # the library raises plain Exception
        raise ValueError(f"{path}: not a tokenizer: {error}") from None

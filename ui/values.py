"""Values in an address: each reader takes text and gives the value, or says in a ValueError what it
must be."""

from collections.abc import Callable
from typing import Any


def whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text[:12]) <= most:
            raise ValueError(f"a whole number from {least:,} to {most:,}")
        return int(text)

    return read


def number(least: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text) if len(text) <= 24 else float("nan")
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise ValueError(f"a number from {least:g} to {most:g}")
        return value

    return read


def either(word: str, value: Any, read: Callable[[str], Any]) -> Callable[[str], Any]:
    """The same, or a word that stands for a value."""

    def wrapped(text: str) -> Any:
        if text == word:
            return value
        try:
            return read(text)
        except ValueError as error:
            raise ValueError(f"{error}, or {word}") from None

    return wrapped


def switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError("on or off")
    return text == "on"


def name(names: Callable[[], tuple[str, ...]], what: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in names():
            raise ValueError(f"a {what} of this page: {', '.join(names())}")
        return text

    return read


def say(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "auto" if value is None else f"{value:.9g}" if isinstance(value, float) else str(value)

"""Values in an address: each reader takes text and gives the value, or says in a ValueError what it
must be."""

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import ValidationError

from sim.hardware import catalog
from sim.scenario.model_config import DescribedModel, ModelConfig
from sim.validation.errors import validation_error

CONFIG = "config:"  # begins a model that is no name
CONFIG_KEYS = tuple(ModelConfig.model_fields)


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


def one_of(numbers: Sequence[float]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        for number in numbers:
            if text == say(number):
                return number
        raise ValueError(f"one of {', '.join(map(say, numbers))}")

    return read


def names_of(names: Callable[[], tuple[str, ...]], what: str) -> Callable[[str], list[str]]:
    """Several of them, after commas; "none" for none."""

    def read(text: str) -> list[str]:
        found = [] if text == "none" else list(dict.fromkeys(text.split(",")))
        if any(part not in names() for part in found):
            raise ValueError(f"{what} of this page after commas, or none: {', '.join(names())}")
        return found

    return read


def say_names(names: Sequence[str]) -> str:
    return ",".join(names) or "none"


def model(text: str) -> str | DescribedModel:
    """A model of the catalogue, or `config:` and the numbers of a config.json."""
    if not text.startswith(CONFIG):
        return str(name(catalog.model_names, "model")(text))
    parts = text.removeprefix(CONFIG).split(",", len(CONFIG_KEYS))
    words = f"config: with {', '.join(CONFIG_KEYS)} and a name"
    if len(parts) != len(CONFIG_KEYS) + 1 or not parts[-1].isprintable():
        raise ValueError(words)
    data = {key: json_value(part) for key, part in zip(CONFIG_KEYS, parts, strict=False) if part}
    whole_model = {"name": parts[-1], "config": data}
    try:
        return DescribedModel.model_validate(whole_model)
    except ValidationError as error:
        problem = validation_error(error, whole_model, DescribedModel).problems[0]
        raise ValueError(f"{words} ({problem})") from None


def json_value(part: str) -> Any:
    """A number of an address; what is none stays text, and is refused as such."""
    return int(part) if part.isascii() and part.isdigit() and len(part) < 12 else part


def say_model(ref: DescribedModel) -> str:
    data = ref.config.model_dump()
    parts = ("" if data[key] is None else str(data[key]) for key in CONFIG_KEYS)
    return f"{CONFIG}{','.join(parts)},{ref.name}"


def say(value: Any) -> str:
    if isinstance(value, DescribedModel):
        return say_model(value)
    if isinstance(value, bool):
        return "on" if value else "off"
    return "auto" if value is None else f"{value:.9g}" if isinstance(value, float) else str(value)


def shortened(text: str) -> str:
    """Foreign text as it may stand in a sentence: printable, short, in quotes."""
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return f"“{clean[:40]}{'…' if len(clean) > 40 else ''}”"

"""Base class of the models of a scenario file: frozen, strict about keys and numbers."""

from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

__all__ = ["Spec"]


class Spec(BaseModel):
    """A frozen model that refuses unknown keys, and text in place of a number."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def no_number_as_text(cls, data: Any) -> Any:
        """Without this, pydantic reads "512" as 512 and true as 1."""
        for name, value in data.items() if isinstance(data, dict) else ():
            field = cls.model_fields.get(name)
            if field is None or not wants_number(cls, name):
                continue
            found = next(filter(is_disguised, value if isinstance(value, list) else [value]), None)
            if found is not None:
                about = {
                    "key": name,
                    "found": found,
                    "whole": float not in leaves(field.annotation),
                }
                raise PydanticCustomError("number_as_text", "not a number", about)
        return data


def is_disguised(value: Any) -> bool:
    """Whether a value is a boolean, or text that can be parsed as a number."""
    if isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return False
        return True
    return isinstance(value, bool)


@cache
def wants_number(spec: type[BaseModel], name: str) -> bool:
    """Whether a field takes numbers but neither text nor booleans."""
    kinds = set(leaves(spec.model_fields[name].annotation))
    return bool(kinds & {int, float}) and not kinds & {str, bool}


def leaves(annotation: Any) -> Iterator[Any]:
    """The types in an annotation."""
    inner = [part for part in get_args(annotation) if isinstance(part, type) or get_args(part)]
    if not inner:
        yield annotation
    for part in inner:
        yield from leaves(part)

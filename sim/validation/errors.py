"""What a refusal says: one sentence per problem, with its field, a code and the limit.

Programs react to `code`, `limit` and `field`; the sentence is for people and may change.
"""

import difflib
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

from sim.validation.base_model import leaves

__all__ = ["RefusalError", "ScenarioError", "path_of", "validation_error"]

Location = tuple[int | str, ...]
LIMITS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}
KINDS = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dict_type": "an object",
}
LONGEST = 60  # characters of a found value that are repeated


class RefusalError(ValueError):
    """Input that is refused.

    code   what is wrong, in snake_case: "budget_below_max_num_seqs"
    limit  the bound that the value breaks, in the unit of the field; None where there is none
    field  the key or knob to look at, "" for the whole
    """

    def __init__(
        self, message: str, *, field: str = "", code: str = "invalid", limit: float | None = None
    ) -> None:
        super().__init__(message)
        self.field = field
        self.code = code
        self.limit = limit


class ScenarioError(RefusalError):
    """A scenario that is refused. `problems`: one sentence each; `field`, `code` and `limit` are
    those of the first."""

    def __init__(
        self,
        problems: Sequence[str],
        field: str = "",
        *,
        code: str = "invalid",
        limit: float | None = None,
    ) -> None:
        super().__init__("; ".join(problems), field=field, code=code, limit=limit)
        self.problems = tuple(problems)


def path_of(location: Location) -> str:
    """`("replicas", 0, "policy")` as `replicas[0].policy`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "the scenario"


def real_location(data: Any, location: Location) -> tuple[Location, Any]:
    """The location without the tags that pydantic inserts for unions, and the value there."""
    kept: list[int | str] = []
    for k, part in enumerate(location):
        is_key = isinstance(data, dict) and part in data
        is_index = isinstance(data, list | tuple) and isinstance(part, int) and part < len(data)
        if is_key or is_index:
            data = data[part]
        elif k < len(location) - 1 or not isinstance(data, dict):
            continue
        else:
            data = None
        kept.append(part)
    return tuple(kept), data


def shown(value: Any) -> str:
    """A found value, shortened."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if value is None:
        return "null"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."


def discriminated(models: Sequence[type[BaseModel]], data: Any) -> type[BaseModel] | None:
    """The one of several models whose literal field (`engine`, `kind`) has the value of `data`."""
    if len(models) == 1:
        return models[0]
    for model in models:
        for name, field in model.model_fields.items():
            literal = get_origin(field.annotation) is Literal and isinstance(data, dict)
            if literal and data.get(name) in get_args(field.annotation):
                return model
    return None


def model_at(model: type[BaseModel], data: Any, location: Location) -> type[BaseModel] | None:
    """The model that the object at `location` is read as; None where that is not certain."""
    found: type[BaseModel] | None = model
    for part in location:
        data = data[part]
        if isinstance(part, int) or found is None:
            continue
        field = found.model_fields.get(part)
        kinds = [] if field is None else list(leaves(field.annotation))
        models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        item = data[0] if isinstance(data, list | tuple) and data else data
        found = discriminated(models, item) if models else None
    return found


def unknown_key(key: str, model: type[BaseModel] | None) -> tuple[str, str]:
    """(code, sentence) for a key that `model` does not have: not modelled, with the reason, or
    unknown, with the nearest key of the same model."""
    why: str | None = getattr(model, "not_modelled", {}).get(key)
    if why is not None:
        return "not_modelled", f"not modelled: {why}"
    names = [] if model is None else sorted(model.model_fields)
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.7)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return "unknown_key", f"unknown key{hint}"


def code_and_limit(error: Any, data: Any, model: type[BaseModel]) -> tuple[str, float | None]:
    """What a program may react to: pydantic's own kind, and the bound where there is one."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        location = real_location(data, error["loc"])[0]
        return unknown_key(str(location[-1]), model_at(model, data, location[:-1]))[0], None
    if kind in LIMITS:
        return kind, float(context[LIMITS[kind][1]])
    return kind, None


def sentence(error: Any, data: Any, model: type[BaseModel]) -> str:
    """One entry of ValidationError.errors() in words."""
    kind, context = error["type"], error.get("ctx", {})
    location, found = real_location(data, error["loc"])
    where = path_of(location)
    if kind == "missing":
        return f"{where} is missing"
    if kind == "extra_forbidden":
        owner = model_at(model, data, location[:-1])
        return f"{where}: {unknown_key(str(location[-1]), owner)[1]}"
    if kind == "union_tag_not_found":
        return f"{where}: {context['discriminator'].strip(chr(39))} is missing"
    if kind == "union_tag_invalid":
        tag = context["discriminator"].strip("'")
        return f"{where}.{tag}: found {context['tag']!r}; allowed: {context['expected_tags']}"
    if kind in LIMITS:
        words, key = LIMITS[kind]
        return f"{where}: found {shown(found)}; must be {words} {context[key]:g}"
    if kind == "literal_error":
        return f"{where}: found {shown(found)}; allowed: {context['expected']}"
    if kind in KINDS:
        return f"{where}: found {shown(found)}; must be {KINDS[kind]}"
    if kind in ("too_short", "string_too_short"):
        return f"{where}: found {shown(found)}; must not be empty"
    if kind == "too_long":
        return f"{where}: found {shown(found)}; at most {context['max_length']} are allowed"
    if kind == "number_as_text":
        where = path_of(real_location(data, (*error["loc"], context["key"]))[0])
        wanted = "a whole number" if context["whole"] else "a number"
        return f"{where}: found {shown(context['found'])}; must be {wanted}"
    if kind == "value_error":
        return f"{where}: {context['error']}"
    return f"{where}: found {shown(found)}; {error['msg'][0].lower()}{error['msg'][1:]}"


def entries_of(error: ValidationError) -> list[Any]:
    """The errors without duplicates: pydantic also reports a list as empty when its only element is
    refused."""
    entries = error.errors(include_url=False)
    inner = {entry["loc"][:k] for entry in entries for k in range(1, len(entry["loc"]))}
    return [entry for entry in entries if entry["loc"] not in inner]


def validation_error(error: ValidationError, data: Any, model: type[BaseModel]) -> ScenarioError:
    """Every problem that pydantic found in `data`, in the order of the file."""
    entries = entries_of(error)
    problems = list(dict.fromkeys(sentence(entry, data, model) for entry in entries))
    code, limit = code_and_limit(entries[0], data, model)
    field = path_of(real_location(data, entries[0]["loc"])[0])
    return ScenarioError(problems, field, code=code, limit=limit)

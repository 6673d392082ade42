"""A validation error in words: where, what was found, what is allowed. One sentence a problem."""

import difflib
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

__all__ = ["ScenarioError", "complaints", "path_of"]

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


class ScenarioError(ValueError):
    """A scenario that is refused. `problems`: one sentence each; `field`: path of the first."""

    def __init__(self, problems: Sequence[str], field: str = "") -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)
        self.field = field


def path_of(location: Location) -> str:
    """`("replicas", 0, "policy")` as `replicas[0].policy`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "the scenario"


def real_location(data: Any, location: Location) -> tuple[Location, Any]:
    """The location without the tags that pydantic puts in for unions, and what stands there."""
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


def field_names(model: type[BaseModel]) -> Iterator[str]:
    """Every key that a scenario may hold anywhere, from the JSON schema."""
    schema = model.model_json_schema()
    for definition in (schema, *schema.get("$defs", {}).values()):
        yield from definition.get("properties", {})


def unknown_key(key: str, model: type[BaseModel]) -> str:
    near = difflib.get_close_matches(key, sorted(set(field_names(model))), n=1, cutoff=0.7)
    hint = f"; did you mean {near[0]!r}?" if near and near[0] != key else ""
    return f"this key is not known here{hint}"


def sentence(error: Any, data: Any, model: type[BaseModel]) -> str:
    """One entry of ValidationError.errors() in words."""
    kind, context = error["type"], error.get("ctx", {})
    location, found = real_location(data, error["loc"])
    where = path_of(location)
    if kind == "missing":
        return f"{where} is missing"
    if kind == "extra_forbidden":
        return f"{where}: {unknown_key(str(location[-1]), model)}"
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
    """What pydantic found, without its echoes: a list whose only element is refused is also
    reported as empty."""
    entries = error.errors(include_url=False)
    inner = {entry["loc"][:k] for entry in entries for k in range(1, len(entry["loc"]))}
    return [entry for entry in entries if entry["loc"] not in inner]


def complaints(error: ValidationError, data: Any, model: type[BaseModel]) -> ScenarioError:
    """Everything wrong with `data`, in the order of the file."""
    entries = entries_of(error)
    problems = list(dict.fromkeys(sentence(entry, data, model) for entry in entries))
    return ScenarioError(problems, path_of(real_location(data, entries[0]["loc"])[0]))

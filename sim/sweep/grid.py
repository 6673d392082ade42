"""The grid of a sweep: which fields of a scenario take which values.

An axis is written `NAME=VALUE,VALUE,...`. A bare NAME is a knob, in every replica whose engine has
it; otherwise a path in the scenario file, such as `workload.classes[0].arrivals.rate_per_s`,
`replicas[*].tp`, `slo.itl_s`. A value is JSON where it parses as JSON, else text; a JSON list
gives values with commas: `replicas[0].latency=[{"kind": "roofline"}, {"kind": "linear"}]`.
"""

import copy
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from sim.hardware import catalog
from sim.scenario.load import Scenario, parse_scenario
from sim.scenario.spec import Disaggregation, Link, Slo
from sim.validation.errors import (
    Location,
    ScenarioError,
    entries_of,
    path_of,
    real_location,
    sentence,
)
from sim.workload.spec import WorkloadSpec

__all__ = ["MAX_SETTINGS", "Axis", "Setting", "axis_of", "parse_axis", "settings_of"]

MAX_SETTINGS = 20_000
SHOWN_NAMES = 40
PART = re.compile(r"\.?([A-Za-z_]\w*)|\[(\d+|\*)\]")
# Keys that are null in most scenarios and can still be swept: the object to start from.
ABSENT: dict[str, type[BaseModel]] = {"link": Link, "disaggregation": Disaggregation, "slo": Slo}
NAMED: dict[str, Callable[[str], Any]] = {
    "model": catalog.model,
    "gpu": catalog.gpu,
    "host_link": catalog.link,
    "precision": catalog.precision,
    "kv_cache_dtype": catalog.kv_element_bytes,
}


@dataclass(frozen=True)
class Axis:
    """One dimension of a grid. `places`: the fields that take a value, as keys and indices."""

    name: str
    places: tuple[Location, ...]
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Setting:
    """One point of the grid. `scenario` is None where the values are refused: `refused`
    says why."""

    index: int  # in grid order: the last axis runs fastest
    values: tuple[Any, ...]
    scenario: Scenario | None
    refused: str | None = None


# --- reading --------------------------------------------------------------------------------------


def parse_axis(base: Scenario, text: str) -> Axis:
    """`NAME=VALUE,...` as an axis over `base`. ScenarioError says what is allowed."""
    name, equals, values = text.partition("=")
    if not equals or not name.strip() or not values.strip():
        raise ScenarioError([f"found {text!r}; a grid is written NAME=VALUE,VALUE,..."])
    return axis_of(base, name.strip(), values_of(name.strip(), values.strip()))


def values_of(name: str, text: str) -> list[Any]:
    """The values of an axis: a JSON list, or parts between commas."""
    if text.startswith("["):
        try:
            values = json.loads(text)
        except ValueError as error:
            raise ScenarioError([f"{name}: not a JSON list: {error}"], name) from None
        return list(values)
    return [value_of(name, part.strip()) for part in text.split(",")]


def value_of(name: str, text: str) -> Any:
    if not text:
        raise ScenarioError([f"{name}: an empty value; write null for a derived one"], name)
    try:
        return json.loads(text)
    except ValueError:
        return text


def axis_of(base: Scenario, name: str, values: Sequence[Any]) -> Axis:
    """The axis on which the field `name` takes `values`, each checked alone on `base`.

    ScenarioError for an unknown field or a value that it cannot hold. Values that only another
    field or the engine forbids are shown as refused by the sweep."""
    if not values:
        raise ScenarioError([f"{name}: no values"], name)
    for k, value in enumerate(values):
        if value in values[:k]:
            raise ScenarioError([f"{name}: {value!r} is given twice"], name)
    data = data_of(base)
    axis = Axis(name, tuple(places_of(data, name)), tuple(values))
    for value in axis.values:
        check_value(data, axis, value)
    return axis


def data_of(base: Scenario) -> dict[str, Any]:
    """The scenario file with every possible key, including null ones."""
    data: dict[str, Any] = base.model_dump(mode="json")
    if base.workload.file is not None:
        fields = (name for name in WorkloadSpec.model_fields if name != "classes")
        data["workload"] = dict.fromkeys(fields) | data["workload"]
    return data


def places_of(data: dict[str, Any], name: str) -> list[Location]:
    """The places in the scenario that a name or a path points to."""
    if name.isidentifier():
        found: list[Location] = [
            ("replicas", k, "policy", name)
            for k, replica in enumerate(data["replicas"])
            if name in replica["policy"]
        ]
        if found or name in data:
            return found or [(name,)]
        engines = {replica["policy"]["engine"]: replica["policy"] for replica in data["replicas"]}
        allowed = [knob for policy in engines.values() for knob in policy]
        raise ScenarioError(
            [f"{name} is not a knob of {', '.join(engines)}; {known(allowed)}; or a path"], name
        )
    parts = PART.findall(name)
    if "".join(f"[{index}]" if index else f".{key}" for key, index in parts) != f".{name}":
        raise ScenarioError([f"{name!r} is not a path such as replicas[0].policy.NAME"], name)
    return list(walk(data, [index or key for key, index in parts], ()))


def walk(node: Any, parts: list[str], place: Location) -> Iterator[Location]:
    """Every place that the rest of a path, `parts`, reaches from `node`."""
    if not parts:
        yield place
        return
    part, rest = parts[0], parts[1:]
    where = path_of(place)
    if len(place) == 1 and node is None and place[0] in ABSENT:
        node = ABSENT[str(place[0])]().model_dump(mode="json")
    if isinstance(node, dict):
        if part not in node:
            raise ScenarioError([f"{where} has no {part}; {known(list(node))}"], where)
        yield from walk(node[part], rest, (*place, part))
    elif isinstance(node, list):
        if part != "*" and (not part.isdigit() or int(part) >= len(node)):
            raise ScenarioError(
                [f"{where} has no {part}; allowed: [0] to [{len(node) - 1}], [*]"], where
            )
        for k in range(len(node)) if part == "*" else [int(part)]:
            yield from walk(node[k], rest, (*place, k))
    else:
        raise ScenarioError([f"{where} has no parts, so no {part}"], where)


def known(names: list[str]) -> str:
    """The allowed names, in one line."""
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return f"allowed: {', '.join(names[:SHOWN_NAMES])}{more}"


def check_value(base: dict[str, Any], axis: Axis, value: Any) -> None:
    """Refuse a value that the scenario file cannot hold at the places of the axis."""
    data = with_values(base, [axis], [value])
    try:
        Scenario.model_validate(data)
    except ValidationError as error:
        for entry in entries_of(error):
            location, _ = real_location(data, entry["loc"])
            own = any(
                location == place[: len(location)] or place == location[: len(place)]
                for place in axis.places
            )
            if own and entry["type"] not in ("value_error", "missing"):
                raise ScenarioError([sentence(entry, data, Scenario)], axis.name) from None
    for place in axis.places:
        look_up = NAMED.get(str(place[-1])) if place[0] == "replicas" and len(place) == 3 else None
        if look_up is None and place == ("link", "kind"):
            look_up = catalog.link
        if look_up is not None and value is not None:
            try:
                look_up(value)
            except ValueError as error:
                raise ScenarioError([f"{path_of(place)}: {error}"], axis.name) from None


# --- settings -------------------------------------------------------------------------------------


def with_values(
    base: dict[str, Any], axes: Sequence[Axis], values: Sequence[Any]
) -> dict[str, Any]:
    """A copy of the data of a scenario with one value of each axis."""
    data = copy.deepcopy(base)
    for axis, value in zip(axes, values, strict=True):
        for place in axis.places:
            head = str(place[0])
            if len(place) > 1 and data[head] is None:
                data[head] = ABSENT[head]().model_dump(mode="json")
            node: Any = data
            for part in place[:-1]:
                node = node[part]
            node[place[-1]] = copy.deepcopy(value)
    return data


def settings_of(base: Scenario, axes: Sequence[Axis]) -> list[Setting]:
    """Every point of the grid, the last axis fastest. ScenarioError for a field that two axes set,
    and for a grid of more than MAX_SETTINGS points."""
    taken: dict[Location, str] = {}
    for axis in axes:
        for place in axis.places:
            if place in taken:
                raise ScenarioError(
                    [f"{path_of(place)} is set by two axes: {taken[place]} and {axis.name}"],
                    axis.name,
                )
            taken[place] = axis.name
    total = math.prod(len(axis.values) for axis in axes)
    if total > MAX_SETTINGS:
        raise ScenarioError([f"the grid has {total:,} settings; at most {MAX_SETTINGS:,}"])
    data = data_of(base)
    points = itertools.product(*(axis.values for axis in axes))
    return [setting(data, axes, index, values) for index, values in enumerate(points)]


def setting(
    base: dict[str, Any], axes: Sequence[Axis], index: int, values: tuple[Any, ...]
) -> Setting:
    try:
        return Setting(index, values, parse_scenario(with_values(base, axes, values)))
    except ScenarioError as error:
        return Setting(index, values, None, str(error))

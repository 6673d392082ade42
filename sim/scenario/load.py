"""A scenario: all settings of a run, in one frozen, validated object.

It is the state of a page, the input of the command line, the cache key and the caption of an
export; a run is reproducible from it. `load_scenario` and `parse_scenario` read one, `resolve`
derives null values and refuses configurations that the engine refuses. All raise ScenarioError.
Units: s, bytes, tokens.
"""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from sim.cluster.topology import Topology
from sim.latency import model as latency_model
from sim.scenario.resolve import ResolvedReplica, resolve_replica
from sim.scenario.resolve_topology import check_roles, fleet_of
from sim.scenario.spec import Limits, Replica, Scenario, Slo
from sim.validation.errors import ScenarioError, validation_error

__all__ = [
    "Limits",
    "Replica",
    "Resolved",
    "Scenario",
    "ScenarioError",
    "Slo",
    "load_scenario",
    "parse_scenario",
    "resolve",
]


def parse_scenario(data: Any) -> Scenario:
    """A scenario from parsed JSON or TOML. ScenarioError: one sentence per problem."""
    try:
        return Scenario.model_validate(data)
    except ValidationError as error:
        raise validation_error(error, data, Scenario) from None


def load_scenario(path: str | Path) -> Scenario:
    """A scenario from a .json or .toml file. ScenarioError names the file, and line and column
    where the file does not parse."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
        data = tomllib.loads(text) if path.suffix.lower() == ".toml" else json.loads(text)
        return parse_scenario(data)
    except OSError as error:
        raise ScenarioError([f"{path}: {(error.strerror or str(error)).lower()}"]) from None
    except UnicodeDecodeError as error:
        raise ScenarioError([f"{path}: not UTF-8 text at byte {error.start}"]) from None
    except RecursionError:
        raise ScenarioError([f"{path}: nested too deeply"]) from None
    except ScenarioError as error:
        problems = [f"{path}: {problem}" for problem in error.problems]
        raise ScenarioError(problems, error.field, code=error.code, limit=error.limit) from None
    except ValueError as error:
        kind = "TOML" if path.suffix.lower() == ".toml" else "JSON"
        raise ScenarioError([f"{path}: not {kind}: {error}"]) from None


# --- filled in ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Resolved:
    """A scenario that can run. `replicas`, `policy` and `latency` have one entry per server."""

    scenario: Scenario
    replicas: tuple[ResolvedReplica, ...]
    policy: np.recarray[Any, Any]
    latency: np.recarray[Any, Any]
    notes: tuple[str, ...]  # notes for the reader, not errors
    topology: Topology


def resolve(scenario: Scenario) -> Resolved:
    """Derive null values and look up names. ScenarioError where the engine refuses to start."""
    check_roles(scenario)
    kinds = [
        resolve_replica(replica, f"replicas[{k}]") for k, replica in enumerate(scenario.replicas)
    ]
    replicas = tuple(kind for kind in kinds for _ in range(kind.replica.count))
    rows = [replica.row for replica in replicas]
    return Resolved(
        scenario=scenario,
        replicas=replicas,
        policy=np.array(rows, rows[0].dtype).view(np.recarray),
        latency=np.array([replica.latency for replica in replicas], latency_model.LATENCY).view(
            np.recarray
        ),
        notes=derived_notes(kinds),
        topology=fleet_of(scenario, replicas),
    )


def derived_notes(kinds: Sequence[ResolvedReplica]) -> tuple[str, ...]:
    """The derived values of each kind of replica."""
    notes = []
    for k, kind in enumerate(kinds):
        if kind.derived:
            where = f" for replicas[{k}]" if len(kinds) > 1 else ""
            values = ", ".join(f"{name} = {getattr(kind.knobs, name)}" for name in kind.derived)
            notes.append(f"derived{where}: {values}")
    return tuple(notes)

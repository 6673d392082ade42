"""A scenario: everything a run is made of, in one frozen, validated object.

It is the state of a page, the input of the command line, the cache key and the caption of an
export; a run is reproducible from it. `load_scenario` and `parse_scenario` read one, `resolve`
fills in what is null and refuses what the engine refuses to start with. All raise ScenarioError
in words. Units: s, bytes, tokens.
"""

import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from sim import catalog, latency, latency_rows, memory, profiles
from sim.complaints import ScenarioError, complaints
from sim.efficiency import efficiency
from sim.fleet import Fleet
from sim.fleet_spec import check_roles, fleet_of
from sim.knobs import Hardware, Knobs, SettingsError, VllmV0
from sim.model_config import model_of
from sim.scenario_spec import Limits, Linear, Measured, Replica, Roofline, Scenario, Slo

__all__ = [
    "Limits",
    "Replica",
    "Resolved",
    "ResolvedReplica",
    "Scenario",
    "ScenarioError",
    "Slo",
    "free_fraction",
    "load_scenario",
    "parse_scenario",
    "resolve",
]


def parse_scenario(data: Any) -> Scenario:
    """A scenario from parsed JSON or TOML. ScenarioError: one sentence a problem."""
    try:
        return Scenario.model_validate(data)
    except ValidationError as error:
        raise complaints(error, data, Scenario) from None


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
        raise ScenarioError(problems, error.field) from None
    except ValueError as error:
        kind = "TOML" if path.suffix.lower() == ".toml" else "JSON"
        raise ScenarioError([f"{path}: not {kind}: {error}"]) from None


# --- filled in ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ResolvedReplica:
    """A replica with every number filled in. `derived`: names of the knobs that were null;
    `profile`: where its step times were measured, None for a model of them."""

    replica: Replica
    model: catalog.Model | None
    gpu: catalog.Gpu | None
    precision: str
    host_link: catalog.Link | None
    knobs: Knobs
    derived: tuple[str, ...]
    pool: memory.KvPool | None
    row: Any  # a row of state.POLICY
    latency: Any  # a row of latency.LATENCY
    expected_error: float | None  # mean absolute relative error of a step time, None if unknown
    profile: profiles.Profile | None = None

    @property
    def num_gpu_blocks(self) -> int:
        """KV blocks, the null block that no request gets included, whatever the engine calls
        them."""
        return int(self.row.num_gpu_blocks)


@dataclass(frozen=True, eq=False)
class Resolved:
    """A scenario that can run. `replicas`, `policy` and `latency` have one entry a server."""

    scenario: Scenario
    replicas: tuple[ResolvedReplica, ...]
    policy: np.recarray[Any, Any]
    latency: np.recarray[Any, Any]
    notes: tuple[str, ...]  # what a reader should know and is no error
    fleet: Fleet


def resolve(scenario: Scenario) -> Resolved:
    """Fill in what is null and look everything up. ScenarioError where the engine would refuse."""
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
        latency=np.array([replica.latency for replica in replicas], latency.LATENCY).view(
            np.recarray
        ),
        notes=derived_notes(kinds),
        fleet=fleet_of(scenario, replicas),
    )


def resolve_replica(replica: Replica, where: str) -> ResolvedReplica:
    """Look up names, derive knobs, set the latency row."""
    profile = profile_of(replica, where)
    model = named(model_of, replica.model, f"{where}.model")
    if profile is not None:
        model = measured_model(profile, model, where)
    gpu = named(catalog.gpu, replica.gpu, f"{where}.gpu")
    is_roofline = isinstance(replica.latency, Roofline)
    for field, value in (("model", model), ("gpu", gpu)):
        if value is None and is_roofline:
            raise ScenarioError(
                [f"{where}.{field} is missing: a roofline needs it"], f"{where}.{field}"
            )
    precision = named(catalog.precision, replica.precision, f"{where}.precision") or "bf16"
    named(latency_rows.kv_element_bytes, replica.kv_cache_dtype, f"{where}.kv_cache_dtype")
    if model is not None and model.num_heads % replica.tp:
        raise ScenarioError(
            [
                f"{where}.tp: the {model.num_heads} attention heads of {model.name} cannot be "
                f"divided by tp {replica.tp}"
            ],
            f"{where}.tp",
        )
    link_name = replica.host_link or (gpu.host_link if gpu else None)
    host_link = named(catalog.link, link_name, f"{where}.host_link")
    hardware = Hardware(
        model,
        gpu,
        precision,
        replica.tp,
        replica.kv_cache_dtype,
        replica.gpu_memory_utilization,
        free_fraction(replica),
    )
    try:
        times, expected_error = latency_row(replica, hardware, profile)
        knobs, derived, pool = replica.policy.fill(hardware)
    except SettingsError as error:
        place = where if error.field in Replica.model_fields else f"{where}.policy"
        field = replica.policy.called.get(error.field, error.field)
        words = replica.policy.in_its_words(str(error))
        raise ScenarioError([f"{place}: {words}"], f"{place}.{field}") from None
    row = knobs.row()
    if isinstance(knobs, VllmV0) and row.num_host_blocks > 0:
        if host_link is None:
            raise ScenarioError(
                [f"{where}.host_link is missing: a swap goes over it"], f"{where}.host_link"
            )
        latency_rows.set_swap(times, knobs.block_bytes(hardware), host_link)
    return ResolvedReplica(
        replica,
        model,
        gpu,
        precision,
        host_link,
        knobs,
        derived,
        pool,
        row,
        times,
        expected_error,
        profile,
    )


def profile_of(replica: Replica, where: str) -> profiles.Profile | None:
    """The measured profile that the step times come from, None for another kind."""
    if not isinstance(replica.latency, Measured):
        return None
    found: profiles.Profile = named(
        profiles.load, replica.latency.profile, f"{where}.latency.profile"
    )
    return found


def measured_model(
    profile: profiles.Profile, asked: catalog.Model | None, where: str
) -> catalog.Model | None:
    """The model that a profile was measured with, None where the catalogue does not know it. The
    step times of one model say nothing of another."""
    try:
        own = catalog.model(profile.model)
    except ValueError:
        own = None
    if asked is not None and asked != own:
        raise ScenarioError(
            [
                f"{where}.model: the profile {profile.name!r} was measured with {profile.model}, "
                f"not with {asked.name}; leave model out"
            ],
            f"{where}.model",
        )
    return own


def free_fraction(replica: Replica) -> float | None:
    """The share of free memory that goes to KV, None where the engine counts the whole memory."""
    if replica.policy.engine != "tensorrt_llm":
        return None
    default = memory.engine_default("tensorrt_llm", "free_gpu_memory_fraction")
    return replica.free_gpu_memory_fraction or float(default)


def named(look_up: Callable[[Any], Any], name: Any, field: str) -> Any:
    """An entry of the catalogue, None for no name."""
    if name is None:
        return None
    try:
        return look_up(name)
    except ValueError as error:
        raise ScenarioError([f"{field}: {error}"], field) from None


def latency_row(
    replica: Replica, hardware: Hardware, profile: profiles.Profile | None
) -> tuple[Any, float | None]:
    """The row of latency.LATENCY, and the error to expect of it."""
    model, gpu = hardware.model, hardware.gpu
    if not isinstance(replica.latency, Roofline):
        if isinstance(replica.latency, Linear):
            toy = replica.latency
            row = latency.linear(toy.step_s, toy.prefill_token_s, toy.decode_s)
        else:
            assert profile is not None
            row = latency.measured(profile.coefficients.model_dump())
        if model is not None and gpu is not None:
            kv_bytes = latency_rows.kv_element_bytes(hardware.kv_cache_dtype)
            latency_rows.set_work(row, model, hardware.precision, hardware.tp, kv_bytes)
            row.peak_flops = gpu.peak_flops.get(hardware.precision, gpu.peak_flops["bf16"])
            row.bandwidth = gpu.bandwidth
        return row, None if profile is None else profile.mape
    assert model is not None
    assert gpu is not None
    try:
        row = latency_rows.roofline(
            model, gpu, hardware.precision, hardware.tp, hardware.kv_cache_dtype
        )
    except ValueError as error:
        raise SettingsError("precision", str(error)) from None
    known = efficiency(gpu.name, hardware.precision)
    return row, known.left_out_error or known.mean_error


def derived_notes(kinds: Sequence[ResolvedReplica]) -> tuple[str, ...]:
    """The values that were derived, of each kind of replica."""
    notes = []
    for k, kind in enumerate(kinds):
        if kind.derived:
            where = f" for replicas[{k}]" if len(kinds) > 1 else ""
            values = ", ".join(f"{name} = {getattr(kind.knobs, name)}" for name in kind.derived)
            notes.append(f"derived{where}: {values}")
    return tuple(notes)

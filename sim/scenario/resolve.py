"""Resolve one replica of a scenario: look up names in the catalogue, derive null knobs, set the
step times. A configuration that the engine refuses to start with is a ScenarioError that names the
field. Units: s, bytes, tokens."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sim.engines.knobs.hardware import Hardware, SettingsError
from sim.engines.knobs.vllm_v0 import VllmV0
from sim.engines.registry import Knobs, engine_spec
from sim.hardware import catalog, kv_pool_size
from sim.latency import inputs as latency_inputs
from sim.latency import model as latency_model
from sim.latency import profiles
from sim.latency.efficiency import efficiency
from sim.scenario.model_config import model_of
from sim.scenario.spec import Linear, Measured, Replica, Roofline
from sim.validation.errors import ScenarioError

__all__ = ["ResolvedReplica", "free_fraction", "resolve_replica"]


@dataclass(frozen=True, eq=False)
class ResolvedReplica:
    """A replica with all values set. `derived`: names of the knobs that were null; `profile`: the
    measured profile of its step times, None for a latency model."""

    replica: Replica
    model: catalog.Model | None
    gpu: catalog.Gpu | None
    precision: str
    host_link: catalog.Link | None
    knobs: Knobs
    derived: tuple[str, ...]
    pool: kv_pool_size.KvPool | None
    row: Any  # a row of state.POLICY
    latency: Any  # a row of latency.LATENCY
    expected_error: float | None  # mean absolute relative error of a step time, None if unknown
    profile: profiles.Profile | None = None

    @property
    def num_gpu_blocks(self) -> int:
        """KV blocks, including the null block, under any engine."""
        return int(self.row.num_gpu_blocks)


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
                [f"{where}.{field} is missing: a roofline needs it"],
                f"{where}.{field}",
                code="missing",
            )
    precision = named(catalog.precision, replica.precision, f"{where}.precision") or "bf16"
    named(catalog.kv_element_bytes, replica.kv_cache_dtype, f"{where}.kv_cache_dtype")
    if model is not None and model.num_heads % replica.tp:
        raise ScenarioError(
            [
                f"{where}.tp: the {model.num_heads} attention heads of {model.name} cannot be "
                f"divided by tp {replica.tp}"
            ],
            f"{where}.tp",
            code="heads_not_divisible_by_tp",
            limit=model.num_heads,
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
        raise ScenarioError(
            [f"{place}: {words}"], f"{place}.{field}", code=error.code, limit=error.limit
        ) from None
    row = knobs.row()
    if isinstance(knobs, VllmV0) and row.num_host_blocks > 0:
        if host_link is None:
            raise ScenarioError(
                [f"{where}.host_link is missing: KV is swapped over it"],
                f"{where}.host_link",
                code="missing",
            )
        latency_inputs.set_swap(times, knobs.block_bytes(hardware), host_link)
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
    """The measured profile of the step times, None for another latency model."""
    if not isinstance(replica.latency, Measured):
        return None
    found: profiles.Profile = named(
        profiles.load, replica.latency.profile, f"{where}.latency.profile"
    )
    return found


def measured_model(
    profile: profiles.Profile, asked: catalog.Model | None, where: str
) -> catalog.Model | None:
    """The model that a profile was measured with, None where it is not in the catalogue. Another
    model in the scenario is refused."""
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
            code="profile_of_another_model",
        )
    return own


def free_fraction(replica: Replica) -> float | None:
    """The share of free memory that goes to KV, None where the engine counts the whole memory."""
    engine, knob = replica.policy.engine, "free_gpu_memory_fraction"
    if engine_spec(engine).memory_share_knob != knob:
        return None
    default = kv_pool_size.engine_default(engine, knob)
    return replica.free_gpu_memory_fraction or float(default)


def named(look_up: Callable[[Any], Any], name: Any, field: str) -> Any:
    """An entry of the catalogue, None where no name is given."""
    if name is None:
        return None
    try:
        return look_up(name)
    except ValueError as error:
        raise ScenarioError([f"{field}: {error}"], field, code="unknown_name") from None


def latency_row(
    replica: Replica, hardware: Hardware, profile: profiles.Profile | None
) -> tuple[Any, float | None]:
    """The LATENCY row, and the expected error of a step time."""
    model, gpu = hardware.model, hardware.gpu
    if not isinstance(replica.latency, Roofline):
        if isinstance(replica.latency, Linear):
            toy = replica.latency
            row = latency_model.linear(toy.step_s, toy.prefill_token_s, toy.decode_s)
        else:
            assert profile is not None
            row = latency_model.measured(profile.coefficients.model_dump())
        if model is not None and gpu is not None:
            kv_bytes = catalog.kv_element_bytes(hardware.kv_cache_dtype)
            latency_inputs.set_work(row, model, hardware.precision, hardware.tp, kv_bytes)
            row.peak_flops = gpu.peak_flops.get(hardware.precision, gpu.peak_flops["bf16"])
            row.bandwidth = gpu.bandwidth
        return row, None if profile is None else profile.mape
    assert model is not None
    assert gpu is not None
    try:
        row = latency_inputs.roofline(
            model, gpu, hardware.precision, hardware.tp, hardware.kv_cache_dtype
        )
    except ValueError as error:
        raise SettingsError(str(error), field="precision", code="precision_not_supported") from None
    known = efficiency(gpu.name, hardware.precision)
    return row, known.left_out_error or known.mean_error

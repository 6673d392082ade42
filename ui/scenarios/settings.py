"""What a reader may change in a scenario, as one frozen value: read from a scenario, put back into
one."""

from dataclasses import dataclass
from typing import Any

from sim.engines.knobs.base import EngineKnobs
from sim.engines.knobs.vllm_v1 import VllmV1
from sim.scenario.load import Scenario, parse_scenario
from sim.scenario.model_config import DescribedModel
from ui.scenarios import gpu_choice

DEFAULT_ITL_LIMIT_S = 0.05


@dataclass(frozen=True)
class Settings:
    """Everything under "More settings". None stands for auto: the engine derives it.

    `gpu` is a machine of ui.machines: a GPU, or a measured profile, which brings its own model.

    `rate_per_s` is that of the first class which has one, `time_scale` stretches the times of a
    file; both are None where they do not apply.
    """

    model: str | DescribedModel | None
    gpu: str | None
    chunking: bool
    max_num_seqs: int | None
    max_model_len: int | None
    num_gpu_blocks: int | None
    prefix_caching: bool
    rate_per_s: float | None
    time_scale: float | None
    seed: int
    itl_limit_s: float


def vllm_v1(knobs: EngineKnobs) -> VllmV1:
    """The knobs of a server that is known to run vLLM V1, as all presets of these pages do."""
    if not isinstance(knobs, VllmV1):
        raise TypeError(f"a vLLM V1 server is wanted, not {knobs.engine}")
    return knobs


def settings_of(scenario: Scenario) -> Settings:
    """The settings that a scenario has."""
    replica = scenario.replicas[0]
    policy = vllm_v1(replica.policy)
    from_file = scenario.workload.file is not None
    return Settings(
        model=replica.model,
        gpu=gpu_choice.machine_of(replica),
        chunking=policy.enable_chunked_prefill,
        max_num_seqs=policy.max_num_seqs,
        max_model_len=policy.max_model_len,
        num_gpu_blocks=policy.num_gpu_blocks,
        prefix_caching=policy.enable_prefix_caching,
        rate_per_s=first_rate(scenario),
        time_scale=scenario.workload.time_scale if from_file else None,
        seed=scenario.seed,
        itl_limit_s=itl_limit_s(scenario),
    )


def first_rate(scenario: Scenario) -> float | None:
    """Requests per second of the first class that has a rate."""
    for spec in scenario.workload.classes or ():
        rate = getattr(spec.arrivals, "rate_per_s", None)
        if rate is not None:
            return float(rate)
    return None


def itl_limit_s(scenario: Scenario) -> float:
    """The reader's limit for a gap between two tokens."""
    slo = scenario.slo
    return slo.itl_s if slo is not None and slo.itl_s is not None else DEFAULT_ITL_LIMIT_S


def apply(scenario: Scenario, settings: Settings, budget: int, cap: int) -> Scenario:
    """The scenario with the settings and the two dials put in. ScenarioError for an impossible
    value."""
    data: dict[str, Any] = scenario.model_dump(mode="json")
    replica = data["replicas"][0]
    replica |= gpu_choice.replica_fields(written(settings.model), settings.gpu, replica["latency"])
    replica["policy"] |= {
        "max_num_batched_tokens": budget,
        "long_prefill_token_threshold": cap,
        "enable_chunked_prefill": settings.chunking,
        "max_num_seqs": settings.max_num_seqs,
        "max_model_len": settings.max_model_len,
        "num_gpu_blocks": settings.num_gpu_blocks,
        "enable_prefix_caching": settings.prefix_caching,
    }
    data["seed"] = settings.seed
    data["slo"] = (data["slo"] or {}) | {"itl_s": settings.itl_limit_s}
    if settings.time_scale is not None:
        data["workload"]["time_scale"] = settings.time_scale
    for spec in data["workload"].get("classes", ()):
        if settings.rate_per_s is not None and "rate_per_s" in spec["arrivals"]:
            spec["arrivals"]["rate_per_s"] = settings.rate_per_s
            break
    return parse_scenario(data)


def written(model: str | DescribedModel | None) -> Any:
    """A model as it stands in a scenario file."""
    return model.model_dump(mode="json") if isinstance(model, DescribedModel) else model


def with_file(
    scenario: Scenario, name: str, sha256: str, limit: int, rate_per_s: float | None
) -> Scenario:
    """The same server under the requests of an uploaded file."""
    data = scenario.model_dump(mode="json")
    data["name"] = name
    data["workload"] = {"file": name, "sha256": sha256, "limit": limit, "rate_per_s": rate_per_s}
    data["limits"]["horizon_s"] = None
    return parse_scenario(data)


def refused_below(settings: Settings, max_model_len: int) -> int | None:
    """Budgets below this one are refused by the engine; None when all are taken."""
    limits = [settings.max_num_seqs or 0]
    if not settings.chunking:
        limits.append(max_model_len)
    return max(limits) or None

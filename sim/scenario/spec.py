"""The scenario file: frozen pydantic models with its keys.

The workload is in sim/workload/spec.py, the engines' knobs are in sim/engines/knobs. Units: s,
bytes, tokens. The models check types and ranges; checks that need the catalogue are in resolve.py.
"""

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from sim.engines.registry import Knobs, engine_spec
from sim.scenario.model_config import ModelRef
from sim.validation.base_model import Spec
from sim.workload.spec import Seconds, WorkloadSpec

__all__ = [
    "Disaggregation",
    "Limits",
    "Linear",
    "Link",
    "Measured",
    "Replica",
    "Roofline",
    "Router",
    "Scenario",
    "Slo",
]

VLLM_UTILIZATION = 0.92
Fraction = Annotated[float, Field(gt=0, le=1)]
PositiveSeconds = Annotated[float, Field(gt=0, le=1e9)]


class Roofline(Spec):
    """Step times from GPU and model; see sim/latency/model.py."""

    kind: Literal["roofline"]


class Linear(Spec):
    """The linear toy: seconds per step, per prompt token and per decode."""

    kind: Literal["linear"]
    step_s: Seconds = 0.005
    prefill_token_s: Seconds = 1.2e-5
    decode_s: Seconds = 4e-5


class Measured(Spec):
    """Step times of a measured profile; see sim/latency/profiles.py."""

    kind: Literal["measured"]
    profile: Annotated[str, Field(min_length=1, max_length=60)]


Latency = Annotated[Roofline | Linear | Measured, Field(discriminator="kind")]


class Replica(Spec):
    """`count` equal servers: model, hardware, and the engine with its knobs."""

    count: Annotated[int, Field(ge=1, le=1024)] = 1
    role: Literal["both", "prefill", "decode"] = "both"
    model: ModelRef | None = None  # a name in the catalogue, or {"name", "config"}
    gpu: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    precision: str = "bf16"
    tp: Literal[1, 2, 4, 8] = 1
    kv_cache_dtype: str = "auto"
    gpu_memory_utilization: Fraction = VLLM_UTILIZATION
    free_gpu_memory_fraction: Fraction | None = None  # TensorRT-LLM only; its default is 0.9
    host_link: str | None = None
    latency: Latency = Roofline(kind="roofline")
    policy: Knobs

    @model_validator(mode="after")
    def memory_share(self) -> "Replica":
        """An engine sizes its KV pool by one of the two shares."""
        free = engine_spec(self.policy.engine).memory_share_knob == "free_gpu_memory_fraction"
        if not free and self.free_gpu_memory_fraction is not None:
            raise ValueError(
                "free_gpu_memory_fraction is TensorRT-LLM's; "
                f"{self.policy.engine} takes gpu_memory_utilization"
            )
        if free and self.gpu_memory_utilization != VLLM_UTILIZATION:
            raise ValueError(
                f"{self.policy.engine} takes free_gpu_memory_fraction, a share of the memory that "
                "is free once the model is loaded, in place of gpu_memory_utilization"
            )
        return self


RouterKind = Literal["round_robin", "least_tokens", "shortest_queue", "prefix_aware", "random"]


class Router(Spec):
    """Which replica a request goes to, and which decode replica takes it over."""

    kind: RouterKind = "round_robin"
    decode_kind: RouterKind | Literal["free_kv"] | None = None


class Link(Spec):
    """The link between replicas: by name, or by its numbers."""

    kind: str | None = None
    bandwidth_bytes_per_s: Annotated[float, Field(gt=0)] | None = None
    latency_s: Seconds | None = None
    per_descriptor_s: Seconds | None = None
    handover_s: Seconds | None = None
    streaming: bool = False


class Disaggregation(Spec):
    """Prefill and decode on separate replicas."""

    first_token_from: Literal["decode", "prefill"] = "decode"
    kv_load_failure_policy: Literal["fail", "recompute"] = "fail"
    kv_unused_fraction: Annotated[float, Field(ge=0, le=1)] = 0.0
    load_failure_fraction: Annotated[float, Field(ge=0, le=1)] = 0.0
    kv_store_bytes: Annotated[float, Field(ge=0)] = 0.0
    early_rejection: bool = False


class Slo(Spec):
    """Limits that a request meets or misses; itl_s is compared with its largest gap."""

    ttft_s: PositiveSeconds | None = None
    tpot_s: PositiveSeconds | None = None
    itl_s: PositiveSeconds | None = None
    e2e_s: PositiveSeconds | None = None

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are set."""
        return {name: value for name, value in self if value is not None}


class Limits(Spec):
    """Limits of a run. horizon_s null: no limit in time."""

    horizon_s: PositiveSeconds | None = None
    max_steps: Annotated[int, Field(ge=1, le=100_000_000)] = 1_000_000


def any_version(value: Any) -> Any:
    """Refuse another version of the file, naming the version that is read."""
    if isinstance(value, int) and not isinstance(value, bool) and value != 1:
        raise ValueError(f"found version {value}; this program reads version 1")
    return value


class Scenario(Spec):
    """The scenario file."""

    version: Annotated[Literal[1], BeforeValidator(any_version)] = 1
    name: Annotated[str, Field(max_length=200)] = ""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    workload: WorkloadSpec
    replicas: Annotated[tuple[Replica, ...], Field(min_length=1, max_length=64)]
    router: Router = Router()
    link: Link | None = None
    disaggregation: Disaggregation | None = None
    slo: Slo | None = None
    limits: Limits = Limits()

    def to_json(self) -> str:
        """The file content: every key that is not null."""
        return json.dumps(self.model_dump(mode="json", exclude_none=True), indent=2) + "\n"

    @property
    def digest(self) -> str:
        """sha256 of the content, independent of the layout of the file."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def __hash__(self) -> int:
        return int(self.digest[:15], 16)

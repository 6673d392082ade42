"""A workload under a way to batch: the scenario that runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sim.engines.knobs.base import NO_MODEL_LEN
from sim.engines.knobs.translation import SharedKnobs, knobs_of, shared_knobs
from sim.hardware import catalog
from sim.scenario.load import Scenario, parse_scenario, resolve
from sim.scenario.model_config import DescribedModel, model_of
from ui.scenarios import gpu_choice, presets
from ui.scenarios.settings import written
from ui.scenarios.ways import Value, Way

MOST_SEQS = 256  # to start with, where a scenario leaves it open
ROUTER = {"kind": "least_tokens"}


def starting(way: Way, base: Scenario | None = None) -> dict[str, Value]:
    """The knobs as a preset has them; with `base`, as that scenario has them where it says."""
    found = {knob.name: knob.start for knob in way.knobs}
    if base is None:
        return found
    policy, spec = base.replicas[0].policy, way.spec
    shared = shared_knobs(policy)
    if policy.engine == spec.id:
        own = policy.model_dump()
    else:
        block_size = found.get(spec.block_size) if isinstance(spec.block_size, str) else None
        asked = SharedKnobs(
            budget=shared.budget, length=length_of(base, None),
            block_size=None if block_size is None else int(block_size),
        )  # fmt: skip
        own = knobs_of(asked, spec.id)
    if spec.kv_layout != "padded":  # a padded batch is no limit on the requests of a server
        limit = min(MOST_SEQS, shared.budget or MOST_SEQS)
        own[spec.seqs_knob] = shared.seqs or limit
    return found | {name: own[name] for name in found if own.get(name) is not None}


def length_of(base: Scenario, model: str | DescribedModel | None) -> int:
    """The longest request that all ways get: the scenario's, or the model's own limit."""
    replica = base.replicas[0]
    if length := shared_knobs(replica.policy).length:
        return length
    name = model or replica.model
    return model_of(name).max_model_len if name else NO_MODEL_LEN


def scenario_of(
    preset: str,
    way: Way,
    chosen: Mapping[str, Value],
    model: str | DescribedModel,
    gpu: str,
    tp: int = 1,
    servers: int = 1,
) -> Scenario:
    """A preset's workload under a way. ScenarioError for an impossible value."""
    base = presets.scenario_of(preset)
    runs = gpu_choice.own_model(gpu) or model_of(model)
    length = min(length_of(base, model), runs.max_model_len)
    return under(base, way, chosen, Server(model, gpu, tp, servers), length)


@dataclass(frozen=True)
class Server:
    """What all ways run on: `servers` of `tp` GPUs each. Without model and GPU: the scenario's own,
    or its linear toy."""

    model: str | DescribedModel | None
    gpu: str | None
    tp: int = 1
    servers: int = 1

    def __str__(self) -> str:
        several = f"{self.servers} servers: " if self.servers > 1 else ""
        if self.model is None or self.gpu is None:
            return f"{several}the linear toy's step times"
        if gpu_choice.is_profile(self.gpu):
            return several + "".join(gpu_choice.phrase(None, self.gpu))
        gpu = f"{f'{self.tp} x ' if self.tp > 1 else ''}{catalog.gpu(self.gpu).title}"
        return f"{self.model} on {f'{self.servers} servers of ' if several else ''}{gpu}"


def under(
    base: Scenario, way: Way, chosen: Mapping[str, Value], server: Server, length: int
) -> Scenario:
    """A scenario's workload under a way. ScenarioError for an impossible value.

    All ways get the same room: requests of up to `length` tokens, and the KV memory of the scenario
    (a preset's blocks, else what fits the GPU). No way has a prefix cache.
    """
    data: dict[str, Any] = base.model_dump(mode="json")
    replica, spec = data["replicas"][0], way.spec
    replica |= {"tp": 1 if gpu_choice.is_profile(server.gpu) else server.tp}
    replica |= gpu_choice.replica_fields(written(server.model), server.gpu, replica["latency"])
    replica["count"] = server.servers
    if server.servers > 1:
        data["router"] = ROUTER
    tokens = shared_knobs(base.replicas[0].policy).kv_tokens
    if tokens is None and spec.length_knob is None:
        # without a knob for the length, the engine cannot tell what is left for KV
        room = room_for(data, base, length)
        tokens = min(room, max(1, int(chosen[spec.seqs_knob])) * length)
    block_size = chosen.get(spec.block_size) if isinstance(spec.block_size, str) else None
    shared = SharedKnobs(
        length=length, kv_tokens=tokens, caching=False,
        block_size=None if block_size is None else max(1, int(block_size)),
    )  # fmt: skip
    replica["policy"] = knobs_of(shared, spec.id) | dict(chosen)
    if way.has_pools:
        into_pools(data)
    return parse_scenario(data)


def room_for(data: dict[str, Any], base: Scenario, length: int) -> int:
    """The KV memory that the scenario's own engine has for requests of up to `length` tokens."""
    policy = base.replicas[0].policy
    replica = data["replicas"][0]
    own = replica["policy"] | knobs_of(SharedKnobs(length=length), policy.engine)
    resolved = resolve(parse_scenario(data | {"replicas": [replica | {"policy": own}]}))
    tokens = shared_knobs(resolved.replicas[0].knobs).kv_tokens
    assert tokens is not None  # resolved knobs are complete
    return tokens


def into_pools(data: dict[str, Any]) -> None:
    """Divide the servers into two pools, as the knobs of the way say."""
    replica = data["replicas"][0]
    knobs = replica["policy"]
    pools = {role: knobs.pop(f"{role}_servers") for role in ("prefill", "decode")}
    data["link"] = {"kind": knobs.pop("link"), "streaming": knobs.pop("streaming")}
    data["disaggregation"] = {"first_token_from": knobs.pop("first_token_from")}
    data["router"] = ROUTER | {"decode_kind": "free_kv"}
    data["replicas"] = [replica | {"role": role, "count": n} for role, n in pools.items()]

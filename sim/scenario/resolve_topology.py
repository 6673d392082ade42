"""Resolve how the servers of a scenario are connected: roles, routers, link, KV store.

The KV of a token is 2 x layers x KV heads x head dim x bytes of the KV cache dtype; the link
belongs to a whole server, at any tensor parallelism."""

from collections.abc import Sequence

import numpy as np

from sim.cluster.cluster_state import ROLES, ROUTERS
from sim.cluster.topology import Topology
from sim.engines.registry import engine_spec
from sim.hardware import catalog
from sim.scenario.resolve import ResolvedReplica
from sim.scenario.spec import Link, Scenario
from sim.validation.errors import ScenarioError

MOST_SERVERS = 1024
MOST_BLOCKS = 50_000_000  # of all servers together; each takes 48 bytes of memory here
MOST_STORE_BLOCKS = 4_000_000


def check_roles(scenario: Scenario) -> None:
    """Refuse combinations of roles and links that no engine runs. ScenarioError."""
    servers = sum(replica.count for replica in scenario.replicas)
    roles = {replica.role for replica in scenario.replicas}
    if servers > MOST_SERVERS:
        complain("replicas", f"{servers} servers; at most {MOST_SERVERS} can be simulated")
    if scenario.disaggregation is None:
        if roles != {"both"}:
            apart = ", ".join(sorted(roles - {"both"}))
            complain(
                "disaggregation",
                f"missing: it describes the hand-over between replicas of role {apart}",
            )
        return
    if "prefill" not in roles or "decode" not in roles:
        alone = " on one GPU there is nothing to split" if servers == 1 else ""
        complain(
            "disaggregation",
            "prefill and decode run on separate GPUs: at least one replica of role 'prefill' "
            f"and one of role 'decode' are needed{';' + alone if alone else ''}",
        )
    if "both" in roles:
        complain("replicas", "under disaggregation a replica is 'prefill' or 'decode', not 'both'")
    if scenario.link is None:
        complain("link", "missing: KV is transferred from prefill to decode replicas over it")


def complain(field: str, text: str) -> None:
    raise ScenarioError([f"{field}: {text}"], field)


def fleet_of(scenario: Scenario, replicas: Sequence[ResolvedReplica]) -> Topology:
    """How the servers are connected. `replicas`: one entry per server. ScenarioError."""
    total = sum(replica.num_gpu_blocks for replica in replicas)
    if total > MOST_BLOCKS:
        complain(
            "replicas", f"{total:,} KV blocks in all; at most {MOST_BLOCKS:,} can be simulated"
        )
    topology = Topology(
        roles=tuple(ROLES.index(replica.replica.role) for replica in replicas),
        kv_token_bytes=(0.0,) * len(replicas),
        router=ROUTERS.index(scenario.router.kind),
        decode_router=ROUTERS.index(scenario.router.decode_kind or scenario.router.kind),
        seed=scenario.seed,
    )
    if scenario.disaggregation is None:
        return topology
    check_alike(replicas)
    return disaggregated(topology, scenario, replicas)


def check_alike(replicas: Sequence[ResolvedReplica]) -> None:
    """Refuse servers that store KV differently: it could not be transferred."""
    first = replicas[0]
    for k, replica in enumerate(replicas):
        spec, role = replica.replica, replica.replica.role
        where = f"server {k} ({role})"
        if replica.model is None or first.model is None:
            complain(
                "replicas", f"{where} {no_model(replica)}: the size of the KV to move is unknown"
            )
        elif replica.model != first.model:
            names = f"{first.model.name} cannot be used by {replica.model.name}"
            complain("replicas", f"{where}: KV of {names}")
        if spec.kv_cache_dtype != first.replica.kv_cache_dtype:
            complain("replicas", f"{where}: kv_cache_dtype must be the same on all servers")
        if replica.row.block_size != first.row.block_size:
            complain(
                "replicas",
                f"{where}: block size {replica.row.block_size}, and {first.row.block_size} "
                "on server 0; the connector needs the same block size on all servers",
            )
        if role == "decode" and (
            not engine_spec(spec.policy.engine).can_decode or replica.row.priority
        ):
            complain(
                "replicas",
                f"{where}: a decode server runs vLLM V1 with policy fcfs; "
                "other engines can prefill",
            )
        if role == "prefill" and not engine_spec(spec.policy.engine).can_prefill:
            complain(
                "replicas",
                f"{where}: a static batch hands over no request before the whole batch is done",
            )


def no_model(replica: ResolvedReplica) -> str:
    """Why the model of a server is not known."""
    if replica.profile is None:
        return "names no model"
    return (
        f"was measured with {replica.profile.model}, which the catalogue of models does not have "
        f"(profile {replica.profile.name!r})"
    )


def disaggregated(
    topology: Topology, scenario: Scenario, replicas: Sequence[ResolvedReplica]
) -> Topology:
    """The topology of the cluster: roles, routers, link and rules."""
    spec, link, first = scenario.disaggregation, scenario.link, replicas[0]
    assert spec is not None
    assert link is not None
    assert first.model is not None
    element = catalog.kv_element_bytes(first.replica.kv_cache_dtype)
    token_bytes = first.model.kv_bytes_per_token(1, element)
    store_blocks = int(spec.kv_store_bytes // (token_bytes * int(first.row.block_size)))
    if store_blocks > MOST_STORE_BLOCKS:
        complain(
            "disaggregation.kv_store_bytes",
            f"holds {store_blocks:,} blocks of {int(first.row.block_size)} tokens; at most "
            f"{MOST_STORE_BLOCKS:,} are simulated, so lower it",
        )
    prefill = [
        engine_spec(r.replica.policy.engine) for r in replicas if r.replica.role == "prefill"
    ]
    if store_blocks and not all(spec.can_decode for spec in prefill):
        complain("disaggregation.kv_store_bytes", "only vLLM V1 loads KV from a store")
    slo = scenario.slo
    if spec.early_rejection and (slo is None or not slo.limits):
        complain("disaggregation.early_rejection", "needs an slo to check requests against")
    gaps = [slo.tpot_s, slo.itl_s] if slo is not None else []
    bandwidth, latency_s, per_descriptor_s, handover_s = link_numbers(link)
    return Topology(
        roles=topology.roles,
        kv_token_bytes=(token_bytes,) * len(replicas),
        disaggregated=True,
        router=topology.router,
        decode_router=topology.decode_router,
        bandwidth=bandwidth,
        latency_s=latency_s,
        per_descriptor_s=per_descriptor_s,
        handover_s=handover_s,
        num_layers=first.model.num_layers,
        streaming=link.streaming,
        first_token_at_prefill=spec.first_token_from == "prefill",
        recompute_failed_loads=spec.kv_load_failure_policy == "recompute",
        kv_unused_fraction=spec.kv_unused_fraction,
        load_failure_fraction=spec.load_failure_fraction,
        store_blocks=store_blocks,
        early_rejection=spec.early_rejection,
        slo_ttft_s=slo.ttft_s if slo is not None and slo.ttft_s is not None else np.inf,
        slo_gap_s=min((gap for gap in gaps if gap is not None), default=np.inf),
        seed=scenario.seed,
    )


def link_numbers(link: Link) -> tuple[float, float, float, float]:
    """(bytes/s, latency in s, s per descriptor, s per hand-over). A given number overrides the
    catalogue's."""
    known = None
    if link.kind is not None:
        try:
            known = catalog.link(link.kind)
        except ValueError as error:
            complain("link.kind", str(error))
    bandwidth = link.bandwidth_bytes_per_s or (known.bandwidth if known else None)
    if bandwidth is None:
        complain("link", "needs a kind, or bandwidth_bytes_per_s")
        raise AssertionError
    latency_s = link.latency_s
    if latency_s is None:
        latency_s = known.latency_s if known else 0.0
    return bandwidth, latency_s, link.per_descriptor_s or 0.0, link.handover_s or 0.0

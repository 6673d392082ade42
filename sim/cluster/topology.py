"""How the servers of a cluster are connected: the loop's input besides knobs and latencies.
scenario/resolve_topology.py makes it from a scenario."""

from dataclasses import dataclass

import numpy as np

from sim.cluster.cluster_state import (
    BOTH,
    CLUSTER_CONFIG,
    KV_TRANSFER,
    LOAD_FAILS,
    PREFILL,
    RANDOM,
    ROUND_ROBIN,
    SERVER,
    STORE,
    UNUSED,
)
from sim.core.requests import Table
from sim.core.state import records

MOST_LOADING = 4096  # requests per server that may hold blocks for pending KV


@dataclass(frozen=True)
class Topology:
    """Roles of the servers, routers, the link, and failures of KV transfers. Bytes/s, s, bytes.

    `store_blocks`: whole blocks that the KV store keeps, 0 for no store; it is the last replica."""

    roles: tuple[int, ...] = (BOTH,)
    kv_token_bytes: tuple[float, ...] = (0.0,)
    disaggregated: bool = False
    router: int = ROUND_ROBIN
    decode_router: int = ROUND_ROBIN
    bandwidth: float = np.inf
    latency_s: float = 0.0
    per_descriptor_s: float = 0.0
    handover_s: float = 0.0
    num_layers: int = 1
    streaming: bool = False
    first_token_at_prefill: bool = False
    recompute_failed_loads: bool = False
    kv_unused_fraction: float = 0.0
    load_failure_fraction: float = 0.0
    store_blocks: int = 0
    early_rejection: bool = False
    slo_ttft_s: float = np.inf
    slo_gap_s: float = np.inf
    seed: int = 0

    def with_prefill_requests(self, requests: Table) -> Table:
        """A copy of the request table, followed by the prefill request of each request and its row
        in the KV store, where there are any."""
        requests = requests.copy()
        requests.num_tokens = requests.num_prompt_tokens  # known to routers before a server adds it
        if not self.disaggregated:
            return requests
        prefill_requests = requests.copy()
        prefill_requests.max_tokens = prefill_requests.output_len = 1
        prefill_requests.loop = -1
        tables = [requests, prefill_requests]
        if self.store_blocks:
            kept = prefill_requests.copy()
            kept.num_tokens = (
                kept.num_prompt_tokens + 1
            )  # all whole blocks of the prompt may be found
            tables.append(kept)
        together: Table = np.concatenate(tables).view(np.recarray)
        return together

    def with_slots(self, policy: Table, num_requests: int) -> Table:
        """The POLICY rows of all replicas, with room for requests that hold KV and do not run."""
        if not self.disaggregated:
            return policy
        policy = policy.copy()
        held = np.minimum(policy.num_gpu_blocks - 1, min(num_requests, MOST_LOADING))
        policy.num_slots = policy.max_num_seqs + held
        policy.hold_for_transfer = np.equal(self.roles, PREFILL)
        if not self.store_blocks:
            return policy
        store = policy[:1].copy()
        store.num_gpu_blocks = self.store_blocks + 1
        store.enable_prefix_caching = store.max_num_seqs = store.num_slots = 1
        store.num_host_blocks = 0
        together: Table = np.concatenate([policy, store]).view(np.recarray)
        return together

    def with_store(self, latency: Table) -> Table:
        """The latencies of all replicas; the store takes no steps."""
        if not self.store_blocks:
            return latency
        together: Table = np.concatenate([latency, latency[:1]]).view(np.recarray)
        return together

    def servers(self, num_replicas: int) -> Table:
        """Rows of cluster_state.SERVER, all idle."""
        roles = list(self.roles) + [STORE] * bool(self.store_blocks)
        servers = records(num_replicas, SERVER)
        servers.role = roles if len(roles) == num_replicas else BOTH
        token_bytes = list(self.kv_token_bytes) + [0.0] * bool(self.store_blocks)
        servers.kv_token_bytes = token_bytes if len(token_bytes) == num_replicas else 0.0
        return servers

    def config(self, num_requests: int, num_replicas: int) -> Table:
        """The row of cluster_state.CLUSTER_CONFIG."""
        row = records(1, CLUSTER_CONFIG)
        for name in CLUSTER_CONFIG.names or ():
            if hasattr(self, name):
                row[name] = getattr(self, name)
        row.num_requests = num_requests
        row.num_replicas = num_replicas - bool(self.store_blocks)
        row.store = num_replicas - 1 if self.store_blocks else -1
        return row

    def kv_transfers(self, num_requests: int) -> Table:
        """Rows of cluster_state.KV_TRANSFER with the values that the seed decides."""
        draws = RANDOM in (self.router, self.decode_router)
        rows = 2 * num_requests if self.disaggregated else num_requests if draws else 1
        kv_transfers = records(max(rows, 1), KV_TRANSFER)
        kv_transfers.source = kv_transfers.target = -1
        kv_transfers.prefill_end_s = kv_transfers.start_s = kv_transfers.end_s = np.nan
        if rows > 1 or draws:
            generator = np.random.default_rng([self.seed, 0x6B76])
            kv_transfers.pick = generator.random(len(kv_transfers))
            kv_transfers.decode_pick = generator.random(len(kv_transfers))
            unused = generator.random(len(kv_transfers)) < self.kv_unused_fraction
            fails = generator.random(len(kv_transfers)) < self.load_failure_fraction
            kv_transfers.fate[fails] = LOAD_FAILS
            kv_transfers.fate[unused] = UNUSED
            kv_transfers.fate[num_requests:] = 0
        return kv_transfers


SINGLE_REPLICA = Topology()

"""Compile the kernels that the tests run, before they run: `python -m tests.compile`.

Both halves of `make test` start at once. From an empty cache each would compile for itself what the
other one compiles too."""

import numpy as np

from sim import cluster, engine, policies
from sim.fleet import Fleet
from sim.world import BOTH, DECODE, PREFILL
from tests.builders import ROOMY, Server, linear_latency, policy_rows, request_table

TWO = [(8, 2), (8, 2)]  # prompt and output tokens of the requests that are run


def alone(name: str) -> None:
    """A lone server: in the simulator, and stepped for the real engine."""
    table, runs = request_table(TWO)
    policy, latency = policy_rows(name), linear_latency()
    engine.run(table, runs, policy, latency)
    state, world = engine.prepare(table, runs, policy, latency)
    engines = policies.used(policy.engine)
    while cluster.next_step(state, world, engines) == cluster.PLANNED:
        cluster.finish_step(state, world, 0, 0.01)


def together(role: int, other: int, *names: str) -> None:
    """Two servers: beside each other, or one that prefills for one that decodes."""
    table, runs = request_table(TWO)
    policy = np.concatenate([policy_rows(name) for name in names]).view(np.recarray)
    fleet = Fleet((role, other), kv_token_bytes=(1.0, 1.0), disaggregated=role != other)
    limits = engine.Limits(max_steps=1)  # cut short, which winds up
    engine.run(table, runs, policy, linear_latency(2), fleet=fleet, limits=limits)


def by_hand() -> None:
    """The scheduler stepped without a loop."""
    server = Server(TWO, enable_prefix_caching=True).add(0, 1)
    server.abort(1)
    server.run()


def main() -> None:
    """While the browser's half compiles a lone vLLM V1, and then finds the rest done."""
    together(PREFILL, DECODE, "vllm_v1", "vllm_v1")
    for name in ROOMY:
        alone(name)
    together(PREFILL, DECODE, "vllm_v0", "vllm_v1")
    together(BOTH, BOTH, "vllm_v0", "vllm_v1")
    by_hand()


if __name__ == "__main__":
    main()

"""Compile the kernels that the tests run, before they run: `python -m tests.tools.compile`.

Both halves of `make test` start at once. From an empty cache each would compile for itself what the
other one compiles too."""

from dataclasses import replace

import numpy as np
import torch

from gpu_backend.device import Device
from gpu_backend.engine.executor import Executor
from gpu_backend.engine.loop import serve
from gpu_backend.engine.request_inputs import make_inputs
from gpu_backend.engine.run import make_runner
from gpu_backend.models import architecture
from gpu_backend.models.tokenizer import ByteTokenizer
from gpu_backend.models.weights import random_model
from gpu_backend.models.zoo import Loaded
from sim.cluster import loop, simulator
from sim.cluster.cluster_state import BOTH, DECODE, PREFILL
from sim.cluster.topology import Topology
from sim.engines import dispatch
from sim.engines.registry import ENGINE_IDS
from tests.tools.builders import Server, linear_latency, policy_rows, request_table

TWO = [(8, 2), (8, 2)]  # prompt and output tokens of the requests that are run


def alone(name: str) -> None:
    """A lone server: in the simulator, and stepped for the real engine."""
    table, runs = request_table(TWO)
    policy, latency = policy_rows(name), linear_latency()
    simulator.run(table, runs, policy, latency)
    state, cluster = simulator.prepare(table, runs, policy, latency)
    engines = dispatch.used(policy.engine)
    while loop.next_step(state, cluster, engines) == loop.PLANNED:
        loop.finish_step(state, cluster, 0, 0.01)


def together(role: int, other: int, *names: str) -> None:
    """Two servers: beside each other, or one that prefills for one that decodes."""
    table, runs = request_table(TWO)
    policy = np.concatenate([policy_rows(name) for name in names]).view(np.recarray)
    topology = Topology((role, other), kv_token_bytes=(1.0, 1.0), disaggregated=role != other)
    limits = simulator.Limits(max_steps=1)  # cut short, which runs finalize
    simulator.run(table, runs, policy, linear_latency(2), topology=topology, limits=limits)


def by_hand() -> None:
    """The scheduler stepped without a loop."""
    server = Server(TWO, enable_prefix_caching=True).add(0, 1)
    server.abort(1)
    server.run()


def decode_steps() -> None:
    """Those of the real engine on a CPU, in fp32."""
    shape = replace(architecture.LLAMA_15M, num_layers=1, vocab_size=256)
    device = Device(torch.device("cpu"), torch.float32, 1, "CPU")
    model = random_model(architecture.Architecture(shape), device)
    policy = policy_rows()
    inputs = make_inputs([[1, 2, 3]], 2)
    runner, _ = make_runner(Loaded("", "", model, ByteTokenizer(), random=True), policy, device)
    serve(inputs, policy, Executor(runner, inputs))


def main() -> None:
    """While the browser's half compiles a lone vLLM V1, and then finds the rest done."""
    together(PREFILL, DECODE, "vllm_v1", "vllm_v1")
    for name in ENGINE_IDS:
        alone(name)
    together(PREFILL, DECODE, "vllm_v0", "vllm_v1")
    together(BOTH, BOTH, "vllm_v0", "vllm_v1")
    by_hand()
    decode_steps()


if __name__ == "__main__":
    main()

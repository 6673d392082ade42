"""Compile the kernels that the tests run, before they run: `python -m tests.tools.compile`.

Both halves of `make test` start at once. From an empty cache each would compile for itself what the
other one compiles too."""

from dataclasses import replace

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
from tests.tools.builders import Server, policy_rows
from ui import prepare

JOBS = 2


def by_hand() -> None:
    """The scheduler stepped without a loop."""
    server = Server([(8, 2), (8, 2)], enable_prefix_caching=True).add(0, 1)
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
    prepare.compile_all(JOBS, print, wait=True)
    by_hand()
    decode_steps()


if __name__ == "__main__":
    main()

"""Configuration to take home: the servers of the setup for vLLM and TensorRT-LLM.

vLLM: keys of 0.26.0's nixl connector (kv_connector/v1/nixl, config kv_load_failure_policy).
TensorRT-LLM: docs/source/1.0/features/disagg-serving.md and examples/disaggregated/README.md of its
repository. Neither was run here."""

from sim.results.serve_flags import vllm_command
from sim.scenario.load import Resolved
from ui.disaggregation.setup import Setup

VLLM_NOTE = (
    "Keys checked against the source of vLLM 0.26.0, where kv_role kv_both is deprecated with "
    "NIXL; not run here. The proxy is the one of vLLM's tests "
    "(tests/v1/kv_connector/nixl_integration/toy_proxy_server.py), an example rather than a router."
)
TRT_NOTE = (
    "Keys as the documentation of TensorRT-LLM 1.0 and the README of its disaggregated example "
    "have them (an experimental feature, which may change); not run here."
)
FIRST_PORT, SIDE_PORT, PROXY_PORT = 8100, 5600, 8000


def vllm(resolved: Resolved) -> str:
    """A shell script: every server with its role, and the proxy before them. ValueError where the
    scenario has no model to serve."""
    lines = ["#!/bin/sh", "# One command per server; put each on its own machine or GPUs.", ""]
    ports: dict[str, list[int]] = {"prefill": [], "decode": []}
    gpu = 0
    for k, server in enumerate(resolved.replicas):
        spec, port = server.replica, FIRST_PORT + k
        ports[spec.role].append(port)
        mine = ",".join(str(gpu + i) for i in range(spec.tp))
        gpu += spec.tp
        command = vllm_command(resolved, server)
        lines += [
            f"CUDA_VISIBLE_DEVICES={mine} VLLM_NIXL_SIDE_CHANNEL_PORT={SIDE_PORT + k} \\",
            f"{command} \\",
            f"  --port {port} &",
            "",
        ]
    hosts = {role: " ".join(["localhost"] * len(found)) for role, found in ports.items()}
    numbers = {role: " ".join(map(str, found)) for role, found in ports.items()}
    return "\n".join(
        [
            *lines,
            f"python toy_proxy_server.py --port {PROXY_PORT} \\",
            f"  --prefiller-hosts {hosts['prefill']} --prefiller-ports {numbers['prefill']} \\",
            f"  --decoder-hosts {hosts['decode']} --decoder-ports {numbers['decode']}",
            "",
        ]
    )


def trt(resolved: Resolved, setup: Setup) -> str:
    """The YAML of `trtllm-serve disaggregated -c`, and how its servers are started."""
    model = resolved.replicas[0].model
    name = model.name if model else "MODEL"
    urls = [f"localhost:{FIRST_PORT + k}" for k in range(setup.servers)]
    lines = [
        "# disagg_config.yaml, for: trtllm-serve disaggregated -c disagg_config.yaml",
        "hostname: localhost",
        f"port: {PROXY_PORT}",
        "backend: pytorch",
        *pool("context_servers", urls[: setup.prefill]),
        *pool("generation_servers", urls[setup.prefill :]),
        "",
    ]
    for role, count, tp, budget in (
        ("context", setup.prefill, setup.prefill_tp, setup.prefill_budget),
        ("generation", setup.decode, setup.decode_tp, setup.budget),
    ):
        first = 0 if role == "context" else setup.prefill
        lines += [
            f"# {count} {role} server{'s' if count > 1 else ''}, one per URL above:",
            f"# trtllm-serve {name} --tp_size {tp} --max_num_tokens {budget} "
            f"--port {FIRST_PORT + first} --extra_llm_api_options {role}.yaml",
        ]
    transceiver = f"{{backend: UCX, max_tokens_in_buffer: {setup.prompt + setup.output}}}"
    return "\n".join(
        [
            *lines,
            "# context.yaml:",
            "#   disable_overlap_scheduler: true",
            f"#   cache_transceiver_config: {transceiver}",
            "# generation.yaml:",
            f"#   cache_transceiver_config: {transceiver}",
            "",
        ]
    )


def pool(name: str, urls: list[str]) -> list[str]:
    return [f"{name}:", f"  num_instances: {len(urls)}", "  urls:", *(f'    - "{u}"' for u in urls)]

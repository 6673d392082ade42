"""What the page lets a reader choose, as one frozen value, and the two scenarios made of it:
prefill and decode apart, and the same servers with every one doing both.

SI units but where a name says otherwise: GB/s, µs and ms as a reader types them.
"""

from dataclasses import dataclass, replace
from typing import Any

from sim.engines.registry import DEFAULT_ENGINE
from sim.scenario.load import Scenario, parse_scenario
from sim.scenario.model_config import DescribedModel, model_of
from sim.validation.errors import ScenarioError
from ui.scenarios.presets import Preset
from ui.scenarios.settings import written
from ui.text.units import count

BLOCK = 16
LENGTH_ROOM = 1.25  # max_model_len over the longest request, up to the model's own
TOGETHER_SEQS = 256
BUDGETS = (256, 512, 1024, 2048)  # of co-located servers, where the best one is looked for


@dataclass(frozen=True)
class Setup:
    """Servers, link, workload, limits, and what goes wrong.

    `kv_tokens`: KV memory of each decode server in tokens, 0 for what fits its GPU. `bandwidth_gb`
    and `latency_us` 0: as the link's kind has them. `budget`: of the co-located engine's steps;
    a prefill server's is `prefill_budget`. `shared`: tokens that groups of four prompts share."""

    model: str | DescribedModel = "Llama-3.1-8B"
    prefill: int = 1
    decode: int = 1
    prefill_gpu: str = "h100_sxm"
    decode_gpu: str = "h100_sxm"
    prefill_tp: int = 1
    decode_tp: int = 1
    prefill_budget: int = 8192
    budget: int = 512
    kv_tokens: int = 0
    link: str = "rdma_100g"
    bandwidth_gb: float = 0.0
    latency_us: float = 0.0
    descriptor_us: float = 0.0
    handover_ms: float = 0.0
    streaming: bool = False
    first_token: str = "decode"
    rate: float = 6.0
    prompt: int = 4096
    output: int = 96
    requests: int = 16
    shared: int = 0
    store_gb: float = 0.0
    early_rejection: bool = False
    unused: float = 0.0
    failures: float = 0.0
    recompute: bool = False
    ttft_ms: float = 500.0
    itl_ms: float = 10.0

    @property
    def servers(self) -> int:
        return self.prefill + self.decode

    @property
    def gpus(self) -> int:
        return self.prefill * self.prefill_tp + self.decode * self.decode_tp

    @property
    def budgets(self) -> tuple[int, ...]:
        """Of co-located servers, tokens per step: the best one is searched among these."""
        return tuple(sorted({*BUDGETS, self.budget}))

    @property
    def most_tokens(self) -> int:
        """What the model was made for: prompt plus output of a request, tokens."""
        return model_of(self.model).max_model_len


@dataclass(frozen=True)
class Start(Preset):
    """A preset: where the choices start, whose idea it is, and what is left out of that."""

    setup: Setup = Setup()
    story: str = ""


PLAIN = Setup()
PRESETS = (
    Start("pd_plain", "1 prefill, 1 decode", PLAIN, "Two servers, one for each phase."),
    Start(
        "pd_two_two", "2 + 2", replace(PLAIN, prefill=2, decode=2, rate=12.0, requests=24),
        "Two servers for each phase; a router chooses first a prefiller, then a decoder.",
    ),
    Start(
        "pd_prefill_small", "Prefill pool too small",
        replace(PLAIN, decode=3, rate=18.0, requests=24),
        "One prefill server for three decode servers: prompts queue while decode servers idle.",
    ),
    Start(
        "pd_decode_full", "Decode pool full",
        replace(PLAIN, prefill=2, rate=12.0, output=256, requests=24, kv_tokens=24_576),
        "The decode server has room for a few requests: transfers wait for blocks, and the prefill "
        "servers hold KV that is not fetched.",
    ),
    Start(
        "pd_distserve", "DistServe",
        replace(
            PLAIN, prefill_tp=2, decode=2, link="nvlink_hopper", first_token="prefill", rate=8.0,
            prompt=2048, requests=24, itl_ms=40.0,
        ),
        "After DistServe (OSDI'24): each phase has its own parallelism, the prefill worker's token "
        "is the first, KV goes over NVLink. Left out: its search for the best placement, pipeline "
        "parallelism, and that decode workers pull KV when they have room for it.",
    ),
    Start(
        "pd_splitwise", "Splitwise",
        replace(
            PLAIN, decode_gpu="a100_sxm", prefill=1, decode=2, link="rdma_200g", streaming=True,
            first_token="prefill", rate=6.0, prompt=1536, requests=24, itl_ms=40.0,
        ),
        "After Splitwise (ISCA'24): H100 for prompts, A100 for tokens, KV sent while the prompt is "
        "computed, layer by layer there, chunk by chunk here. Left out: the mixed pool and power.",
    ),
    Start(
        "pd_mooncake", "Mooncake",
        replace(
            PLAIN, prefill=2, decode=2, link="rdma_200g", streaming=True, rate=30.0, prompt=6144,
            output=96, requests=32, itl_ms=15.0, shared=4096, store_gb=40.0, early_rejection=True,
        ),
        "After Mooncake (FAST'25): KV of earlier prompts comes from a store, and a request that "
        "would miss a limit is rejected on arrival. Left out: tiers of the store, replication of "
        "hot blocks, and the forecast of the decode load: here it is that of the moment.",
    ),
    Start(
        "pd_miswired", "Mis-wired: KV never used",
        replace(PLAIN, unused=1.0, rate=2.0, requests=12),
        "A proxy that drops kv_transfer_params: the decode server knows nothing of the KV and "
        "computes every prompt again.",
    ),
)  # fmt: skip
BY_ID = {start.id: start for start in PRESETS}


# --- scenarios ------------------------------------------------------------------------------------


def disaggregated(setup: Setup, name: str = "") -> Scenario:
    """Prefill and decode on servers of their own. ScenarioError where that cannot be."""
    roles = [
        server(setup, "prefill", setup.prefill, setup.prefill_budget),
        server(setup, "decode", setup.decode, setup.budget),
    ]
    data = common(setup, name)
    data["replicas"] = [replica for replica in roles if replica["count"]]
    data["router"] = {"kind": "least_tokens", "decode_kind": "free_kv"}
    data["link"] = link(setup)
    data["disaggregation"] = {
        "first_token_from": setup.first_token,
        "kv_load_failure_policy": "recompute" if setup.recompute else "fail",
        "kv_unused_fraction": setup.unused,
        "load_failure_fraction": setup.failures,
        "kv_store_bytes": 1e9 * setup.store_gb,
        "early_rejection": setup.early_rejection,
    }
    return parse_scenario(data)


def co_located(setup: Setup, name: str = "") -> Scenario:
    """The same servers, every one with prompts and decodes in its steps, behind the same router."""
    data = common(setup, name)
    both = [("prefill", setup.prefill), ("decode", setup.decode)]
    replicas = [server(setup, role, number, setup.budget) for role, number in both if number]
    data["replicas"] = [replica | {"role": "both"} for replica in replicas]
    data["router"] = {"kind": "least_tokens"}
    return parse_scenario(data)


def common(setup: Setup, name: str) -> dict[str, Any]:
    """What both have: the workload and the limits. ScenarioError where the model is not made for
    requests as long as these."""
    if setup.prompt + setup.output > setup.most_tokens:
        raise ScenarioError([
            f"{count(setup.prompt)} + {count(setup.output)} tokens per request are too many: "
            f"prompt plus output may be at most {count(setup.most_tokens)} tokens here, the "
            f"limit of {model_of(setup.model).name}"
        ])  # fmt: skip
    requests: dict[str, Any] = {
        "name": "request",
        "count": setup.requests,
        "arrivals": {"kind": "poisson", "rate_per_s": setup.rate},
        "prompt": {"kind": "fixed", "tokens": setup.prompt},
        "output": {"kind": "fixed", "tokens": setup.output},
    }
    if setup.shared:
        tokens = min(setup.shared, setup.prompt)
        groups = max(1, setup.requests // 4)
        requests["shared_prefix"] = {"tokens": tokens, "groups": groups}
    return {
        "name": name,
        "workload": {"classes": [requests]},
        "slo": {"ttft_s": setup.ttft_ms / 1e3, "itl_s": setup.itl_ms / 1e3},
        "limits": {"max_steps": 400_000},
    }


def server(setup: Setup, role: str, number: int, budget: int) -> dict[str, Any]:
    """`number` servers of a pool. The KV memory of a decode server may be made small."""
    longest = setup.prompt + setup.output + 1
    roomy = BLOCK * -(-int(LENGTH_ROOM * longest) // BLOCK)
    policy: dict[str, Any] = {
        "engine": DEFAULT_ENGINE,
        "max_num_batched_tokens": budget,
        "max_num_seqs": min(TOGETHER_SEQS, budget),
        "max_model_len": min(roomy, setup.most_tokens),
        "enable_prefix_caching": bool(setup.shared),
    }
    if setup.kv_tokens and role == "decode":
        policy["num_gpu_blocks"] = setup.kv_tokens // BLOCK + 1
    return {
        "count": number,
        "role": role,
        "model": written(setup.model),
        "gpu": setup.prefill_gpu if role == "prefill" else setup.decode_gpu,
        "tp": setup.prefill_tp if role == "prefill" else setup.decode_tp,
        "policy": policy,
    }


def link(setup: Setup) -> dict[str, Any]:
    """The link, with the numbers that were put in place of the kind's own."""
    found: dict[str, Any] = {"kind": setup.link, "streaming": setup.streaming}
    if setup.bandwidth_gb:
        found["bandwidth_bytes_per_s"] = 1e9 * setup.bandwidth_gb
    if setup.latency_us:
        found["latency_s"] = 1e-6 * setup.latency_us
    return found | {
        "per_descriptor_s": 1e-6 * setup.descriptor_us, "handover_s": 1e-3 * setup.handover_ms,
    }  # fmt: skip

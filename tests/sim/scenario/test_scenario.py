"""The scenario file: the documented one loads, defaults come out, refusals help."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sim.engines.knobs.vllm_v1 import VllmV1
from sim.engines.registry import ENGINE_IDS
from sim.scenario.load import ScenarioError, load_scenario, parse_scenario, resolve
from sim.scenario.spec import Scenario
from sim.validation.errors import path_of
from tests.conftest import EXAMPLES

ALLOWED = ", ".join(repr(engine) for engine in ENGINE_IDS)

CONFIG: dict[str, Any] = {
    "model_type": "qwen2", "num_hidden_layers": 28, "hidden_size": 3584,
    "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944,
    "vocab_size": 152064, "max_position_embeddings": 32768, "torch_dtype": "bfloat16",
}  # fmt: skip
FILES = sorted(EXAMPLES.glob("*.json"))

DOCUMENTED: dict[str, Any] = {
    "version": 1,
    "name": "four chats and a long document",
    "seed": 0,
    "workload": {
        "classes": [
            {
                "name": "chat",
                "count": 4,
                "arrivals": {"kind": "poisson", "rate_per_s": 4.0},
                "prompt": {"kind": "fixed", "tokens": 120},
                "output": {"kind": "lognormal", "median": 200, "sigma": 0.4, "max": 1000},
                "max_tokens": {"kind": "equal"},
                "priority": 0,
                "shared_prefix": {"tokens": 0, "groups": 1},
                "abort_after_s": None,
            },
            {
                "name": "document",
                "count": 1,
                "arrivals": {"kind": "at", "times_s": [1.0]},
                "prompt": {"kind": "fixed", "tokens": 8000},
                "output": {"kind": "fixed", "tokens": 64},
            },
        ]
    },
    "replicas": [
        {
            "count": 1,
            "role": "both",
            "model": "Qwen2.5-7B",
            "gpu": "rtx_4090",
            "precision": "bf16",
            "tp": 1,
            "kv_cache_dtype": "auto",
            "gpu_memory_utilization": 0.92,
            "host_link": "pcie_gen4_x16",
            "latency": {"kind": "roofline"},
            "policy": {
                "engine": "vllm_v1",
                "max_num_batched_tokens": 512,
                "max_num_seqs": 128,
                "max_model_len": 8192,
                "enable_chunked_prefill": True,
                "long_prefill_token_threshold": 0,
                "block_size": 16,
                "num_gpu_blocks": None,
                "enable_prefix_caching": True,
                "policy": "fcfs",
                "watermark": 0.0,
                "scheduler_reserve_full_isl": True,
            },
        }
    ],
    "router": {"kind": "round_robin"},
    "link": None,
    "disaggregation": None,
    "slo": {"ttft_s": 1.0, "itl_s": 0.05},
    "limits": {"horizon_s": 120.0, "max_steps": 1000000},
}

Edit = Callable[[dict[str, Any]], object]


def scenario(edit: Edit = lambda data: None) -> Scenario:
    data = copy.deepcopy(DOCUMENTED)
    edit(data)
    return parse_scenario(data)


def policy(**knobs: Any) -> Edit:
    return lambda data: data["replicas"][0]["policy"].update(knobs)


def replica(**fields: Any) -> Edit:
    return lambda data: data["replicas"][0].update(fields)


def test_documented_scenario_resolves() -> None:
    resolved = resolve(scenario())
    row = resolved.policy[0]
    assert (row.max_num_batched_tokens, row.max_num_seqs, row.max_model_len) == (512, 128, 8192)
    assert resolved.replicas[0].derived == ("num_gpu_blocks",)
    assert row.num_gpu_blocks == resolved.replicas[0].pool.num_gpu_blocks > 5000
    assert resolved.replicas[0].gpu.name == "rtx_4090"


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        ("rtx_4090", (2048, 256, 32768)),
        ("a100", (2048, 256, 32768)),
        ("h100", (8192, 1024, 32768)),
        ("b200", (8192, 1024, 32768)),
    ],
)
def test_nulls_come_from_the_engines_table(gpu: str, expected: tuple[int, int, int]) -> None:
    open_knobs = policy(max_num_batched_tokens=None, max_num_seqs="auto", max_model_len=None)

    def edit(data: dict[str, Any]) -> None:
        open_knobs(data)
        data["replicas"][0]["gpu"] = gpu

    row = resolve(scenario(edit)).policy[0]
    assert (row.max_num_batched_tokens, row.max_num_seqs, row.max_model_len) == expected


def test_max_num_seqs_follows_a_small_budget() -> None:
    resolved = resolve(scenario(policy(max_num_batched_tokens=16, max_num_seqs=None)))
    assert resolved.policy[0].max_num_seqs == 16


def test_open_budget_grows_to_max_model_len_without_chunking() -> None:
    knobs = policy(max_num_batched_tokens=None, enable_chunked_prefill=False)
    assert resolve(scenario(knobs)).policy[0].max_num_batched_tokens == 8192


def test_watermark_in_blocks() -> None:
    resolved = resolve(scenario(policy(watermark=0.01, num_gpu_blocks=250, policy="priority")))
    assert resolved.policy[0].watermark_blocks == 2
    assert resolved.policy[0].priority == 1


def test_a_model_may_be_a_config_json() -> None:
    """The same run as under the catalogue's name for it, and a file that reads back the same."""
    named = scenario()
    described = scenario(replica(model={"name": "mine", "config": CONFIG}))
    assert parse_scenario(json.loads(described.to_json())) == described
    assert "torch_dtype" not in described.to_json()
    one, other = (resolve(found) for found in (named, described))
    assert other.replicas[0].model.name == "mine"
    for field in ("latency", "policy"):
        assert (getattr(one, field) == getattr(other, field)).all()


@pytest.mark.parametrize("engine", ["vllm_v0", "vllm_v1", "sglang"])
def test_a_length_above_the_models_is_refused_as_the_engine_does(engine: str) -> None:
    knob = "context_length" if engine == "sglang" else "max_model_len"
    data = copy.deepcopy(DOCUMENTED)
    data["replicas"][0]["policy"] = {"engine": engine, knob: 40_000}
    with pytest.raises(ScenarioError, match=rf"{knob} \(40000\) is more than the 32768 tokens"):
        resolve(parse_scenario(data))
    toy = {"model": None, "gpu": None, "host_link": None, "latency": {"kind": "linear"}}
    data["replicas"][0] |= toy
    assert resolve(parse_scenario(data)).policy[0].max_model_len >= 40_000 - 2


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"engine": "static", "max_batch_size": 65_000}, r"max_batch_size \(65000\) x tokens of"),
        ({"engine": "tensorrt_llm", "max_num_tokens": 10**7}, "smaller max_num_tokens or max_bat"),
        ({"engine": "sglang", "max_running_requests": 65_000}, r"max_running_requests .* context_"),
        ({"engine": "sarathi", "chunk_size": 10**7}, "smaller chunk_size or max_num_seqs"),
    ],
)
def test_a_message_names_the_engines_own_knobs(policy: dict[str, Any], words: str) -> None:
    data = copy.deepcopy(DOCUMENTED)
    data["replicas"][0]["policy"] = policy
    with pytest.raises(ScenarioError, match=words) as refused:
        resolve(parse_scenario(data))
    assert "max_num_batched_tokens" not in str(refused.value)


def test_linear_toy_needs_neither_model_nor_gpu() -> None:
    def edit(data: dict[str, Any]) -> None:
        data["replicas"][0].update(model=None, gpu=None, host_link=None)
        data["replicas"][0]["latency"] = {"kind": "linear"}

    resolved = resolve(scenario(edit))
    assert resolved.latency[0].step_s == 0.005
    assert resolved.policy[0].num_gpu_blocks == 1 + 128 * 8192 // 16
    assert resolved.replicas[0].expected_error is None


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (policy(max_num_batched_tokens=16), r"\(16\) must be greater .* max_num_seqs \(128\)"),
        (policy(enable_chunked_prefill=False), r"\(512\) is smaller than max_model_len \(8192\)"),
        (policy(watermark=1.0), "watermark: found 1.0; must be less than 1"),
        (policy(polcy="fcfs"), "polcy: unknown key; did you mean 'policy'"),
        (policy(engine="orka"), f"engine: found 'orka'; allowed: {ALLOWED}"),
        (policy(policy="lifo"), "found 'lifo'; allowed: 'fcfs' or 'priority'"),
        (policy(max_num_seqs=0), "max_num_seqs: found 0; must be at least 1"),
        (policy(max_model_len="long"), "max_model_len: found 'long'; must be a whole number"),
        (policy(max_model_len=10**6), "unless VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 is set; set max_mod"),
        (policy(max_num_seqs="64"), r"policy.max_num_seqs: found '64'; must be a whole number"),
        (policy(watermark="0.1"), r"policy.watermark: found '0.1'; must be a number"),
        (policy(max_num_seqs=True), "policy.max_num_seqs: found true; must be a whole number"),
        (replica(model={"name": "x"}), "model.config is missing"),
        (replica(model={"config": CONFIG | {"vocab_size": "9"}}), "config.vocab_size: found '9'"),
        (replica(model={"config": CONFIG | {"num_experts": 8}}), "mixture of experts"),
        (
            policy(max_num_partial_prefills=2),
            "max_num_partial_prefills: not modelled: vLLM V1 accepts it",
        ),
        (replica(model="Llama-3.1-70B"), "weights take 141.1 GB .*larger tp, precision fp8"),
        (replica(gpu="h1000"), "unknown GPU 'h1000'; the nearest known: h100_sxm"),
        (replica(tp=8), "28 attention heads of Qwen2.5-7B cannot be divided by tp 8"),
        (replica(tp=3), "tp: found 3; allowed: 1, 2, 4 or 8"),
        (replica(gpu="a100", precision="fp8"), "a100_sxm has no fp8 kernels; it has bf16"),
        (replica(kv_cache_dtype="int2"), "kv_cache_dtype: unknown precision 'int2'"),
        (replica(host_link="carrier pigeon"), "host_link: unknown link"),
        (replica(model=None), r"replicas\[0\].model is missing: a roofline needs it"),
        (replica(latency={"kind": "crystal"}), "latency.kind: found 'crystal'; allowed: 'roof"),
        (replica(count=1025), "count: found 1025; must be at most 1024"),
        (
            replica(role="prefill"),
            "disaggregation: missing: it describes the hand-over .* role prefill",
        ),
        (
            lambda data: data.update(disaggregation={}),
            "at least one replica of role 'prefill' and one of role 'decode' are needed; "
            "on one GPU there is nothing to split",
        ),
        (lambda data: data.update(replicas=[]), "replicas: found a list of 0; must not be empty"),
        (lambda data: data.update(version=2), "found version 2; this program reads version 1"),
        (lambda data: data.pop("workload"), "workload is missing"),
        (lambda data: data["workload"].update(file="a.csv"), "either classes or a file"),
        (lambda data: data["workload"].update(limit=3), "limit belong to a file"),
        (lambda data: data["slo"].update(ttft=1), "slo.ttft: .* did you mean 'ttft_s'"),
        (
            lambda data: data["workload"]["classes"][0].update(count=0),
            r"workload.classes\[0\].count: found 0; must be at least 1",
        ),
        (
            lambda data: data["workload"]["classes"][0]["arrivals"].update(rate_per_s=0),
            r"workload.classes\[0\].arrivals.rate_per_s: found 0; must be more than 0",
        ),
        (
            lambda data: data["workload"]["classes"][0]["arrivals"].pop("kind"),
            "arrivals: kind is missing",
        ),
        (
            lambda data: data["workload"]["classes"][1].update(count=3),
            "count 3 but 1 arrival times",
        ),
    ],
)
def test_refusals_help(edit: Edit, words: str) -> None:
    with pytest.raises(ScenarioError, match=words) as caught:
        resolve(scenario(edit))
    assert len(caught.value.problems) == 1


def test_every_problem_gets_a_sentence() -> None:
    def edit(data: dict[str, Any]) -> None:
        policy(watermark=-1)(data)
        data["slo"]["ttft_s"] = "soon"

    with pytest.raises(ScenarioError) as caught:
        scenario(edit)
    assert len(caught.value.problems) == 2
    assert caught.value.field == "replicas[0].policy.watermark"


def test_a_given_pool_may_be_smaller_than_max_model_len() -> None:
    assert resolve(scenario(policy(num_gpu_blocks=100))).policy[0].num_gpu_blocks == 100


def test_round_trip_and_digest() -> None:
    one = scenario()
    other = parse_scenario(json.loads(one.to_json()))
    assert other == one
    assert (other.digest, hash(other)) == (one.digest, hash(one))
    assert scenario(policy(block_size=32)).digest != one.digest


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(scenario().to_json(), encoding="utf-8-sig")
    assert load_scenario(path) == scenario()
    toml = tmp_path / "run.toml"
    toml.write_text(
        '[[workload.classes]]\nname = "a"\ncount = 1\narrivals = {kind = "all_at_once"}\n'
        'prompt = {kind = "fixed", tokens = 10}\noutput = {kind = "list", values = [3]}\n'
        '[[replicas]]\nlatency = {kind = "linear"}\npolicy = {engine = "vllm_v1"}\n'
    )
    assert load_scenario(toml).workload.classes[0].output.kind == "list"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"version": 1,}', "not JSON: .*line 1 column"),
        (b"\xff\xfe\x00", "not UTF-8 text at byte 0"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[1]", "the scenario: found a list of 1; must be an object"),
        (b'{"replicas": NaN}', "replicas: found nan; must be a list"),
    ],
)
def test_broken_files(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(ScenarioError, match=words):
        load_scenario(path)
    with pytest.raises(ScenarioError, match="no such file"):
        load_scenario(tmp_path / "absent.json")


def test_schema_names_every_knob() -> None:
    schema = Scenario.model_json_schema()
    assert VllmV1.model_fields.keys() == schema["$defs"]["VllmV1"]["properties"].keys()
    json.dumps(schema)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_examples_resolve(path: Path) -> None:
    assert resolve(load_scenario(path)).scenario.name


def test_paths() -> None:
    assert path_of(("replicas", 0, "policy")) == "replicas[0].policy"
    assert path_of(()) == "the scenario"

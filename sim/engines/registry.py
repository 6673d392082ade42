"""The engines, one entry each: all that commands, pages and tests need to know about an engine.

Adding an engine: its kernel file in this folder, its knobs file in knobs/, its entry in ENGINES;
see docs/adding-a-policy.md. Compiled code never reads this file (see dispatch.py)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args

from pydantic import Field

from sim.engines.knobs.base import EngineKnobs
from sim.engines.knobs.orca import Orca
from sim.engines.knobs.sarathi import Sarathi
from sim.engines.knobs.sglang import Sglang
from sim.engines.knobs.static import Static
from sim.engines.knobs.tensorrt_llm import TensorRtLlm
from sim.engines.knobs.vllm_v0 import VllmV0
from sim.engines.knobs.vllm_v1 import VllmV1

__all__ = ["DEFAULT_ENGINE", "ENGINES", "ENGINE_IDS", "EngineSpec", "Knobs", "Value", "engine_spec"]

Value = int | float | bool | str  # of one knob
Choice = Mapping[str, Any]  # knobs by name


@dataclass(frozen=True)
class EngineSpec:
    """The description of an engine; its rule is its kernel, its knobs are a pydantic model.

    `id` is what a scenario calls it, and the name of its kernel's module. A field that ends in
    `_knob` is the name of a knob, None where the engine has none of that meaning."""

    id: str
    title: str
    rule: str  # in one line
    source: str  # the code or paper that the kernel follows
    version: str
    knobs: type[EngineKnobs]

    # knobs that mean the same in every engine; knobs/translation.py carries them over
    seqs_knob: str
    pool_knob: str  # the size of the KV pool, in blocks or tokens
    pool_in_tokens: bool = False
    budget_knob: str | None = None
    length_knob: str | None = None
    block_size: str | int = "block_size"  # tokens per KV block: a knob's name, or a fixed size
    null_blocks: int = 0  # counted in pool_knob and never given to a request
    with_caching: Mapping[str, Value] = field(default_factory=dict)
    without_caching: Mapping[str, Value] = field(default_factory=dict)  # empty: no prefix cache
    chunking: Literal["never", "optional", "always"] = "never"  # prompts over several steps
    with_chunking: Mapping[str, Value] = field(default_factory=dict)
    without_chunking: Mapping[str, Value] = field(default_factory=dict)
    chunk_cap_knob: str | None = None  # most tokens of one prompt in a step, 0 for no cap
    memory_share_knob: str = "gpu_memory_utilization"  # a knob of a scenario's replica

    # what it can do
    can_prefill: bool = True  # for decode servers of a disaggregated cluster
    can_decode: bool = False  # with KV that was computed by a prefill server
    first_come_first_served: bool = True  # no request gets its first token computed before one
    # that arrived earlier
    kv_layout: Literal["paged", "slots", "padded"] = "paged"
    holds_known_tokens: bool = False  # blocks only for the tokens of a request that are known

    # what pages show
    dials: Mapping[str, Value] = field(default_factory=dict)  # knobs to turn, with first values
    memory_dials: tuple[str, ...] = ()  # knobs that decide which requests get KV memory
    summary: Callable[[Choice], str] = lambda knobs: ""  # the main knobs, in a few words
    admission: Callable[[Choice], str] = lambda knobs: ""  # when a request gets KV memory
    victim: str = "the last in line"  # the victim when memory is short, if there is preemption
    complexity: Literal["low", "medium", "high"] = "medium"  # how complex it is to operate
    complexity_reason: str = ""
    shown_first: bool = False  # shown on a page before an engine is chosen

    # a server with room for every test
    roomy: Mapping[str, Value] = field(default_factory=dict)

    @property
    def defaults(self) -> EngineKnobs:
        """Every knob with the engine's default."""
        return self.knobs(engine=self.id)

    @property
    def has_prefix_cache(self) -> bool:
        return bool(self.without_caching)

    def options(self, knob: str) -> tuple[str, ...]:
        """The allowed values of a knob that is one of a few words, else ()."""
        annotation = self.knobs.model_fields[knob].annotation
        return tuple(value for value in get_args(annotation) if isinstance(value, str))

    def least(self, knob: str) -> int:
        """The least value of a number."""
        schema = self.knobs.model_json_schema()["properties"][knob]
        kinds = [schema, *schema.get("anyOf", ())]  # a number that may be null is one of two kinds
        return next(int(kind["minimum"]) for kind in kinds if "minimum" in kind)


def tensorrt_llm_summary(knobs: Choice) -> str:
    names = {"GUARANTEED_NO_EVICT": "no evict", "MAX_UTILIZATION": "max utilization"}
    capacity = names.get(str(knobs["capacity_scheduler_policy"]), "static batch")
    if not knobs["enable_chunked_prefill"]:
        return f"{capacity}, whole prompts"
    order = "equal progress" if knobs["context_chunking_policy"] == "EQUAL_PROGRESS" else "FCFS"
    return f"{capacity}, {order}, unit {knobs['tokens_per_block']}"


TENSORRT_LLM_ADMISSION = {
    "GUARANTEED_NO_EVICT": "A prompt is admitted when its max_tokens fit as well.",
    "MAX_UTILIZATION": "A prompt is admitted when it fits; a request is paused when memory ends.",
    "STATIC_BATCH": "Prompts are admitted when no request generates, with their max_tokens.",
}

ENGINES: tuple[EngineSpec, ...] = (
    EngineSpec(
        id="static",
        title="Static",
        rule="A batch runs to its end before another request may start",
        source="the textbook rule: Hugging Face `generate`, FasterTransformer",
        version="without in-flight batching",
        knobs=Static,
        seqs_knob="max_batch_size",
        pool_knob="kv_tokens",
        pool_in_tokens=True,
        block_size=1,
        can_prefill=False,
        kv_layout="padded",
        dials={"max_batch_size": 4},
        summary=lambda knobs: f"batch of {knobs['max_batch_size']}, padded",
        admission=lambda knobs: "A batch is formed of the requests whose padded KV fits.",
        complexity="low",
        complexity_reason="one queue and one loop; nothing to tune but the batch",
        shown_first=True,
        roomy={"max_batch_size": 64, "kv_tokens": 32_000},
    ),
    EngineSpec(
        id="orca",
        title="Orca",
        rule="Requests join and leave at each step; prompts run whole",
        source="Yu et al., OSDI'22; microsoft/sarathi-serve, orca_scheduler.py",
        version="96f9911790ec",
        knobs=Orca,
        seqs_knob="max_num_seqs",
        pool_knob="num_gpu_blocks",
        length_knob="max_model_len",
        block_size=16,
        kv_layout="slots",
        dials={"max_num_seqs": 64},
        summary=lambda knobs: "iteration level, whole prompts",
        admission=lambda knobs: "A request gets a slot for the longest request, whatever it needs.",
        complexity="low",
        complexity_reason="memory is reserved for the longest request, so nothing is preempted",
        shown_first=True,
        roomy={"max_num_seqs": 64, "max_model_len": 128, "num_gpu_blocks": 512},
    ),
    EngineSpec(
        id="vllm_v0",
        title="vLLM V0",
        rule="A step is prompts or decodes, and prompts go first",
        source="Kwon et al., SOSP'23; microsoft/sarathi-serve, vllm_scheduler.py",
        version="vLLM 0.2",
        knobs=VllmV0,
        seqs_knob="max_num_seqs",
        pool_knob="num_gpu_blocks",
        budget_knob="max_num_batched_tokens",
        length_knob="max_model_len",
        dials={
            "max_num_batched_tokens": 8192,
            "max_num_seqs": 64,
            "preemption_mode": "recompute",
        },
        memory_dials=("watermark", "preemption_mode"),
        summary=lambda knobs: f"prefill first, preempts by {knobs['preemption_mode']}",
        admission=lambda knobs: (
            "A prompt is admitted when all of its blocks and the watermark are free."
        ),
        complexity_reason="paged memory, preemption, a token limit that must hold every prompt",
        shown_first=True,
        roomy={
            "max_num_batched_tokens": 2048,
            "max_num_seqs": 64,
            "max_model_len": 8192,
            "num_gpu_blocks": 2_000,
            "watermark": 0.0,
        },
    ),
    EngineSpec(
        id="vllm_v1",
        title="vLLM V1",
        rule="Running requests first, then prompts, until the budget is spent",
        source="vllm/v1/core/sched/scheduler.py, Scheduler.schedule",
        version="vLLM 0.26.0",
        knobs=VllmV1,
        seqs_knob="max_num_seqs",
        pool_knob="num_gpu_blocks",
        budget_knob="max_num_batched_tokens",
        length_knob="max_model_len",
        null_blocks=1,
        with_caching={"enable_prefix_caching": True},
        without_caching={"enable_prefix_caching": False},
        chunking="optional",
        with_chunking={"enable_chunked_prefill": True},
        without_chunking={"enable_chunked_prefill": False},
        chunk_cap_knob="long_prefill_token_threshold",
        can_decode=True,
        holds_known_tokens=True,
        dials={
            "max_num_batched_tokens": 512,
            "long_prefill_token_threshold": 0,
            "max_num_seqs": 64,
            "enable_chunked_prefill": True,
        },
        memory_dials=("scheduler_reserve_full_isl", "watermark"),
        summary=lambda knobs: (
            ("chunks" if knobs["enable_chunked_prefill"] else "whole prompts")
            + f", budget {knobs['max_num_batched_tokens']:,}"
        ),
        admission=lambda knobs: (
            f"Full-prompt gate {'on' if knobs['scheduler_reserve_full_isl'] else 'off'}."
        ),
        complexity_reason="one budget to tune; prompts and decodes share every step",
        shown_first=True,
        roomy={
            "max_num_batched_tokens": 2048,
            "max_num_seqs": 64,
            "max_model_len": 8192,
            "num_gpu_blocks": 2_001,
            "enable_prefix_caching": False,
        },
    ),
    EngineSpec(
        id="tensorrt_llm",
        title="TensorRT-LLM",
        rule="Memory is reserved first, then tokens are scheduled in whole units",
        source="tensorrt_llm/_torch/pyexecutor/scheduler/scheduler.py",
        version="002f3cc3d055",
        knobs=TensorRtLlm,
        seqs_knob="max_batch_size",
        pool_knob="num_blocks",
        budget_knob="max_num_tokens",
        length_knob="max_seq_len",
        block_size="tokens_per_block",
        with_caching={"enable_block_reuse": True},
        without_caching={"enable_block_reuse": False},
        chunking="optional",
        with_chunking={"enable_chunked_prefill": True},
        without_chunking={"enable_chunked_prefill": False},
        memory_share_knob="free_gpu_memory_fraction",
        dials={
            "max_num_tokens": 1024,
            "max_batch_size": 64,
            "tokens_per_block": 64,
            "enable_chunked_prefill": True,
            "capacity_scheduler_policy": "GUARANTEED_NO_EVICT",
            "context_chunking_policy": "FIRST_COME_FIRST_SERVED",
        },
        memory_dials=("capacity_scheduler_policy",),
        summary=tensorrt_llm_summary,
        admission=lambda knobs: TENSORRT_LLM_ADMISSION[knobs["capacity_scheduler_policy"]],
        first_come_first_served=False,  # what rounding a chunk leaves goes to later prompts
        victim="the last to have arrived",
        complexity="high",
        complexity_reason="two policies that combine, and an engine built for its limits",
        shown_first=True,
        roomy={
            "enable_chunked_prefill": True,
            "max_num_tokens": 2048,
            "max_batch_size": 64,
            "max_seq_len": 8192,
            "tokens_per_block": 16,
            "num_blocks": 2_000,
            "enable_block_reuse": False,
        },
    ),
    EngineSpec(
        id="sarathi",
        title="Sarathi-Serve",
        rule="Decodes first; what is left of the chunk goes to prompts",
        source="Agrawal et al., OSDI'24; microsoft/sarathi-serve, sarathi_scheduler.py",
        version="96f9911790ec",
        knobs=Sarathi,
        seqs_knob="max_num_seqs",
        pool_knob="num_gpu_blocks",
        budget_knob="chunk_size",
        length_knob="max_model_len",
        chunking="always",
        dials={"chunk_size": 512, "max_num_seqs": 64},
        summary=lambda knobs: f"decodes first, chunks of {knobs['chunk_size']:,}",
        admission=lambda knobs: (
            "A prompt is admitted when all of its blocks and 1% of the pool are free."
        ),
        complexity_reason="one chunk size to tune against the latency target",
        roomy={
            "chunk_size": 2048,
            "max_num_seqs": 64,
            "max_model_len": 8192,
            "num_gpu_blocks": 2_000,
        },
    ),
    EngineSpec(
        id="sglang",
        title="SGLang",
        rule="Prompts go first, in chunks, while any can be admitted",
        source="python/sglang/srt/managers/scheduler.py, schedule_policy.py",
        version="SGLang 0.5.5",
        knobs=Sglang,
        seqs_knob="max_running_requests",
        pool_knob="max_total_tokens",
        pool_in_tokens=True,
        budget_knob="chunked_prefill_size",
        length_knob="context_length",
        block_size="page_size",
        with_caching={"disable_radix_cache": False},
        without_caching={"disable_radix_cache": True},
        chunking="optional",
        without_chunking={"chunked_prefill_size": -1},
        dials={
            "chunked_prefill_size": 512,
            "enable_mixed_chunk": False,
            "max_running_requests": 64,
        },
        summary=lambda knobs: (
            f"chunks of {knobs['chunked_prefill_size']:,}, decodes "
            + ("join" if knobs["enable_mixed_chunk"] else "wait")
        ),
        admission=lambda knobs: (
            "A prompt is admitted beside what the others are expected to generate."
        ),
        victim="the one with the fewest answer tokens",
        complexity_reason="admission rests on an estimate of how long answers will be",
        roomy={
            "chunked_prefill_size": 2048,
            "max_running_requests": 64,
            "context_length": 8192,
            "max_total_tokens": 32_000,
            "disable_radix_cache": True,
        },
    ),
)
ENGINE_IDS = tuple(spec.id for spec in ENGINES)
DEFAULT_ENGINE = "vllm_v1"  # the default of pages and commands

if TYPE_CHECKING:
    Knobs = EngineKnobs
else:  # the knobs of any engine, discriminated by `engine`
    Knobs = Annotated[
        Union[tuple(spec.knobs for spec in ENGINES)],  # noqa: UP007 (built, not written)
        Field(discriminator="engine"),
    ]


def engine_spec(engine: str) -> EngineSpec:
    """The entry of an engine. Raises ValueError with the known ids for any other."""
    for spec in ENGINES:
        if spec.id == engine:
            return spec
    raise ValueError(f"no engine {engine!r}; there are {', '.join(ENGINE_IDS)}")

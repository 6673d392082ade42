"""Addresses and scenario files that are in use: every one of them opens."""

from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from sim.scenario.load import load_scenario, resolve
from tests.ui.opening import ROOT, open_page
from ui.lessons import FORMS

# A handout's address must open next year: this list only grows.
ADDRESSES = (
    "token_budget?v=1&preset=four_chats_one_document&budget=512&pin=four_chats_one_document",
    "token_budget?v=1&preset=four_chats_one_document&step=28&view=time,0.5,3",
    "token_budget?v=1&preset=four_chats_one_document&budget=7168&pin=four_chats_one_document&pin.budget=512",
    "token_budget?v=1&preset=four_chats_one_document&budget=12288&cap=448&gpu=h100_sxm&chunking=off"
    "&seqs=64&length=auto&blocks=9000&cache=off&seed=7&limit=0.0325",
    "token_budget?v=1&preset=four_chats_one_document_h100&model=Llama-3.1-8B",
    "token_budget?v=1&preset=burst&lock=1&show=budget,play&scale=1.5",
    "token_budget?v=1&preset=burst&rate=40&pin=burst&pin.seed=1",
    "token_budget?v=1&preset=rag&cap=off",
    "token_budget?v=1&preset=code_completion&view=time,0,1.5",
    "token_budget?v=1&preset=toy_16_requests&budget=256",
    "token_budget?v=1&preset=budget_16_four_decodes_48_prompt&budget=64",
    "token_budget?v=1&preset=one_long_four_short_2048&pin=one_long_four_short_2048&pin.budget=8192",
    "token_budget?v=1&preset=your_trace&file=mine.csv&sha256=" + 64 * "0" + "&file_rate=2",
    "token_budget?v=1&preset=four_chats_one_document"
    "&model=config:llama,2,256,4,,,512,1000,16384,False,,small",
    "six_ways?v=1&ways=static,orca,vllm_v0,vllm_v1,tensorrt_llm,disaggregated",
    "six_ways?v=1&workload=six_ways_all_short&ways=vllm_v1,sglang&on_gpu=a100_sxm&tp=2"
    "&vllm_v1.max_num_batched_tokens=256&sglang.enable_mixed_chunk=on",
    "six_ways?v=1&workload=six_ways_head_of_line&ways=none",
    "six_ways?v=1&workload=six_ways_out_of_memory&vllm_v0.preemption_mode=swap&on_model=Qwen3-0.6B",
    "six_ways?v=1&workload=six_ways_chats_two_documents&sglang.chunked_prefill_size=-1"
    "&tensorrt_llm.capacity_scheduler_policy=MAX_UTILIZATION"
    "&tensorrt_llm.context_chunking_policy=EQUAL_PROGRESS&tensorrt_llm.tokens_per_block=32"
    "&tensorrt_llm.max_num_tokens=512&tensorrt_llm.max_batch_size=8&static.max_batch_size=2"
    "&orca.max_num_seqs=4&sarathi.chunk_size=256&vllm_v1.long_prefill_token_threshold=128"
    "&vllm_v1.enable_chunked_prefill=on&sglang.max_running_requests=9",
    "six_ways?v=1&ways=vllm_v1,disaggregated&disaggregated.prefill_servers=2"
    "&disaggregated.decode_servers=2&disaggregated.link=nvlink_hopper&disaggregated.streaming=on"
    "&disaggregated.first_token_from=prefill&disaggregated.max_num_batched_tokens=1024",
    "six_ways?v=1&workload=yours&preset=burst&budget=512",
    "kv_memory?v=1&memory=kv_thrash&engine=vllm_v0&preempt_by=swap&watermark=0.05&swap_tp=2"
    "&beside_decodes=off&swap_gpu=l4",
    "kv_memory?v=1&memory=kv_prefix&engine=sglang&reuse=off",
    "kv_memory?v=1&engine=tensorrt_llm&capacity=MAX_UTILIZATION",
    "kv_memory?v=1&engine=orca",
    "kv_memory?v=1&engine=sarathi&swap_model=Llama-3.1-70B&swap_link=pcie_gen4_x16",
    "kv_memory?v=1&gate=off&reuse=on",
    "disaggregation?v=1&pools=pd_splitwise&pd.rate=5.5&pd.streaming=off",
    "disaggregation?v=1&pools=pd_mooncake&pd.requests=20&map=ratio",
    "disaggregation?v=1&pd.prefill=2&pd.decode=2&pd.prefill_gpu=a100_sxm&pd.decode_tp=2"
    "&pd.link=rdma_400g&pd.bandwidth_gb=25&pd.latency_us=3&pd.descriptor_us=0.5&pd.handover_ms=5"
    "&pd.first_token=prefill&pd.prompt=2048&pd.output=32&pd.unused=0.25&pd.failures=0.1"
    "&pd.recompute=on&pd.ttft_ms=400&pd.itl_ms=20&pd.shared=512&pd.store_gb=10"
    "&pd.early_rejection=on&pd.kv_tokens=40000&pd.budget=256&pd.prefill_budget=4096",
    "real_engine?v=1&workload=poisson&run_model=smollm2&policy=sglang&beside=whole&temperature=0.7"
    "&run_seed=9&arrivals=20&sglang.chunked_prefill_size=-1",
    "real_engine?v=1&policy=vllm_v0&vllm_v0.max_num_seqs=8&beside=nothing",
    "real_engine?v=1&workload=yours&preset=burst&budget=512",
    "real_engine?v=1&run_model=random:llama-15m&policy=static",
    "two_phases?v=1&of_model=Qwen3-0.6B&of_gpu=l4&weights=bf16&gpus=2&prompt_tokens=512&decodes=8"
    "&context=2048&against=h100_sxm",
)  # fmt: skip
SCENARIOS = sorted((ROOT / "examples").glob("*.json"))


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_opens_and_is_written_again(address: str):
    path, _, query = address.partition("?")
    asked = dict(parse_qsl(query))
    at = open_page(path, **{key.replace(".", "__"): text for key, text in asked.items()})
    assert at.title[0].value != "This link cannot be followed as it stands"
    form = FORMS.get(path)
    if form is not None:
        for field in form.fields:
            if field.name in asked:
                assert field.say(at.session_state[field.key]) == asked[field.name]


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.stem)
def test_a_scenario_file_is_read_and_starts(file: Path):
    assert resolve(load_scenario(file)).replicas

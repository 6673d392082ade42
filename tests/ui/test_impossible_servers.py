"""A server that cannot start, and requests that none can serve: a message with the numbers and the
cure on every page, never a traceback."""

from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

from sim.hardware import catalog
from tests.ui.opening import kept, open_page
from ui.lessons import LESSONS
from ui.shell.lesson import Lesson
from ui.token_budget.controller import Board

WEIGHTS = "its weights take 141.1 GB"
PRESET = "v=1&preset=four_chats_one_document"
LONG = "raise max_model_len above 8,000"
# address, what the page says
SERVERS = (
    (f"token_budget?{PRESET}&model=Llama-3.1-70B&gpu=rtx_4090", WEIGHTS),
    (f"token_budget?{PRESET}&length=1000000", "set max_model_len to at most 32768"),
    (f"token_budget?{PRESET}&seqs=65536&budget=64", "lower max_num_seqs"),
    (f"token_budget?{PRESET}&chunking=off&budget=64", "increase max_num_batched_tokens"),
    (f"token_budget?{PRESET}&blocks=2", "need 500 KV blocks of 16 tokens and the pool has 1"),
    (f"token_budget?{PRESET}&length=32", f"in max_model_len (32); {LONG}"),
    (f"token_budget?{PRESET}&length=2048", f"in max_model_len (2,048); {LONG}"),
    (f"token_budget?{PRESET}&pin=four_chats_one_document&pin.length=1000000", "at most 32768"),
    ("six_ways?v=1&on_model=Llama-3.1-70B&on_gpu=rtx_4090", WEIGHTS),
    ("six_ways?v=1&ways=static,vllm_v1&vllm_v1.max_num_seqs=10000", "lower max_num_seqs"),
    ("six_ways?v=1&ways=vllm_v1&workload=yours&preset=burst&length=1000000", "at most 32768"),
    ("six_ways?v=1&ways=vllm_v1&workload=yours&preset=burst&model=Llama-3.1-8B&length=131072"
     "&vllm_v1.max_num_seqs=65536&vllm_v1.max_num_batched_tokens=65536&on_model=Llama-3.1-8B",
     "more block-table entries"),
    ("six_ways?v=1&ways=vllm_v0&workload=yours&preset=burst&blocks=3", "and the pool has 2"),
    ("six_ways?v=1&ways=static&workload=yours&preset=burst&length=32", "need KV memory for 2,578"),
    ("disaggregation?v=1&pd.model=Llama-3.1-70B&pd.prefill_gpu=l4&pd.decode_gpu=l4", WEIGHTS),
    ("disaggregation?v=1&pd.prompt=140000", "may be at most 131,072 tokens here"),
    ("disaggregation?v=1&pd.kv_tokens=16", "need 256 KV blocks of 16 tokens and the pool has 1;"),
    ("disaggregation?v=1&pd.store_gb=9999", "at most 4,000,000 are simulated"),
    ("disaggregation?v=1&pd.rate=1000&pd.ttft_ms=1&pd.early_rejection=on", "raise its limits"),
    ("real_engine?v=1&vllm_v1.max_num_batched_tokens=1", "raise the budget"),
    ("real_engine?v=1&policy=tensorrt_llm&tensorrt_llm.max_num_tokens=8", "raise max_num_tokens"),
    ("real_engine?v=1&workload=yours&preset=burst&length=1000000", "at most 32768"),
)  # fmt: skip
# pages that compute costs only, whatever fits
COSTS = (
    "kv_memory?v=1&swap_model=Llama-3.1-405B&swap_gpu=l4",
    "two_phases?v=1&of_model=Llama-3.1-405B&of_gpu=l4",
)


def opened(address: str) -> AppTest:
    path, _, query = address.partition("?")
    return open_page(path, **{key.replace(".", "__"): text for key, text in parse_qsl(query)})


def said(at: AppTest) -> str:
    """Everything that the page says, in its components too."""
    kinds = ("error", "warning", "info", "caption", "markdown")
    lines = [line.value for kind in kinds for line in getattr(at, kind)]
    packets = [part.proto.SerializeToString() for part in at.get("bidi_component")]
    return "\n".join([*lines, *(packet.decode(errors="replace") for packet in packets)])


@pytest.mark.parametrize(("address", "words"), SERVERS)
def test_the_page_says_the_numbers_and_the_cure(address: str, words: str) -> None:
    text = said(opened(address))
    assert words in text
    assert not [name for name in catalog.gpu_names() if f"KV on {name}" in text]


@pytest.mark.parametrize("address", COSTS)
def test_costs_are_computed_of_any_server(address: str) -> None:
    assert not opened(address).error


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.file)
def test_no_page_shows_an_identifier_of_the_catalogue(lesson: Lesson) -> None:
    """A reader sees the product's name."""
    at = open_page(lesson.path)
    shown = said(at) + "".join(option for box in at.selectbox for option in box.options)
    names = (*catalog.gpu_names(), *catalog.link_names())
    assert [name for name in names if "_" in name and name in shown] == []


def test_the_picture_of_the_last_run_stays() -> None:
    at = open_page("token_budget")
    picture = kept(at, Board).picture
    at.number_input(key="setting_max_model_len").set_value(1_000_000).run()
    assert not at.exception
    assert kept(at, Board).picture is picture

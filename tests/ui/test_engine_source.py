"""The marks in the policy's source are found in the code as it runs, so they cannot go stale."""

import importlib
import inspect

import pytest

from sim.engines.registry import ENGINE_IDS
from ui.text import engine_source, explain


def lines(kind: str, engine: str = "vllm_v1") -> list[str]:
    k, marked = engine_source.deciding(engine)[kind]
    text = engine_source.functions(engine)[k].text.split("\n")
    return [text[i].strip() for i in marked]


@pytest.mark.parametrize("engine", ENGINE_IDS)
def test_text_is_that_of_the_file(engine: str):
    """Every line shown stands in the module's file, at the number shown beside it."""
    module = importlib.import_module(f"sim.engines.{engine}")
    whole = inspect.getsource(module).split("\n")
    assert engine_source.functions(engine)
    for function in engine_source.functions(engine):
        shown = function.text.split("\n")
        first = function.first_line - 1
        assert whole[first : first + len(shown)] == shown


def test_every_stop_of_vllm_v1_has_its_lines():
    kinds = {name for name in explain.KINDS if name.startswith("stop_")}
    missing = kinds - set(engine_source.deciding("vllm_v1"))
    assert missing <= {"stop_plain", "stop_max_batch_size"}  # not this engine's


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("stop_budget", "if budget == 0:"),
        ("stop_budget_cut", "n = budget"),
        ("stop_budget_cut_new", "if n > budget:"),
        ("stop_chunk_cap", "if n < needed:"),
        ("stop_kv_blocks", "ops.record_refusal(state, r, reasons.REFUSED_KV_BLOCKS, needed, free)"),
        (
            "stop_full_prompt",
            "ops.record_refusal(state, r, reasons.REFUSED_FULL_PROMPT, needed, free)",
        ),
        ("stop_max_num_seqs", "if counters.num_running >= policy.max_num_seqs:"),
        (
            "stop_whole_prompt",
            "if not policy.enable_chunked_prefill and cap(policy, needed) > budget:",
        ),
        ("stop_queue_empty", "while counters.num_waiting > 0:"),
    ],
)
def test_the_deciding_lines(kind: str, expected: str):
    assert expected in lines(kind)


@pytest.mark.parametrize("engine", ENGINE_IDS)
def test_every_mark_writes_its_reason(engine: str):
    """Where an engine has a mark at all, the reason stands in it, or it is the loop that admits."""
    for kind, (k, marked) in engine_source.deciding(engine).items():
        text = engine_source.functions(engine)[k].text.split("\n")
        words = "\n".join(text[i] for i in marked)
        mark = engine_source.MARKS.get(kind)
        reason = mark.reason if mark else engine_source.QUEUE
        assert reason in words


def test_an_unknown_engine_has_no_source():
    assert engine_source.for_page("no_such_engine") is None

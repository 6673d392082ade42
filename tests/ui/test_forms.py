"""Choices of a page: kept while the reader is elsewhere, written into the address, read from it."""

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.ui.opening import address, go_to, kept, open_page
from ui.lessons import FORMS
from ui.scenarios.run import Run
from ui.shell import query_values
from ui.shell.query_values import say
from ui.shell.session import Session
from ui.widgets import model_choice


def session_run(at: AppTest) -> Run:
    found = kept(at, Session).run
    assert found is not None
    return found


CHANGES: dict[str, dict[str, Any]] = {
    "six_ways": {
        "six_preset": "six_ways_all_short", "six_engines": ["vllm_v1", "sglang"], "six_tp": 2,
        "six_gpu": "a100_sxm", "six_vllm_v1_max_num_batched_tokens": 256,
        "six_vllm_v1_enable_chunked_prefill": True, "six_sglang_enable_mixed_chunk": True,
    },
    "kv_memory": {
        "kv_preset": "kv_thrash", "kv_engine": "vllm_v0", "kv_preempt_by": "swap",
        "kv_watermark": 0.05, "kv_tp": 2, "kv_shared": False, "kv_gpu": "l4",
    },
}  # fmt: skip


def turn(at: AppTest, page: str) -> AppTest:
    """The first change alone: it takes others back to their start."""
    for key, value in CHANGES[page].items():
        at.session_state[key] = value
        at.run()
        assert not at.exception
    return at


@pytest.mark.parametrize("page", CHANGES)
def test_choices_survive_another_page(page: str):
    at = turn(open_page(page), page)
    for other in ("reference", page):
        go_to(at, other)
    for key, value in CHANGES[page].items():
        assert at.session_state[key] == value


@pytest.mark.parametrize("page", CHANGES)
def test_an_address_opens_what_was_looked_at(page: str):
    written = address(turn(open_page(page), page))
    assert written["v"] == "1"
    again = open_page(page, **{key.replace(".", "__"): text for key, text in written.items()})
    for key, value in CHANGES[page].items():
        assert again.session_state[key] == value
    assert address(again) == written


@pytest.mark.parametrize("page", FORMS)
def test_a_page_as_it_starts_has_a_bare_address(page: str):
    assert address(open_page(page)) == {}


@pytest.mark.parametrize("page", FORMS)
def test_every_start_can_be_written_and_read(page: str):
    for field in FORMS[page].fields:
        assert field.read(field.say(field.usual)) == field.usual


def test_names_do_not_clash_with_those_of_a_run():
    from ui.shell import permalink

    taken = {*permalink.SETTINGS, *permalink.DIALS, "v", "preset", "pin", "file", "sha256",
             "file_rate",
             "step", "view", "lock", "show", "scale"}  # fmt: skip
    for form in FORMS.values():
        names = [field.name for field in form.fields]
        assert len(names) == len(set(names))
        assert not taken & set(names)


HOSTILE = (
    ("six_ways", "workload", "<script>alert(1)</script>"),
    ("six_ways", "ways", "vllm_v1,nonsense"),
    ("six_ways", "tp", "3"),
    ("six_ways", "vllm_v1.max_num_batched_tokens", "-5"),
    ("six_ways", "sglang.chunked_prefill_size", "0"),
    ("six_ways", "tensorrt_llm.capacity_scheduler_policy", "NONE"),
    ("six_ways", "on_model", "x" * 300),
    ("kv_memory", "engine", "static"),
    ("kv_memory", "watermark", "0.5"),
    ("kv_memory", "gate", "1"),
    ("kv_memory", "swap_tp", "9" * 40),
    ("kv_memory", "nothing", "1"),
)


@pytest.mark.parametrize(("page", "key", "text"), HOSTILE)
def test_what_cannot_be_followed_gets_a_page(page: str, key: str, text: str):
    at = open_page(page, **{"v": "1", key.replace(".", "__"): text})
    assert at.title[0].value == "This link cannot be followed as it stands"
    assert any(key in line.value for line in at.text)
    at.button[-1].click().run()
    assert not at.exception
    assert at.title[0].value in ("Six ways to batch", "KV memory")


def test_the_rest_of_a_broken_address_can_be_opened():
    at = open_page("kv_memory", v="1", engine="orca", gate="maybe")
    at.button[0].click().run()
    assert not at.exception
    assert at.session_state["kv_engine"] == "orca"


def test_the_run_of_a_shared_scenario_stands_in_the_address():
    at = open_page("six_ways", v="1", workload="yours", preset="burst", budget="512")
    assert session_run(at).dials.budget == 512
    assert at.session_state["six_vllm_v1_max_num_batched_tokens"] == 512
    assert address(at) == {"v": "1", "workload": "yours", "preset": "burst", "budget": "512"}


def test_a_choice_nobody_made_follows_its_start():
    at = open_page("kv_memory")
    at.session_state["kv_gpu"] = "l4"
    at.run()
    assert at.session_state["kv_link"] == "pcie_gen4_x16"
    assert say(at.session_state["kv_watermark"]) == "0"


CONFIG = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4,
    "intermediate_size": 512, "vocab_size": 1000, "max_position_embeddings": 16384,
    "architectures": ["LlamaForCausalLM"],
}  # fmt: skip
SHORT = "config:llama,2,256,4,,,512,1000,16384,False,,small"


@pytest.mark.parametrize(("page", "key"), [("six_ways", "six_model"), ("kv_memory", "kv_model")])
def test_a_pasted_config_goes_into_the_address(page: str, key: str):
    at = open_page(page)
    at.selectbox(key=key).set_value(model_choice.PASTE).run()
    assert not at.exception
    assert address(at) == {}
    at.text_area(key=f"{key}_text").set_value("{}").run()
    assert "model_type is missing" in at.error[0].value
    at.text_area(key=f"{key}_text").set_value(json.dumps(CONFIG)).run()
    assert not at.exception
    assert not at.error
    written = address(at)
    again = open_page(page, **written)
    assert again.session_state[key] == at.session_state[key]
    assert str(at.session_state[key]).startswith("llama")
    assert sum(map(len, written.values())) < 160


def test_a_model_of_an_address_goes_round():
    found = query_values.model(SHORT)
    assert query_values.say(found) == SHORT
    assert found.model().num_kv_heads == 4
    for broken in ("config:", "config:gpt2,2,256,4,,,512,1000,16384,0,,x", SHORT.replace("4", "0")):
        with pytest.raises(ValueError, match="config: with model_type"):
            query_values.model(broken)


def test_the_token_budget_takes_a_config():
    at = open_page("token_budget")
    at.selectbox(key="setting_model").set_value(model_choice.PASTE).run()
    assert not at.exception
    at.text_area(key="setting_model_text").set_value(json.dumps(CONFIG)).run()
    assert not at.exception
    assert session_run(at).settings.model.config.hidden_size == 256
    assert "config:llama,2,256" in address(at)["model"]
    again = open_page("token_budget", **address(at))
    assert session_run(again) == session_run(at)

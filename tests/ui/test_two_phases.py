"""Two phases: every model, GPU and precision runs, and the sentences carry computed figures."""

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from sim.hardware import catalog
from sim.latency.efficiency import efficiency
from tests.ui.opening import open_page
from ui.two_phases import form, sections
from ui.widgets import model_choice

ROOT = Path(__file__).parents[2]


@pytest.fixture
def page() -> AppTest:
    """The page in its frame."""
    return open_page("two_phases")


def words(at: AppTest) -> str:
    return " ".join(element.value for element in at.markdown)


def test_the_page_shows_its_figures_and_tables(page: AppTest):
    assert page.title[0].value == "Two phases"
    assert len(page.get("plotly_chart")) == 3
    assert len(page.dataframe) == 2
    assert "the claim does not hold for one request" in words(page)


def test_a_dial_moves_the_sentence(page: AppTest):
    before = words(page)
    page.select_slider(key="phases_tokens").set_value(8192).run()
    assert not page.exception
    assert "8,192 prompt tokens take" in words(page) != before


@pytest.mark.parametrize("gpu", catalog.gpu_names())
def test_every_gpu_runs(page: AppTest, gpu: str):
    page.selectbox(key="phases_gpu").set_value(gpu).run()
    assert not page.exception
    assert efficiency(gpu, "bf16").kind in words(page)


@pytest.mark.parametrize("name", catalog.model_names())
def test_every_model_has_a_step(name: str):
    model = catalog.model(name)
    table = sections.side_by_side(model, [catalog.gpu("h100")], "bf16", 1, 512, 8, 1024)
    assert (table["decode of 8, ms"] > 0).all()
    assert 1 in form.parallel_sizes(model)


def test_a_pasted_config_is_used_or_refused_in_words(page: AppTest):
    page.selectbox(key="phases_model").set_value(model_choice.PASTE).run()
    page.text_area(key="phases_model_text").set_value("{").run()
    assert "not JSON" in page.error[0].value
    config = {
        "model_type": "llama",
        "num_hidden_layers": 2,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "intermediate_size": 512,
        "vocab_size": 1000,
        "max_position_embeddings": 2048,
    }
    page.text_area(key="phases_model_text").set_value(json.dumps(config)).run()
    assert not page.error
    assert not page.exception
    assert "llama 0.00B on" in words(page)

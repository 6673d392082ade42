"""The app without a browser: every page and preset runs, with its frame and without."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.ui.opening import open_page
from ui.scenarios.presets import TOKEN_BUDGET, YOUR_TRACE
from ui.text import claims

ROOT = Path(__file__).parents[2]
TILES = 5


@pytest.fixture
def app() -> AppTest:
    """The Token budget page in its frame."""
    return open_page("token_budget")


def test_the_page_stands_in_its_frame(app: AppTest):
    assert app.title[0].value == "Token budget"
    assert "Batchscope" in app.sidebar.markdown[0].value
    assert len(app.metric) == TILES
    assert app.get("bidi_component")


@pytest.mark.parametrize("preset", [preset.id for preset in TOKEN_BUDGET])
def test_every_preset_runs(app: AppTest, preset: str):
    app.session_state["preset"] = preset
    app.run()
    assert not app.exception
    assert len(app.metric) == TILES


def test_a_page_runs_without_its_frame():
    at = AppTest.from_file(str(ROOT / "pages" / "token_budget.py"), default_timeout=120).run()
    assert not at.exception
    assert len(at.metric) == TILES


def test_your_trace_asks_for_a_file_and_shows_the_way_back(app: AppTest):
    app.session_state["preset"] = YOUR_TRACE.id
    app.run()
    assert "No trace yet" in app.markdown[-1].value
    app.button[0].click().run()
    assert len(app.metric) == TILES


def test_settings_change_the_run(app: AppTest):
    worst = app.metric[0].value
    app.selectbox(key="setting_gpu").set_value("h100_sxm").run()
    assert not app.exception
    assert app.metric[0].value != worst


def test_a_refused_setting_keeps_the_last_figures(app: AppTest):
    worst = app.metric[0].value
    app.number_input(key="setting_max_model_len").set_value(1_000_000).run()
    assert not app.exception
    assert app.metric[0].value == worst
    assert any("last settings that the engine accepted" in line.value for line in app.caption)


@pytest.mark.parametrize("wanted", ["", "reference"])
def test_the_other_pages_run(wanted: str):
    assert open_page(wanted).title


@pytest.mark.parametrize("file", sorted((ROOT / "pages").glob("*.py")), ids=lambda f: f.name)
def test_every_page_runs_without_its_frame(file: Path):
    at = AppTest.from_file(str(file), default_timeout=120).run()
    assert not at.exception


def test_every_claim_has_words():
    assert all(claim.claim and claim.holds for claim in claims.CLAIMS)


def test_the_page_says_how_sure_its_milliseconds_are(app: AppTest):
    said = " ".join(caption.value for caption in app.caption)
    assert "Simulated; step times: calibrated for this GPU, expected error of a step" in said

"""Figures: pure, small, and true to the trace."""

import subprocess
import sys

import numpy as np
import pytest

from sim.results.run import simulate
from sim.scenario.load import parse_scenario
from ui import charts
from ui.charts.latency import gaps
from ui.charts.look import Named, largest_of_bins
from ui.scenarios.presets import scenario_of

DRAW = (
    charts.itl_over_time, charts.ttft_per_request, charts.kv_use, charts.queue_length,
)  # fmt: skip


@pytest.fixture(scope="module")
def crowd():
    data = scenario_of("code_completion").model_dump(mode="json")
    data["workload"]["classes"][0]["count"] = 2000
    return simulate(parse_scenario(data))


@pytest.fixture(scope="module")
def few():
    return simulate(scenario_of("four_chats_one_document"))


def num_points(plot) -> int:
    return sum(len(recording.x) for recording in plot.data)


@pytest.mark.parametrize("draw", DRAW)
@pytest.mark.parametrize("dark", [False, True])
def test_a_figure_stays_small(draw, dark: bool, crowd, few):
    for lanes in ([Named("now", crowd)], [Named("now", crowd), Named("pinned", crowd)]):
        assert 0 < num_points(draw(lanes, dark=dark)) < 5000
    assert num_points(draw([Named("now", few)], dark=dark)) > 0


def test_gaps_are_the_metric_s(few):
    _, _, length = gaps(few)
    block = few.summary["itl_s"]
    assert length.max() == pytest.approx(block["max"])
    assert np.percentile(length, 99) == pytest.approx(block["p99"])
    assert len(length) == few.summary["output_tokens"] - len(few.workload)


def test_thinning_keeps_the_largest():
    x = np.linspace(0, 1, 10_000)
    y = np.zeros(10_000)
    y[4321] = 9
    kept = largest_of_bins(x, y, 100)
    assert len(kept) <= 100
    assert 4321 in kept


def test_figures_load_no_streamlit():
    script = "import sys, ui.charts.look; print('streamlit' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"

"""Two runs beside each other: words and arrows that follow from the figures."""

from dataclasses import replace

import pytest

from sim.results.run import simulate
from ui.scenarios.presets import TOKEN_BUDGET, scenario_of
from ui.scenarios.run import Dials, Run, start_of
from ui.text import comparison, run_summary
from ui.token_budget.variants import is_drawn, other_budget, variants

DEFAULT = TOKEN_BUDGET[0].id


def result(run: Run):
    return simulate(run.scenario(scenario_of(run.preset)))


def text(parts) -> str:
    return "".join(words for words, _ in parts)


def compare(a: Run, b: Run) -> tuple[str, list[run_summary.Tile]]:
    ours, theirs = result(a), result(b)
    differ = comparison.differences(a, b)
    return text(comparison.sentence(ours, theirs, differ)), comparison.tiles(ours, theirs)


def test_small_chunks_against_a_whole_prompt():
    whole = start_of(DEFAULT)
    chunks = replace(whole, dials=Dials(256, 0))
    said, tiles = compare(chunks, whole)
    assert said.startswith("An 8,000-token document arrives while four people chat. In 32 chunks")
    assert "no stream waits more than" in said
    assert "; whole, all streams freeze for" in said
    assert "The document pays: first token after" in said
    worst, _, ttft, _, used = tiles
    assert worst.delta.better is True
    assert worst.delta.direction == -1
    assert worst.delta.words.endswith("less")
    assert ttft.delta.better is False
    assert used.delta.better is None


def test_figures_are_those_of_the_tiles():
    whole = start_of(DEFAULT)
    said, tiles = compare(replace(whole, dials=Dials(256, 0)), whole)
    assert f"no stream waits more than {tiles[0].value}" in said
    assert f"after {tiles[2].value} instead of" in said


def test_the_same_run_twice_differs_in_nothing():
    run = start_of(DEFAULT)
    said, tiles = compare(run, run)
    assert "the same again" in said
    assert all(tile.delta.words == "the same" and tile.delta.direction == 0 for tile in tiles)
    assert comparison.differences(run, run) == []


def test_a_crowd_is_compared_by_its_figures():
    run = start_of("burst")
    said, _ = compare(run, replace(run, settings=replace(run.settings, seed=1)))
    assert said.startswith("36 requests, compared with seed 1: the longest gap")


def test_another_gpu_is_named():
    run = start_of(DEFAULT)
    other = replace(run, settings=replace(run.settings, gpu="h100_sxm"))
    said, _ = compare(run, other)
    assert "; H100" in said


@pytest.mark.parametrize("preset", [p.id for p in TOKEN_BUDGET])
def test_every_variant_runs(preset: str):
    run, base = start_of(preset), scenario_of(preset)
    length = result(run).resolved.replicas[0].knobs.max_model_len
    found = variants(run, base, length)
    assert "seed" in [v.id for v in found] if is_drawn(base) else True
    assert len(found) >= 1
    for variant in found:
        assert comparison.differences(run, variant.run)
        result(variant.run)


def test_other_budgets():
    assert [other_budget(n) for n in (16, 512, 2048, 8192)] == [64, 8192, 512, 512]

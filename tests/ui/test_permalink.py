"""A choice as an address and back: nothing is lost, nothing is dropped in silence."""

from dataclasses import replace

import pytest

from ui.scenarios.presets import TOKEN_BUDGET, YOUR_TRACE, scenario_of
from ui.scenarios.run import Choice, Dials, Run, UploadRef, start_of
from ui.shell import permalink, query_values
from ui.shell.permalink import Frame, LinkError
from ui.token_budget.variants import variants

DEFAULT = TOKEN_BUDGET[0].id


def changed(preset: str = DEFAULT) -> Run:
    run = start_of(preset)
    settings = replace(
        run.settings, gpu="h100_sxm", chunking=False, max_num_seqs=64, max_model_len=None,
        num_gpu_blocks=9000, prefix_caching=False, seed=7, itl_limit_s=0.0325,
    )  # fmt: skip
    return replace(run, settings=settings, dials=Dials(12288, 448))


def length(query: dict[str, str]) -> int:
    from urllib.parse import urlencode

    return len(urlencode(query))


@pytest.mark.parametrize("preset", [*(p.id for p in TOKEN_BUDGET), YOUR_TRACE.id])
def test_a_preset_as_it_is_is_short(preset: str):
    query = permalink.write(Choice(start_of(preset)))
    assert query == {"v": "1", "preset": preset}
    assert permalink.read(query).choice.run.preset == preset


def test_both_runs_go_round():
    choice = Choice(changed(), replace(start_of(DEFAULT), dials=Dials(512, 0)))
    query = permalink.write(choice, Frame(("budget", "play"), 1.5))
    opened = permalink.read(query | {"step": "28", "view": "time,0.5,3"})
    assert opened.choice == choice
    assert opened.frame == Frame(("budget", "play"), 1.5)
    assert (opened.view.step, opened.view.axis, opened.view.end) == (28, "time", 3.0)


@pytest.mark.parametrize("preset", [p.id for p in TOKEN_BUDGET])
def test_every_variant_goes_round(preset: str):
    run = start_of(preset)
    for variant in variants(run, scenario_of(preset), 8192):
        choice = Choice(run, variant.run)
        assert permalink.read(permalink.write(choice)).choice == choice


def test_the_longest_link_is_short_enough():
    run = changed(YOUR_TRACE.id)
    run = replace(run, settings=replace(run.settings, time_scale=0.123456789))
    file = UploadRef("\N{CAT FACE}" * 90, "0" * 64, 123.456789)
    shown = permalink.CONTROLS
    query = permalink.write(Choice(run, run, file), Frame(shown, 1.5))
    query |= {"step": "999999", "view": "time,123456.123456,123457.123456"}
    assert length(query) < 1500
    assert permalink.read(query).choice.upload.sha256 == file.sha256


@pytest.mark.parametrize(
    ("query", "key", "words"),
    [
        ({"v": "2"}, "v", "this page reads version 1"),
        ({"preset": "nope"}, "preset", "must be a preset of this page"),
        ({"preset": DEFAULT, "budgt": "512"}, "budgt", "means nothing here"),
        ({"preset": DEFAULT, "budget": "abc"}, "budget", "a whole number from 16 to 16,384"),
        ({"preset": DEFAULT, "budget": "99999999999999999999"}, "budget", "a whole number"),
        ({"preset": DEFAULT, "budget": "٥١٢"}, "budget", "a whole number"),
        ({"preset": DEFAULT, "cap": "on"}, "cap", "or off"),
        ({"preset": DEFAULT, "chunking": "maybe"}, "chunking", "on or off"),
        ({"preset": DEFAULT, "gpu": "<script>alert(1)</script>"}, "gpu", "a GPU of this page"),
        ({"preset": DEFAULT, "limit": "nan"}, "limit", "a number from"),
        ({"preset": DEFAULT, "rate": "3"}, "rate", "is no setting of this preset"),
        ({"preset": DEFAULT, "pin.budget": "512"}, "pin.budget", "without pin="),
        ({"budget": "512"}, "budget", "without preset="),
        ({"preset": DEFAULT, "file": "a.csv"}, "file", "means nothing"),
        ({"preset": DEFAULT, "view": "time,3,1"}, "view", "a later end"),
        ({"show": "budget"}, "show", "belongs to lock=1"),
        ({"lock": "1", "show": "everything"}, "show", "a list of"),
        ({"scale": "40"}, "scale", "a number from 0.5 to 3"),
    ],
)
def test_what_cannot_be_followed_is_named(query: dict[str, str], key: str, words: str):
    if key == "file":
        query = query | {"sha256": "0" * 64}
        words = "belongs to preset=your_trace"
    with pytest.raises(LinkError) as refused:
        permalink.read(query)
    assert words in refused.value.problems[key]
    assert key not in refused.value.rest
    assert all(problem.isprintable() for problem in refused.value.problems.values())


def test_the_rest_of_a_refused_link_can_be_opened():
    query = permalink.write(Choice(changed())) | {"utm_source": "mail", "seed": "x"}
    with pytest.raises(LinkError) as refused:
        permalink.read(query)
    assert set(refused.value.problems) == {"utm_source", "seed"}
    assert permalink.read(refused.value.rest).choice.run.dials == Dials(12288, 448)


def test_a_long_address_is_refused_whole():
    with pytest.raises(LinkError, match="at most 1,500"):
        permalink.read({"preset": "x" * 5000})


def test_foreign_text_is_cut_and_printable():
    assert query_values.shortened("a\x00b\u202e" + "c" * 99).startswith(
        "“a\N{REPLACEMENT CHARACTER}b"
    )
    assert len(query_values.shortened("c" * 99)) < 45

"""The sentence above the timeline, the tiles, the settings, the suggested fixes."""

import pytest

from sim.results.run import simulate
from sim.scenario.load import ScenarioError, parse_scenario, resolve
from ui.scenarios.presets import TOKEN_BUDGET, YOUR_TRACE, scenario_of
from ui.scenarios.settings import apply, refused_below, settings_of, with_file
from ui.text import run_summary, suggested_fixes


def words(parts) -> str:
    return "".join(text for text, _ in parts)


def run(preset, **knobs):
    data = scenario_of(preset).model_dump(mode="json")
    data["replicas"][0]["policy"] |= knobs
    return simulate(parse_scenario(data))


def test_a_document_taken_whole_freezes_everyone():
    result = run("four_chats_one_document")
    parts = run_summary.sentence(result)
    assert words(parts).startswith(
        "An 8,000-token document arrives while four people chat. Computed whole, in one step of "
    )
    assert [tone for text, tone in parts if "all streams freeze" in text] == ["stall"]


def test_small_chunks_free_them():
    result = run("four_chats_one_document", max_num_batched_tokens=64)
    text = words(run_summary.sentence(result))
    assert "chunks of at most 60 tokens" in text
    assert "no stream waits more than" in text


def test_a_crowd_has_no_hero():
    text = words(run_summary.sentence(run("burst")))
    assert text.startswith("36 requests: median time to first token ")


def test_a_run_without_a_token_says_the_limit_and_the_cure():
    result = run("four_chats_one_document", max_model_len=32)
    assert words(run_summary.sentence(result)) == (
        "No request gets a token. 5 of 5 requests rejected: prompts of up to 8,000 tokens leave no "
        "room for an output in max_model_len (32); raise max_model_len above 8,000 or send shorter "
        "prompts."
    )


def test_some_rejected_requests_say_the_limit_and_the_cure():
    assert run("four_chats_one_document", max_model_len=2048).rejections == (
        "1 of 5 requests rejected: prompts of up to 8,000 tokens leave no room for an output in "
        "max_model_len (2,048); raise max_model_len above 8,000 or send shorter prompts",
    )
    assert run("burst").rejections == ()


@pytest.mark.parametrize("preset", [preset.id for preset in TOKEN_BUDGET])
def test_every_preset_has_five_tiles(preset):
    tiles = run_summary.tiles(run(preset))
    assert len(tiles) == 5
    assert all(tile.value and tile.definition for tile in tiles)


def test_settings_go_round():
    for preset in (*TOKEN_BUDGET, YOUR_TRACE):
        scenario = scenario_of(preset.id)
        policy = scenario.replicas[0].policy
        again = apply(
            scenario,
            settings_of(scenario),
            policy.max_num_batched_tokens,
            policy.long_prefill_token_threshold,
        )
        assert settings_of(again) == settings_of(scenario)
        assert again.workload == scenario.workload


def test_an_upload_keeps_the_server():
    scenario = with_file(scenario_of(YOUR_TRACE.id), "my.csv", "0" * 64, 100, None)
    assert scenario.workload.file == "my.csv"
    assert scenario.replicas == scenario_of(YOUR_TRACE.id).replicas
    assert settings_of(scenario).time_scale == 1.0


def test_chunking_off_below_max_model_len_names_three_ways_out():
    scenario = scenario_of("four_chats_one_document")
    settings = settings_of(scenario).__class__(
        **{**settings_of(scenario).__dict__, "chunking": False}
    )
    with pytest.raises(ScenarioError) as refused:
        resolve(apply(scenario, settings, 2048, 0))
    problem = suggested_fixes.problem(refused.value, settings, 2048)
    assert "chunked prefill off" in problem.text
    assert [fix.id for fix in problem.fixes] == [
        "chunking_on", "budget:8192", "length:2048", "preset",
    ]  # fmt: skip
    assert refused_below(settings, 8192) == 8192


def test_a_model_too_long_for_the_card_says_what_fits():
    scenario = scenario_of("four_chats_one_document")
    settings = settings_of(scenario).__class__(
        **{**settings_of(scenario).__dict__, "max_model_len": 1_000_000}
    )
    with pytest.raises(ScenarioError) as refused:
        resolve(apply(scenario, settings, 8192, 0))
    ids = [fix.id for fix in suggested_fixes.problem(refused.value, settings, 8192).fixes]
    assert ids[0].startswith("length:")

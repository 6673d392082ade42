"""What the inspector says: sentences of whole steps, with numbers that one can check by hand."""

import numpy as np
import pytest

from sim.core import reasons
from sim.results.run import simulate
from sim.scenario.load import parse_scenario
from tests.ui import toy
from ui.scenarios.presets import TOKEN_BUDGET, scenario_of
from ui.text import explain
from ui.text.explain import Limits, Sentence

NAMES = ["chat 1", "chat 2", "chat 3", "chat 4", "document", "chat 5", "chat 6"]


def said(recording, limits, step):
    lines = explain.sentences(recording, limits, step, NAMES.__getitem__)
    return [(line.chip, line.text) for line in lines]


def test_a_chunk_and_the_request_that_waits():
    """The document is under way, chat 5 has come: what the picture of the page shows."""
    recording, limits = toy.run(toy.chats_and_document(), 512), Limits(512)
    step = int(np.searchsorted(recording.steps.start_s, 0.22))
    done = 508 * (step - int(np.searchsorted(recording.steps.start_s, 0.16)))
    assert said(recording, limits, step) == [
        ("4 decodes", "4 tokens, one each, in list order"),
        ("document", f"508 = min({8000 - done:,} still to compute, 508 left of 512, cap off)"),
        ("stopped by", "**budget spent**: chat 5 waits, 0 of 512 tokens left"),
    ]


def test_a_prompt_cut_by_the_budget_with_no_request_waiting():
    recording = toy.run([(0.0, 40, 2)], budget=16)
    assert said(recording, Limits(16), 0) == [
        ("chat 1", "16 = min(40 still to compute, 16 left of 16, cap off)"),
        ("stopped by", "**budget spent**: chat 1 has 24 tokens still to compute, 0 of 16 left"),
    ]


def test_a_cap_leaves_budget_unused():
    recording = toy.run([(0.0, 40, 2)], budget=64, cap=16)
    assert said(recording, Limits(64, 16), 0) == [
        ("chat 1", "16 = min(40 still to compute, 64 left of 64, cap 16)"),
        ("stopped by", "**cap per request**: chat 1 may take 16 per step, 48 of 64 tokens unused"),
    ]


def test_a_step_that_serves_every_request():
    recording = toy.run([(0.0, 4, 3)], budget=16)
    assert said(recording, Limits(16), 1) == [
        ("1 decode", "1 token"),
        ("stopped by", "**nothing left to do**: every request was served, 15 of 16 tokens unused"),
    ]


def test_a_single_decode_is_singular():
    assert explain.decode_sentence(1) == Sentence("1 decode", "decode", "1 token")
    assert explain.decode_sentence(0) is None


@pytest.mark.parametrize("preset", [preset.id for preset in TOKEN_BUDGET])
def test_the_real_scheduler_explains_itself(preset):
    """Every step of every preset: tokens told add up to tokens scheduled, one stop each."""
    result = simulate(scenario_of(preset))
    check_whole(result)


@pytest.mark.parametrize(
    ("knobs", "sentence"),
    [
        ({"num_gpu_blocks": 520}, "stop_full_prompt"),
        ({"max_num_seqs": 6}, "stop_max_num_seqs"),
        ({"max_num_seqs": 6, "long_prefill_token_threshold": 256}, "stop_chunk_cap"),
        (
            {"enable_chunked_prefill": False, "max_num_batched_tokens": 8192},
            "stop_whole_prompt",
        ),
    ],
)
def test_every_limit_has_its_sentence(knobs, sentence):
    data = scenario_of("burst").model_dump(mode="json")
    data["replicas"][0]["policy"] |= knobs
    told = check_whole(simulate(parse_scenario(data)))
    assert {
        explain.KINDS[name] for name in (sentence, f"{sentence}_new") if name in explain.KINDS
    } & set(told.kind.tolist())


def check_whole(result) -> np.recarray:
    recording, knobs = result.recording, result.resolved.replicas[0].knobs
    limits = Limits(knobs.max_num_batched_tokens, knobs.long_prefill_token_threshold)
    told = explain.facts(recording, limits, 0, len(recording.steps))
    chunks = np.isin(told.kind, explain.CHUNK_KINDS)
    tokens = np.bincount(told.step[chunks], told.a[chunks], minlength=len(recording.steps))
    assert tokens.tolist() == recording.steps.num_prefill_tokens.tolist()
    stops = told.kind >= explain.KINDS["stop_queue_empty"]
    assert told.step[stops].tolist() == list(range(len(recording.steps)))
    assert explain.KINDS["stop_plain"] not in told.kind
    for step in range(0, len(recording.steps), 37):
        for line in explain.sentences(recording, limits, step, result.workload.label):
            assert "{" not in line.text + line.chip
    return told


def test_reasons_without_numbers_are_still_words():
    recording = toy.run([(0.0, 4, 3)], budget=16)
    recording.steps.stop_reason[0] = reasons.KV_BLOCKS
    assert said(recording, Limits(16), 0)[-1] == ("stopped by", "**kv blocks**")

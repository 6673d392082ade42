"""Times and counts of streams, exact: client and server share a virtual clock."""

import asyncio
from typing import Any

import numpy as np
import pytest

from gpu_backend.serve_check.client import Caps, measure
from gpu_backend.serve_check.endpoint_policy import EndpointError
from gpu_backend.serve_check.figures import compare, gaps_of, measured_figures, one_token_each
from gpu_backend.serve_check.request_timing import Outcome
from sim.workload.workload import Workload

from .virtual import (
    DONE,
    Script,
    ScriptedServer,
    client_of,
    delta,
    event,
    finish,
    requests,
    run,
    scenario_of,
    text,
    usage,
)


def one(script: Script, api: str = "completions", **fields: Any) -> Outcome:
    """The outcome of one request that arrives after 1 s."""
    server = ScriptedServer(lambda body: script)
    _, (outcome,) = run(measure(client_of(server, api, **fields), requests([1.0])))
    assert isinstance(outcome, Outcome)
    return outcome


PLAIN: Script = (
    (0.5, text("a")),
    (0.25, text("b")),
    (0.125, text("c")),
    (0.0, finish()),
    (0.5, usage(3)),
    (0.0, DONE),
)


def test_a_plain_stream() -> None:
    """Sent at 1 s; tokens at 1.5, 1.75 and 1.875 s; what follows is no token."""
    outcome = one(PLAIN)
    assert (outcome.status, outcome.sent_s) == ("finished", 1.0)
    assert outcome.chunk_s == [1.5, 1.75, 1.875]
    assert (outcome.prompt_tokens, outcome.output_tokens) == (10, 3)
    assert outcome.done
    figures = measured_figures([outcome])
    assert figures["ttft_s"]["p50"] == 0.5
    assert figures["e2e_s"]["p50"] == 0.875
    assert figures["tpot_s"]["p50"] == 0.375 / 2
    assert figures["itl_s"] == {"p50": 0.1875, "p95": pytest.approx(0.125 + 0.95 * 0.125)}
    assert figures["output_tokens_per_s"] == 3 / 0.875


def test_role_null_and_empty_chunks_are_no_tokens() -> None:
    outcome = one(
        (
            (0.25, delta(role="assistant")),
            (0.25, delta(role="assistant", content=None)),
            (0.25, delta(content="")),
            (0.25, delta(content="Hi")),
            (0.5, delta(content="!")),
            (0.25, finish("stop")),
            (0.0, usage(3)),
            (0.0, DONE),
        ),
        "chat",
    )
    assert outcome.chunk_s == [2.0, 2.5]
    assert measured_figures([outcome])["ttft_s"]["p50"] == 1.0
    assert one_token_each(outcome)  # the third token ended the answer and has no text


def test_several_tokens_a_chunk_count_in_tpot_and_not_in_itl() -> None:
    outcome = one(
        ((1.0, text("a b c")), (0.5, text(" d e f g")), (0.0, finish()), (0.0, usage(7)), (0, DONE))
    )
    figures = measured_figures([outcome])
    assert outcome.output_tokens == 7
    assert figures["tpot_s"]["p50"] == 0.5 / 6
    assert figures["itl_s"] is None
    assert figures["inter_chunk_s"] == {"p50": 0.5, "p95": 0.5}
    report = compare("tiny", [outcome], requests([1.0], output=7), None)
    assert report["notes"] == [
        "1 answers had chunks of several tokens: not in ITL; inter-chunk latency has them"
    ]


def test_reasoning_comes_before_the_answer() -> None:
    outcome = one(
        (
            (0.25, delta(role="assistant", content=None)),
            (0.25, delta(reasoning_content="Hm")),
            (0.25, delta(reasoning=".")),
            (1.0, delta(content="Yes")),
            (0.0, finish()),
            (0.0, usage(3, completion_tokens_details={"reasoning_tokens": 2})),
            (0.0, DONE),
        ),
        "chat",
    )
    assert outcome.chunk_s == [1.5, 1.75, 2.75]
    assert outcome.reasoning_tokens == 2
    figures = measured_figures([outcome])
    assert figures["ttft_s"]["p50"] == 0.5
    assert figures["ttft_visible_s"]["p50"] == 1.75
    report = compare("tiny", [outcome], requests([1.0]), None)
    assert "TTFT is that of the first reasoning token" in report["notes"][0]


def test_comments_and_pieces_of_lines_change_nothing() -> None:
    """A chunk's moment is that of the bytes which end its line."""
    whole = text("a")
    outcome = one(
        (
            (0.25, b": keep-alive\n\n"),
            (0.25, whole[:9]),
            (0.25, b"" + whole[9:]),
            (0.25, text("b") + b":\r\n\r\n" + text("c").replace(b"\n", b"\r\n")),
            (0.0, finish() + usage(3) + DONE),
        )
    )
    assert outcome.chunk_s == [1.75, 2.0, 2.0]
    assert outcome.status == "finished"


def test_usage_beside_the_last_choice_counts() -> None:
    """llama.cpp's /completions sends it with the finish reason, not in a chunk of its own."""
    last = text("", usage={"prompt_tokens": 4, "completion_tokens": 2})
    last = last.replace(b'"text": ""', b'"text": "", "finish_reason": "length"')
    outcome = one(((1.0, text("a")), (1.0, text("b")), (0.0, last), (0.0, DONE)))
    assert (outcome.prompt_tokens, outcome.output_tokens, outcome.finish_reason) == (4, 2, "length")


def test_without_usage_there_is_no_token_count_and_no_tpot() -> None:
    outcome = one(((1.0, text("a")), (1.0, text("b")), (0.0, finish()), (0.0, DONE)))
    assert outcome.status == "finished"
    figures = measured_figures([outcome])
    assert (figures["tpot_s"], figures["itl_s"]) == (None, None)
    assert figures["ttft_s"]["p50"] == 1.0
    assert figures["inter_chunk_s"]["p50"] == 1.0
    notes = compare("tiny", [outcome], requests([1.0]), None)["notes"]
    assert notes == ["1 answers came without usage: no tokens, TPOT or ITL for them"]


def test_a_stream_without_done_is_finished_if_it_said_so() -> None:
    said = one(((1.0, text("a")), (0.0, finish()), (0.0, usage(1))))
    assert (said.status, said.done) == ("finished", False)
    notes = compare("tiny", [said], requests([1.0], output=1), None)["notes"]
    assert notes == ["1 answers ended without [DONE]"]
    silent = one(((1.0, text("a")), (1.0, text("b"))))
    assert silent.status == "failed"
    assert silent.error == "the stream ended without finish_reason and [DONE]"


def test_nothing_after_done_is_waited_for() -> None:
    outcome = one(((1.0, text("a")), (0, finish()), (0, usage(1)), (0, DONE), (999.0, text("z"))))
    assert (outcome.status, outcome.chunk_s) == ("finished", [2.0])


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (event({"error": {"message": "CUDA out of memory", "code": 500}}), "CUDA out of memory"),
        (event({"error": "too long"}), "error in the stream: too long"),
        (event({"object": "error", "message": "engine died"}), "engine died"),
        (b'event: error\ndata: {"detail": "gone"}\n\n', "in the stream: gone"),
        (b"data: {oops\n\n", "found '{oops', which is not JSON"),
        (b"data: 7\n\n", "found '7', which is not a completion chunk"),
        (event({"id": 1}), "a chunk without choices"),
        (DONE, "without any generated text"),
    ],
)
def test_an_error_in_the_stream_ends_that_request_in_words(last: bytes, words: str) -> None:
    first = () if last == DONE else ((1.0, text("a")),)
    outcome = one((*first, (0.5, last), (1.0, text("b"))))
    assert outcome.status == "failed"
    assert words in (outcome.error or "")
    assert len(outcome.chunk_s) == len(first)


# --- many requests --------------------------------------------------------------------------------


def test_the_loop_is_open_however_slow_the_answers() -> None:
    times = [0.0, 0.25, 0.5, 2.0]
    server = ScriptedServer(lambda body: [(10.0, text("a")), (0, finish() + usage(1) + DONE)])
    model, outcomes = run(measure(client_of(server), requests(times, output=1)))
    assert model == "tiny"
    assert [when for when, _ in server.asked] == times
    assert [outcome.chunk_s for outcome in outcomes] == [[10.0 + s] for s in times]
    assert not compare(model, outcomes, requests(times, output=1), None)["contaminated"]


def test_too_few_places_make_the_client_late_and_it_says_so() -> None:
    server = ScriptedServer(lambda body: [(1.0, text("a")), (0, finish() + usage(1) + DONE)])
    client = client_of(server, caps=Caps(concurrency=1))
    workload = requests([0.0, 0.5], output=1)
    _, outcomes = run(measure(client, workload))
    assert [outcome.sent_s for outcome in outcomes] == [0.0, 1.0]
    report = compare("tiny", outcomes, workload, None)
    assert report["contaminated"]
    assert report["contaminated_why"] == "1 of 2 requests went out late, by up to 500 ms"


def test_what_is_sent() -> None:
    server = ScriptedServer(lambda body: PLAIN)
    run(measure(client_of(server), requests([0.0], prompt=7, output=5)))
    body = server.asked[0][1]
    ids = body.pop("prompt")
    assert len(ids) == 7
    assert all(1000 <= token < 21_000 for token in ids)
    assert body == {
        "model": "tiny",
        "max_tokens": 5,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }
    client = client_of(server, "chat", model="named", ignore_eos=False)
    run(measure(client, requests([0.0], prompt=7)))
    body = server.asked[1][1]
    assert (body["model"], "ignore_eos" in body) == ("named", False)
    assert len(body["messages"][0]["content"].split()) == 7


def test_a_shared_prefix_is_shared_and_the_rest_is_not() -> None:
    server = ScriptedServer(lambda body: PLAIN)
    prefix = {"tokens": 6, "groups": 1}
    run(measure(client_of(server), requests([0.0, 1.0], prompt=10, shared_prefix=prefix)))
    first, second = (body["prompt"] for _, body in server.asked)
    assert first[:6] == second[:6]
    assert first[6:] != second[6:]


def test_a_client_that_goes_away_is_aborted_and_a_slow_answer_fails() -> None:
    slow = [(1.0, text("a")) for _ in range(1000)]
    gone = requests([0.5], abort_after_s=3.5)
    _, (outcome,) = run(measure(client_of(ScriptedServer(lambda body: slow)), gone))
    assert (outcome.status, outcome.error) == ("aborted", None)
    assert outcome.chunk_s == [1.5, 2.5, 3.5]
    client = client_of(ScriptedServer(lambda body: slow), caps=Caps(request_s=2.5))
    _, (outcome,) = run(measure(client, requests([0.0])))
    assert (outcome.status, outcome.error) == ("failed", "not finished after 2.5 s")


def test_the_run_ends_when_its_time_is_up_and_on_cancel() -> None:
    never = ScriptedServer(lambda body: [(1e6, b"")])
    workload = requests([0.0, 5.0])
    client = client_of(never, caps=Caps(total_s=20.0, request_s=1e9))
    _, outcomes = run(measure(client, workload))
    assert [o.status for o in outcomes] == ["cancelled"] * 2
    assert {o.error for o in outcomes} == {"the run ended after 20 s"}
    asked: list[float] = []

    def after_one_second() -> bool:
        asked.append(asyncio.get_running_loop().time())
        return asked[-1] > 1.0

    _, outcomes = run(measure(client_of(never), workload, cancelled=after_one_second))
    assert [(o.status, o.sent_s) for o in outcomes] == [("cancelled", 0.0), ("cancelled", None)]


def test_progress_counts_the_answers() -> None:
    seen: list[tuple[int, int]] = []
    server = ScriptedServer(lambda body: PLAIN)
    note = lambda done, total: seen.append((done, total))  # noqa: E731
    run(measure(client_of(server), requests([0.0, 1.0, 2.0]), progress=note))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("caps", "words"),
    [
        (Caps(requests=1), "2 requests; at most 1 are sent"),
        (Caps(tokens=20), "26 tokens in all; at most 20"),
        (Caps(total_s=0.5), "the last request arrives at 1 s; at most 0.5 s"),
    ],
)
def test_a_workload_beyond_the_caps_is_refused(caps: Caps, words: str) -> None:
    server = ScriptedServer(lambda body: PLAIN)
    with pytest.raises(EndpointError, match=words):
        run(measure(client_of(server, caps=caps), requests([0.0, 1.0])))
    assert server.asked == []


def test_a_closed_loop_is_refused() -> None:
    workload = requests([0.0, 1.0])
    workload.arrival_s[1] = np.inf
    with pytest.raises(EndpointError, match="a closed loop has no arrival times"):
        run(measure(client_of(ScriptedServer(lambda body: PLAIN)), workload))


# --- beside the simulation ------------------------------------------------------------------------


def paced(workload: Workload, outcomes: list[Outcome]) -> None:
    """Every token when the linear toy of one request at a time would send it."""
    for outcome in outcomes:
        i = outcome.index
        first = 0.005 + 1.2e-5 * int(workload.num_prompt_tokens[i])
        gaps = (0.005 + 4e-5) * np.arange(int(workload.output_len[i]))
        sent = float(workload.arrival_s[i])
        outcome.sent_s, outcome.status, outcome.finish_reason = sent, "finished", "length"
        outcome.chunk_s = (sent + first + gaps).tolist()
        outcome.first_visible_s = outcome.chunk_s[0]
        outcome.output_tokens = int(workload.output_len[i])
        outcome.prompt_tokens = int(workload.num_prompt_tokens[i])
        outcome.done = True


def test_a_server_that_is_as_the_simulation_says_differs_by_nothing() -> None:
    scenario = scenario_of([0.0, 10.0, 20.0], prompt=100, output=8)
    workload = requests([0.0, 10.0, 20.0], prompt=100, output=8)
    outcomes = [Outcome(i, float(s)) for i, s in enumerate(workload.arrival_s)]
    paced(workload, outcomes)
    report = compare("toy", outcomes, workload, scenario)
    assert report["notes"] == []
    for name in ("ttft_s", "itl_s", "tpot_s", "e2e_s"):
        assert report["measured"][name] == pytest.approx(report["simulated"][name], rel=1e-9)
        assert report["difference"][name] == pytest.approx({"p50": 0.0, "p95": 0.0}, abs=1e-9)
    assert report["difference"]["duration_s"] == pytest.approx(0.0, abs=1e-9)


def test_the_simulation_runs_with_the_tokens_that_the_server_counted() -> None:
    """It was asked for 8 tokens after a prompt of 100; it counted 130 and stopped after 4."""
    scenario = scenario_of([0.0], prompt=100, output=8)
    workload = requests([0.0], prompt=100, output=8)
    outcome = Outcome(0, 0.0)
    paced(requests([0.0], prompt=130, output=4), [outcome])
    report = compare("toy", [outcome], workload, scenario)
    assert report["simulated"]["ttft_s"]["p50"] == pytest.approx(0.005 + 130 * 1.2e-5)
    assert report["difference"]["e2e_s"]["p50"] == pytest.approx(0.0, abs=1e-9)
    assert report["notes"] == [
        "130 prompt tokens were counted by the server, 100 were asked for; the simulation runs "
        "with the server's",
        "4 output tokens were counted by the server, 8 were asked for; the simulation runs with "
        "the server's",
    ]


def test_gaps_are_between_chunks() -> None:
    outcome = Outcome(0, 0.0, chunk_s=[1.0, 1.5, 3.0])
    assert gaps_of(outcome) == [0.5, 1.5]

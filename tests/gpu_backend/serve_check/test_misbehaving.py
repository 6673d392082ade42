"""A server that misbehaves over real sockets: a clear error for each, and nothing that hangs."""

import asyncio
import contextlib
import logging
import time

import pytest

from gpu_backend.serve_check.client import Caps, Client, measure
from gpu_backend.serve_check.endpoint_policy import KEY, endpoint_of
from gpu_backend.serve_check.request_timing import Outcome

from .fake_server import Behaviour, Reply, fake_server
from .virtual import DONE, event, finish, requests, text, usage

CAPS = Caps(total_s=20.0, request_s=5.0, idle_s=0.3, response_bytes=100_000)


def ask(url: str, caps: Caps = CAPS, key: str = "") -> Outcome:
    """The outcome of one request."""
    endpoint = endpoint_of(url, environment={KEY: key})
    client = Client(endpoint, "tiny", caps=caps)
    _, (outcome,) = asyncio.run(measure(client, requests([0.0])))
    assert isinstance(outcome, Outcome)
    return outcome


def good(reply: Reply) -> None:
    reply.headers()
    for data in (text("a"), text("b"), text("c"), finish() + usage(3) + DONE):
        reply.send(data)
    reply.end()


def test_chunks_are_received_after_they_were_sent_and_in_order() -> None:
    """Client and server read one clock; the client's first reading is the start of the run."""
    readings: list[float] = []

    def clock() -> float:
        readings.append(time.perf_counter())
        return readings[-1]

    with fake_server(good) as (url, replies):
        client = Client(endpoint_of(url, environment={}), "tiny", caps=CAPS, clock=clock)
        _, (outcome,) = asyncio.run(measure(client, requests([0.0])))
    (reply,) = replies
    received = [readings[0] + moment for moment in outcome.chunk_s]
    assert (outcome.status, outcome.output_tokens, len(received)) == ("finished", 3, 3)
    assert outcome.sent_s is not None
    assert readings[0] + outcome.sent_s <= reply.sent_s[0]
    assert received == sorted(received)
    for moment, sent in zip(received, reply.sent_s, strict=False):
        assert sent <= moment <= readings[-1]


def then(*pieces: bytes) -> Behaviour:
    """Headers, these pieces, and the proper end of the body."""

    def behave(reply: Reply) -> None:
        reply.headers()
        for piece in pieces:
            reply.send(piece)
        reply.end()

    return behave


def cut(reply: Reply) -> None:
    reply.headers()
    reply.send(text("a"))
    reply.send(text("b"))
    reply.cut()


def cut_at_once(reply: Reply) -> None:
    reply.cut()


def hang(reply: Reply) -> None:
    reply.headers()
    reply.send(text("a"))
    reply.hang()


def hang_before_headers(reply: Reply) -> None:
    reply.hang()


def keep_alive_for_ever(reply: Reply) -> None:
    reply.headers()
    while True:
        reply.send(b": still here\n\n")
        time.sleep(0.02)


def never_ending(reply: Reply) -> None:
    reply.headers()
    while True:
        reply.send(text("x" * 10_000))


def endless_line(reply: Reply) -> None:
    reply.headers()
    while True:
        reply.send(b"x" * 100_000)


def not_found(reply: Reply) -> None:
    reply.headers(404, "application/json")
    reply.send(b'{"error": {"message": "The model `tiny` does not exist."}}')
    reply.end()


def overloaded(reply: Reply) -> None:
    reply.headers(503, "text/plain")
    reply.send(b"busy " * 1000)
    reply.end()


def page(reply: Reply) -> None:
    reply.headers(200, "text/html; charset=utf-8")
    reply.send(b"<html>welcome</html>")
    reply.end()


def whole_answer(reply: Reply) -> None:
    reply.headers(200, "application/json")
    reply.send(b'{"choices": [{"text": "abc"}], "usage": {"completion_tokens": 3}}')
    reply.end()


def no_type(reply: Reply) -> None:
    reply.headers(200, None)
    reply.send(text("a"))
    reply.end()


def compressed(reply: Reply) -> None:
    reply.headers(200, **{"Content-Encoding": "gzip"})
    reply.send(b"\x1f\x8b")
    reply.end()


def not_http(reply: Reply) -> None:
    reply.handler.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n")


@pytest.mark.parametrize(
    ("behaviour", "caps", "words"),
    [
        (cut, CAPS, "the connection was lost after 2 chunks"),
        (cut_at_once, CAPS, "the connection was lost after 0 chunks"),
        (hang, CAPS, "no data for 0.3 s, after 1 chunks"),
        (hang_before_headers, CAPS, "no data for 0.3 s, after 0 chunks"),
        (keep_alive_for_ever, Caps(request_s=0.4), "not finished after 0.4 s"),
        (never_ending, CAPS, "more than 100,000 bytes"),
        (endless_line, Caps(), "a line of more than 1,048,576 bytes"),
        (not_found, CAPS, "HTTP 404: The model `tiny` does not exist."),
        (overloaded, CAPS, "HTTP 503: busy busy"),
        (page, CAPS, "the answer is text/html, not a text/event-stream"),
        (whole_answer, CAPS, "the answer is application/json, not a text/event-stream"),
        (no_type, CAPS, "the answer is of no type, not a text/event-stream"),
        (compressed, CAPS, "the answer is compressed, which was not requested"),
        (not_http, CAPS, "the connection was lost after 0 chunks"),
        (then(text("a"), b"data: [DO"), CAPS, "found '[DO', which is not JSON"),
        (then(text("a")), CAPS, "ended without finish_reason and [DONE]"),
        (then(text("a"), event({"error": {"message": "OOM"}})), CAPS, "in the stream: OOM"),
    ],
)
def test_a_clear_error_for_each(behaviour: Behaviour, caps: Caps, words: str) -> None:
    with fake_server(behaviour) as (url, replies):
        outcome = ask(url, caps)
    assert len(replies) == 1
    assert outcome.status == "failed"
    assert words in (outcome.error or "")
    assert len(outcome.error or "") < 400


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with fake_server(good) as (elsewhere, asked):

        def redirect(reply: Reply) -> None:
            reply.headers(status, Location=f"{elsewhere}/v1/completions")
            reply.end()

        with fake_server(redirect) as (url, _):
            outcome = ask(url, key="sk-7")
    assert outcome.status == "failed"
    assert outcome.error == f"HTTP {status} redirects elsewhere; it is not followed"
    assert asked == []


def test_a_port_where_nobody_listens() -> None:
    with fake_server(good) as (url, _):
        pass
    outcome = ask(url)
    assert outcome.status == "failed"
    assert (outcome.error or "").startswith("no connection: ")


def test_the_key_is_sent_and_never_repeated(caplog: pytest.LogCaptureFixture) -> None:
    """The server puts it into its error, as some do; the log of every library is looked at."""

    def denied(reply: Reply) -> None:
        reply.headers(401, "application/json")
        words = f'{{"error": {{"message": "Incorrect API key: {reply.key}"}}}}'
        reply.send(words.encode())
        reply.end()

    def denied_in_the_stream(reply: Reply) -> None:
        reply.headers()
        reply.send(event({"error": f"no such key {reply.key}"}))
        reply.end()

    for behaviour in (denied, denied_in_the_stream):
        with caplog.at_level(logging.DEBUG), fake_server(behaviour) as (url, replies):
            outcome = ask(url, key="sk-secret-7")
        assert replies[0].key == "Bearer sk-secret-7"
        assert "Bearer ***" in (outcome.error or "")
        assert "sk-secret-7" not in (outcome.error or "") + repr(outcome) + caplog.text


def test_without_a_key_no_authorization_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a proxy nor a .netrc of the environment is used."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    with fake_server(good) as (url, replies):
        outcome = ask(url)
    assert outcome.status == "finished"
    assert replies[0].key == ""


def test_the_others_go_on_when_one_answer_fails() -> None:
    seen: list[Reply] = []

    def second_fails(reply: Reply) -> None:
        seen.append(reply)
        (cut if len(seen) == 2 else good)(reply)

    with fake_server(second_fails) as (url, _):
        client = Client(endpoint_of(url, environment={}), "tiny", caps=CAPS)
        workload = requests([0.0, 0.2, 0.4])
        _, outcomes = asyncio.run(measure(client, workload))
    assert [outcome.status for outcome in outcomes] == ["finished", "failed", "finished"]


def test_cancel_closes_the_connections() -> None:
    closed: list[bool] = []

    def until_the_client_leaves(reply: Reply) -> None:
        reply.headers()
        with contextlib.suppress(OSError):
            while True:
                reply.send(text("a"))
                time.sleep(0.01)
        closed.append(True)

    with fake_server(until_the_client_leaves) as (url, replies):
        client = Client(endpoint_of(url, environment={}), "tiny", caps=Caps())
        have_enough = lambda: bool(replies) and len(replies[0].sent_s) > 5  # noqa: E731
        _, (outcome,) = asyncio.run(measure(client, requests([0.0]), cancelled=have_enough))
        deadline = time.monotonic() + 30
        while not closed and time.monotonic() < deadline:
            time.sleep(0.01)
    assert outcome.status == "cancelled"
    assert closed == [True]

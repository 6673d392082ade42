"""Server-sent events, cut anywhere."""

import random

import pytest

from gpu_backend.serve_check.sse import MAX_LINE, EventReader, StreamError

STREAM = (
    b": hello\n\n"
    b"event: message\ndata: one\n\n"
    b"data:two\r\n\r\n"
    b"id: 7\nretry: 10\ndata: three\ndata: lines\n\n"
    b"\n\n"
    b"data: caf\xc3\xa9\n\n"
    b"data: last"
)
EVENTS = [("message", "one"), ("", "two"), ("", "three\nlines"), ("", "café"), ("", "last")]


@pytest.mark.parametrize("seed", range(6))
def test_events_are_the_same_however_the_bytes_are_cut(seed: int) -> None:
    numbers = random.Random(seed)
    reader, found, place, moment = EventReader(), [], 0, 0.0
    while place < len(STREAM):
        size = numbers.randint(1, 1 if seed == 0 else 12)
        moment += 1.0
        found += reader.feed(STREAM[place : place + size], moment)
        place += size
    found += reader.close()
    assert [(name, data) for name, data, _ in found] == EVENTS
    moments = [moment for _, _, moment in found]
    assert moments == sorted(moments)


def test_a_line_without_an_end_is_refused() -> None:
    reader = EventReader()
    assert list(reader.feed(b"x" * MAX_LINE, 0.0)) == []
    with pytest.raises(StreamError, match="a line of more than 1,048,576 bytes"):
        list(reader.feed(b"x", 0.0))

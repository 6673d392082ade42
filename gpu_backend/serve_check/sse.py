"""A stream of completions: server-sent events, and the completion chunk in each of them.

The events follow the WHATWG rules as far as servers use them: `data:` lines up to an empty line;
comments begin with a colon. No library is used, because every line and response needs a size limit
and the arrival time of its bytes is what is measured.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["DONE", "Chunk", "EventReader", "StreamError", "read_chunk"]

DONE = "[DONE]"
MAX_LINE = 1 << 20  # bytes
SHOWN = 200  # characters of a server's message that are kept
REASONING = ("reasoning_content", "reasoning")  # DeepSeek's and llama.cpp's name; vLLM's newer one


class StreamError(ValueError):
    """A stream that is malformed."""


class EventReader:
    """Bytes in, (name, data, time) out; the time is that of the bytes that completed the data."""

    def __init__(self) -> None:
        self.rest = b""
        self.name = ""
        self.data: list[str] = []
        self.moment = 0.0

    def feed(self, received: bytes, moment: float) -> Iterator[tuple[str, str, float]]:
        """The events that these bytes complete."""
        lines = (self.rest + received).replace(b"\r\n", b"\n").split(b"\n")
        self.rest = lines.pop()
        if len(self.rest) > MAX_LINE:
            raise StreamError(f"a line of more than {MAX_LINE:,} bytes")
        for line in lines:
            yield from self.line(line.rstrip(b"\r"), moment)

    def close(self) -> Iterator[tuple[str, str, float]]:
        """The last event, when no empty line follows it."""
        yield from self.line(self.rest, self.moment)
        yield from self.line(b"", self.moment)

    def line(self, line: bytes, moment: float) -> Iterator[tuple[str, str, float]]:
        if not line:
            if self.data:
                yield self.name, "\n".join(self.data), self.moment
            self.name, self.data = "", []
            return
        field, _, value = line.decode("utf-8", "replace").partition(":")
        if field == "data":
            self.data.append(value.removeprefix(" "))
            self.moment = moment
        elif field == "event":
            self.name = value.strip()


@dataclass(frozen=True)
class Chunk:
    """The content of one event: generated text, and the usage that comes with the last one."""

    text: str = ""  # visible
    reasoning: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def generated(self) -> bool:
        """Whether it carries a token; role, null and usage chunks do not."""
        return bool(self.text or self.reasoning)


def read_chunk(name: str, data: str) -> Chunk:
    """One event of /completions or /chat/completions. StreamError for another object, and with the
    server's message for an error sent as data."""
    try:
        chunk = json.loads(data)
    except ValueError:
        raise StreamError(f"found {data[:SHOWN]!r}, which is not JSON") from None
    if not isinstance(chunk, dict):
        raise StreamError(f"found {data[:SHOWN]!r}, which is not a completion chunk")
    if name == "error" or "error" in chunk or chunk.get("object") == "error":
        raise StreamError(f"error in the stream: {error_text(chunk)}")
    choices, usage = chunk.get("choices"), chunk.get("usage")
    if not isinstance(choices, list):
        if isinstance(usage, dict):
            return Chunk(**counts(usage))
        raise StreamError("a chunk without choices")
    if not choices:
        return Chunk(**counts(usage))
    choice = choices[0]
    if not isinstance(choice, dict):
        raise StreamError("a choice that is no object")
    delta = choice.get("delta")
    source = delta if isinstance(delta, dict) else choice
    return Chunk(
        text=words(source.get("content")) + words(choice.get("text")) + calls(source),
        reasoning="".join(words(source.get(key)) for key in REASONING),
        finish_reason=words(choice.get("finish_reason")) or None,
        **counts(usage),
    )


def words(value: Any) -> str:
    return value if isinstance(value, str) else ""


def calls(delta: dict[str, Any]) -> str:
    """A tool call counts as generated text."""
    found = delta.get("tool_calls")
    return json.dumps(found) if found else ""


def counts(usage: Any) -> dict[str, Any]:
    """The token counts of a usage object; vLLM sends null in every chunk but the last."""
    if not isinstance(usage, dict):
        return {}
    return {
        "prompt_tokens": whole(usage.get("prompt_tokens")),
        "output_tokens": whole(usage.get("completion_tokens")),
        "cached_tokens": detail(usage, "prompt_tokens_details", "cached_tokens"),
        "reasoning_tokens": detail(usage, "completion_tokens_details", "reasoning_tokens"),
    }


def detail(usage: dict[str, Any], name: str, key: str) -> int | None:
    found = usage.get(name)
    return whole(found.get(key)) if isinstance(found, dict) else None


def whole(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None


def error_text(body: Any) -> str:
    """The message of an error object, whatever its shape, shortened."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or json.dumps(error)
    text = str(error)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."

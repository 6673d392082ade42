"""The supported formats, one entry each, and how the columns of a file are matched to them.

Columns are matched by name, ignoring case, spaces and separators, never by position.
The role of a column is one of arrival, prompt, output, max_tokens, priority, name, content.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product

REQUIRED = ("prompt", "output")

# Time units by the ending of a column's name: units per second.
PER_SECOND = {
    **dict.fromkeys(("milliseconds", "millis", "msec", "ms"), 1e3),
    **dict.fromkeys(("microseconds", "micros", "usec", "us"), 1e6),
    **dict.fromkeys(("nanoseconds", "nanos", "nsec", "ns"), 1e9),
    **dict.fromkeys(("seconds", "secs", "sec", "s"), 1.0),
}


@dataclass(frozen=True)
class Format:
    """The column names of a format, as `normalise` writes them, preferred ones first."""

    name: str
    medium: str  # csv or jsonl
    about: str  # for help texts
    signature: tuple[str, ...]  # a file with all these columns is of this format
    roles: dict[str, tuple[str, ...]]
    per_second: float | None = 1.0  # unit of numeric arrivals; None: see columns.time_unit
    only: dict[str, int] = field(default_factory=dict)  # the only value that is supported
    note: str = ""  # a note shown with every file of this format


def normalise(column: str) -> str:
    """The name without case, spaces and separators."""
    return re.sub(r"[\W_]+", "", column).lower()


def spellings(prefixes: Iterable[str], stems: Iterable[str], endings: Iterable[str]) -> list[str]:
    """All combinations, in order of preference: the first stem and the first ending come first."""
    return [p + s + e for s, e, p in product(tuple(stems), tuple(endings), tuple(prefixes))]


SIZES = ("tokens", "token", "toks", "tok", "tokencount", "len", "length", "size", "count")
PROMPT = ("prompt", "input", "context", "prefill")
OUTPUT = ("output", "generated", "completion", "response", "decode", "generation")
TIMES = (
    *("arrival", "arrivaltime", "arrivaltimestamp", "arrivedat", "timestamp", "time", "ts"),
    *("requesttime", "requesttimestamp", "starttime", "createdat", "submittime", "datetime"),
)
PLAIN = {
    "arrival": tuple(spellings([""], TIMES, ["", *PER_SECOND])),
    "prompt": (
        *spellings(["", "num", "n"], PROMPT, SIZES),
        *("isl", "requesttokens", "requestlength", *PROMPT),
    ),
    "output": (*spellings(["", "num", "n"], OUTPUT, SIZES), "osl", "tokensize", *OUTPUT),
    "max_tokens": ("maxtokens", "maxnewtokens", "maxoutputtokens", "maxcompletiontokens"),
    "priority": ("priority",),
    "name": ("requestid", "requestname", "id", "name"),
}

# Detection takes the first that fits, so the plain formats come last.
FORMATS = (
    Format(
        name="azure",
        medium="csv",
        about="Azure LLM inference traces: TIMESTAMP, ContextTokens, GeneratedTokens",
        signature=("timestamp", "contexttokens", "generatedtokens"),
        roles={
            "arrival": ("timestamp",),
            "prompt": ("contexttokens",),
            "output": ("generatedtokens",),
        },
    ),
    Format(
        name="mooncake",
        medium="jsonl",
        about="Mooncake traces: timestamp (ms), input_length, output_length, hash_ids",
        signature=("timestamp", "inputlength", "outputlength", "hashids"),
        roles={
            "arrival": ("timestamp",),
            "prompt": ("inputlength",),
            "output": ("outputlength",),
            "content": ("hashids",),
        },
        per_second=1e3,
    ),
    Format(
        name="burstgpt",
        medium="csv",
        about="BurstGPT: Timestamp, Model, Request tokens, Response tokens, ...",
        signature=("timestamp", "model", "requesttokens", "responsetokens"),
        roles={
            "arrival": ("timestamp",),
            "prompt": ("requesttokens",),
            "output": ("responsetokens",),
        },
    ),
    Format(
        name="splitwise",
        medium="csv",
        about="splitwise-sim: arrival_timestamp, prompt_size, token_size, request_type, ...",
        signature=("arrivaltimestamp", "promptsize", "tokensize"),
        roles={
            "arrival": ("arrivaltimestamp",),
            "prompt": ("promptsize",),
            "output": ("tokensize",),
        },
        only={"requesttype": 2, "batchsize": 1},  # 2: a request to an LLM
    ),
    Format(
        name="vidur",
        medium="csv",
        about="Vidur: num_prefill_tokens, num_decode_tokens, with or without arrived_at",
        signature=("numprefilltokens", "numdecodetokens"),
        roles={
            "arrival": ("arrivedat",),
            "prompt": ("numprefilltokens",),
            "output": ("numdecodetokens",),
        },
    ),
    Format(
        name="vllm-log",
        medium="jsonl",
        about="requests.jsonl of a vLLM run: arrival_time, input_toks, output_toks, ...",
        signature=("arrivaltime", "inputtoks", "outputtoks"),
        roles={
            "arrival": ("arrivaltime",),
            "prompt": ("inputtoks",),
            "output": ("outputtoks",),
            "name": ("requestid",),
        },
        note="arrival_time is wall clock; the stamps *_ts are of another clock and are not used",
    ),
    Format(
        name="csv",
        medium="csv",
        about="any CSV with a header: arrival or timestamp, prompt_tokens, output_tokens, ...",
        signature=(),
        roles=PLAIN,
        per_second=None,
    ),
    Format(
        name="jsonl",
        medium="jsonl",
        about="any JSON Lines file with these keys",
        signature=(),
        roles=PLAIN,
        per_second=None,
    ),
)


def match_columns(form: Format, header: Iterable[str]) -> dict[str, str]:
    """Role -> column of the file, for every role that has one."""
    by_name: dict[str, str] = {}
    for column in header:
        by_name.setdefault(normalise(column), column)
    found = {}
    for role, names in form.roles.items():
        present = [name for name in names if name in by_name]
        if present:
            found[role] = by_name[present[0]]
    return found


def fits(form: Format, header: Iterable[str]) -> bool:
    """Whether a file with these columns is of this format."""
    header = tuple(header)
    names = {normalise(column) for column in header}
    if form.signature:
        return names.issuperset(form.signature)
    return set(REQUIRED) <= match_columns(form, header).keys()

"""Trace files as workloads: request logs and public traces.

A row that cannot be used is refused with its line and the reason; no row is dropped silently.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.workload.arrivals import arrival_times
from sim.workload.importers import formats
from sim.workload.importers.columns import (
    Refusals,
    arrival_seconds,
    optional_whole_numbers,
    whole_numbers,
)
from sim.workload.importers.hash_ids import hashed_content, refuse_bad_ids
from sim.workload.importers.recognise import recognise, used_columns
from sim.workload.importers.source import Source, TraceError
from sim.workload.importers.table import MAX_ROWS, Table, read_csv, read_jsonl
from sim.workload.lengths import ask_for
from sim.workload.prompt_tokens import private_content
from sim.workload.spec import MAX_TOKENS, EqualTokens, MaxTokens, Poisson
from sim.workload.workload import Workload

__all__ = ["FORMATS", "MAX_ROWS", "Imported", "TraceError", "detect", "read_trace"]

FORMATS = tuple(form.name for form in formats.FORMATS)
EQUAL = EqualTokens(kind="equal")
PRIORITIES = 10**6  # from minus to plus this
MAX_FACTOR = 1e9  # of time_scale and rate: keeps every arrival finite


@dataclass(frozen=True, eq=False)
class Imported:
    """A file as a workload, and the count of its rows: num_rows = taken + refused + left_out."""

    workload: Workload
    format: str
    columns: Mapping[str, str]  # what is read -> column of the file
    num_rows: int  # without header and blank lines
    taken: int
    refused: tuple[tuple[int, str], ...]  # (line in the file, reason), by line
    left_out: int  # usable rows beyond the limit
    notes: tuple[str, ...]  # how the file was understood


@dataclass(frozen=True)
class Columns:
    """The checked columns of a file, one element per row; refused rows hold arbitrary values."""

    arrival_s: NDArray[np.float64] | None
    num_prompt_tokens: NDArray[np.int32]
    output_len: NDArray[np.int32]
    max_tokens: NDArray[np.int32]
    priority: NDArray[np.int32]
    names: Sequence[Any] | None
    hash_ids: Sequence[Any] | None


def detect(source: bytes | Path, name: str = "") -> str:
    """The format of a file, by its columns. Raises TraceError for an unknown format."""
    return recognise(Source(source, name), None)[0].name


def read_trace(
    source: bytes | Path,
    format: str | None = None,
    *,
    limit: int | None = None,
    time_scale: float = 1.0,
    max_tokens: MaxTokens = EQUAL,
    rate_per_s: float | None = None,
    seed: int = 0,
    name: str = "",
) -> Imported:
    """Read a file (or the bytes of an upload called `name`) as a workload.

    format      one of FORMATS by name; None: by the columns
    limit       take the first `limit` usable rows, in order of arrival
    time_scale  multiply arrival times: 0.5 doubles the pace
    max_tokens  what clients asked for; the default leaves a max_tokens column as it is
    rate_per_s  Poisson arrivals, drawn with `seed`, for a file without a time column

    Arrivals start at 0. Raises TraceError for a file without a usable row, ValueError for an option
    out of range.
    """
    check_options(limit, time_scale, rate_per_s)
    file = Source(source, name)
    form, header = recognise(file, format)
    used = used_columns(file, form, header)
    if "arrival" not in used and rate_per_s is None:
        raise file.error(
            f"no time column ({listed(form.roles['arrival'])}); give rate_per_s (--rate) "
            "to draw Poisson arrivals",
            code="no_time_column",
        )
    table = (read_csv if form.medium == "csv" else read_jsonl)(file, tuple(used.values()))
    refusals = Refusals(len(table.lines))
    notes = [form.note] if form.note else []
    if table.cut_at_line is not None:
        notes.append(f"more than {MAX_ROWS:,} rows: not read from line {table.cut_at_line:,} on")
    columns = check_columns(table, used, form, max_tokens, refusals, notes)
    refused = [*table.refused, *((table.lines[row], why) for row, why in refusals.reasons.items())]
    refused.sort()
    usable = np.flatnonzero(refusals.kept)
    if not len(usable):
        raise file.error(nothing_usable(refused))
    arrival_s = arrivals_of(columns, usable, rate_per_s, seed, notes) * time_scale
    order = np.argsort(arrival_s, kind="stable")[:limit]
    workload = assemble(columns, usable[order], arrival_s[order])
    return Imported(
        workload=workload,
        format=form.name,
        columns={role: column for role, column in used.items() if role not in form.only},
        num_rows=table.num_rows,
        taken=len(workload),
        refused=tuple(refused),
        left_out=len(usable) - len(workload),
        notes=tuple(notes),
    )


def check_options(limit: int | None, time_scale: float, rate_per_s: float | None) -> None:
    """Refuse options out of range."""
    if limit is not None and limit < 1:
        raise ValueError(f"limit is {limit}; allowed is a number of rows from 1 up")
    for option, value in (("time_scale", time_scale), ("rate_per_s", rate_per_s)):
        if value is not None and not 1 / MAX_FACTOR <= value <= MAX_FACTOR:
            allowed = f"a number from {1 / MAX_FACTOR:g} to {MAX_FACTOR:g}"
            raise ValueError(f"{option} is {value}; allowed is {allowed}")


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first few names."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def nothing_usable(refused: list[tuple[int, str]]) -> str:
    """Why a file has no usable row."""
    if not refused:
        return "column names but no rows"
    line, reason = refused[0]
    return f"none of its {len(refused):,} rows can be used; the first, line {line}: {reason}"


def check_columns(
    table: Table,
    used: Mapping[str, str],
    form: formats.Format,
    rule: MaxTokens,
    refusals: Refusals,
    notes: list[str],
) -> Columns:
    """Every column as numbers; rows with a bad one are refused.

    Times come last, since they count from the first row that is usable otherwise.
    """
    values = dict(zip(used, zip(*table.rows, strict=True), strict=True)) if table.rows else {}
    cells = {role: values.get(role, ()) for role in used}
    for role, only in form.only.items():
        if role in used:
            whole_numbers(cells[role], used[role], only, only, refusals)
    num_prompt_tokens = whole_numbers(cells["prompt"], used["prompt"], 1, MAX_TOKENS, refusals)
    drawn = whole_numbers(
        cells["output"], used["output"], 1, MAX_TOKENS, refusals, "a request without output failed"
    )
    max_tokens, output_len = asked_for(cells, used, rule, drawn, refusals, notes)
    priority = np.zeros(len(drawn), np.int32)
    if "priority" in used:
        priority = optional_whole_numbers(
            cells["priority"], used["priority"], -PRIORITIES, PRIORITIES, refusals, 0
        )
    if "content" in used:
        refuse_bad_ids(cells["content"], used["content"], num_prompt_tokens, refusals)
    elif "content" in form.roles:
        notes.append(f"no {form.roles['content'][0]}: prompts share nothing")
    arrival_s = None
    if "arrival" in used:
        arrival_s, unit = arrival_seconds(
            cells["arrival"], used["arrival"], form.per_second, refusals
        )
        notes.append(f"{used['arrival']} read as {unit}")
    return Columns(
        arrival_s,
        num_prompt_tokens,
        output_len,
        max_tokens,
        priority,
        cells.get("name"),
        cells.get("content"),
    )


def asked_for(
    cells: Mapping[str, Sequence[Any]],
    used: Mapping[str, str],
    rule: MaxTokens,
    drawn: NDArray[np.int32],
    refusals: Refusals,
    notes: list[str],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(max_tokens, output_len): by the file's own column unless a rule replaces it."""
    if "max_tokens" not in used:
        return ask_for(rule, drawn)
    column = used["max_tokens"]
    if not isinstance(rule, EqualTokens):
        notes.append(f"{column} replaced by the rule max_tokens {rule.kind}")
        return ask_for(rule, drawn)
    max_tokens = optional_whole_numbers(
        cells["max_tokens"], column, 1, MAX_TOKENS, refusals, default=drawn
    )
    cut = np.count_nonzero((drawn > max_tokens) & refusals.kept)
    if cut:
        notes.append(f"{cut:,} outputs end at their {column}")
    return max_tokens, np.minimum(drawn, max_tokens)


def arrivals_of(
    columns: Columns,
    usable: NDArray[np.int64],
    rate_per_s: float | None,
    seed: int,
    notes: list[str],
) -> NDArray[np.float64]:
    """Arrival times of the usable rows in the order of the file: recorded or drawn."""
    if columns.arrival_s is None:
        assert rate_per_s is not None
        notes.append(f"no time column: Poisson arrivals at {rate_per_s:g}/s, seed {seed}")
        poisson = Poisson(kind="poisson", rate_per_s=rate_per_s)
        return arrival_times(poisson, len(usable), np.random.default_rng(seed))
    if rate_per_s is not None:
        notes.append("rate_per_s not used: the file has arrival times")
    arrival_s = columns.arrival_s[usable]
    unsorted = np.count_nonzero(np.diff(arrival_s) < 0)
    if unsorted:
        notes.append(f"{unsorted:,} rows were earlier than the row before them: sorted by time")
    return arrival_s


def assemble(columns: Columns, rows: NDArray[np.int64], arrival_s: NDArray[np.float64]) -> Workload:
    """The workload of the given rows, which are in order of arrival."""
    n = len(rows)
    num_prompt_tokens = columns.num_prompt_tokens[rows]
    if columns.hash_ids is None:
        content = private_content(num_prompt_tokens)
    else:
        content = hashed_content(
            [columns.hash_ids[row] for row in rows.tolist()], num_prompt_tokens
        )
    names = None
    if columns.names is not None:
        names = tuple(str(columns.names[row]) for row in rows.tolist())
    return Workload(
        arrival_s=arrival_s,
        num_prompt_tokens=num_prompt_tokens,
        output_len=columns.output_len[rows],
        max_tokens=columns.max_tokens[rows],
        priority=columns.priority[rows],
        abort_after_s=np.full(n, np.inf),
        class_id=np.zeros(n, np.int32),
        loop=np.full(n, -1, np.int32),
        **content._asdict(),
        class_names=("request",),
        names=names,
    )

"""A text file as columns of raw values, each row with its line number.

Malformed rows (broken JSON, wrong number of fields, bytes that are not text) are refused here with
the reason; values are checked later.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from sim.workload.importers.source import UNDECODABLE, Source

MAX_ROWS = 1_000_000
MAX_COLUMNS = 1_000
DELIMITERS = ",;\t|"
HEADER_OBJECTS = 100  # objects whose keys form the header of a JSON Lines file
ENCODING_REASON = "bytes that are not UTF-8 text"


@dataclass
class Table:
    """The wanted columns of a file."""

    lines: list[int] = field(default_factory=list)  # line in the file of each row, from 1
    rows: list[tuple[Any, ...]] = field(default_factory=list)  # values of the wanted columns
    refused: list[tuple[int, str]] = field(default_factory=list)
    num_rows: int = 0  # taken and refused
    cut_at_line: int | None = None  # not read from here on

    def room(self, line: int) -> bool:
        """Count one more row; False when the file has more than MAX_ROWS."""
        if self.num_rows == MAX_ROWS:
            self.cut_at_line = line
            return False
        self.num_rows += 1
        return True


class OpenQuoteError(Exception):
    """A quoted field ran past the end of its line, and the result is not a row."""


def medium_of(source: Source) -> str:
    """csv or jsonl, by the first character."""
    with source.text() as text:
        first = next((c for line in text for c in line if not c.isspace()), "")
    if first == "[":
        raise source.error("a JSON array; JSON Lines are allowed: one object per line")
    return "jsonl" if first == "{" else "csv"


# --- CSV ------------------------------------------------------------------------------------------


def csv_header(source: Source) -> tuple[tuple[str, ...], str]:
    """The column names and the delimiter: the one that cuts the header into most fields."""
    with source.text() as text:
        first = next((line for line in text if line.strip()), "")
    if UNDECODABLE.search(first):
        raise source.error("not UTF-8 text; save it as UTF-8 CSV or JSON Lines")
    delimiter = max(DELIMITERS, key=first.count)
    check_width(source, first.count(delimiter) + 1)
    try:
        header = next(csv.reader([first], delimiter=delimiter))
    except csv.Error as error:
        raise source.error(f"line 1 is no CSV header: {error}") from error
    return tuple(column.strip() for column in header), delimiter


def check_width(source: Source, columns: int) -> None:
    """Refuse too many columns."""
    if columns > MAX_COLUMNS:
        raise source.error(f"{columns:,} columns; at most {MAX_COLUMNS:,} are allowed")


def read_csv(source: Source, columns: Sequence[str]) -> Table:
    """The given columns of a CSV file.

    A quoted field may span several lines. If that gives malformed rows, a quote was left open: the
    file is then read again line by line, so that one bad line costs one row.
    """
    try:
        return read_csv_once(source, columns, one_line_each=False)
    except OpenQuoteError:
        return read_csv_once(source, columns, one_line_each=True)


def read_csv_once(source: Source, columns: Sequence[str], one_line_each: bool) -> Table:
    """One pass of `read_csv`; raises OpenQuoteError unless one_line_each."""
    header, delimiter = csv_header(source)
    width, pick = len(header), [header.index(column) for column in columns]
    table = Table()
    bad_lines: dict[int, str] = {}
    with source.text() as text:
        reader = csv.reader(
            watched_lines(text, bad_lines, one_line_each), delimiter=delimiter, strict=True
        )
        at_header = True
        while True:
            line = reader.line_num + 1
            try:
                row = next(reader)
            except StopIteration:
                return table
            except csv.Error as error:
                row, bad_lines[line] = [], str(error)
            reason = bad_lines.get(line)
            if reason is None and len(row) < 2 and not "".join(row).strip():
                continue  # a blank line
            if at_header:
                at_header = False
                continue
            if not table.room(line):
                return table
            values = tuple([row[i] for i in pick]) if len(row) == width else ()
            runs_over = len("".join(values).splitlines()) > 1
            if reader.line_num > line and (runs_over or not values):
                raise OpenQuoteError
            if reason is None and values:
                table.lines.append(line)
                table.rows.append(values)
            else:
                table.refused.append((line, reason or wrong_width(len(row), width)))


def wrong_width(found: int, expected: int) -> str:
    """Why a row with too few or too many fields is refused."""
    return f"{found} field{'s' * (found != 1)}; the header has {expected}"


def watched_lines(
    text: Iterator[str], bad_lines: dict[int, str], one_line_each: bool
) -> Iterator[str]:
    """The lines; lines that cannot be rows are yielded empty and recorded in `bad_lines`."""
    for number, line in enumerate(text, 1):
        if not line.isascii() and UNDECODABLE.search(line):
            bad_lines[number] = ENCODING_REASON
        elif one_line_each and line.count('"') % 2:
            bad_lines[number] = "a quote that is not closed on its line"
        yield "" if number in bad_lines else line


# --- JSON Lines -----------------------------------------------------------------------------------


def json_objects(source: Source) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """(line, object) of every line that is not blank; the reason in place of a missing object."""
    with source.text() as text:
        for number, line in enumerate(text, 1):
            if not line.isascii() and UNDECODABLE.search(line):
                yield number, ENCODING_REASON
            elif not line.isspace():
                yield number, json_object(line.rstrip())


def json_object(line: str) -> dict[str, Any] | str:
    """The object on a line, or the reason why there is none."""
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        return f"not JSON (column {error.colno}): {error.msg.removesuffix(' at')}"
    except RecursionError:
        return "JSON nested too deeply"
    except ValueError as error:
        return f"a number out of range: {str(error).split(';')[0]}"
    if isinstance(value, dict):
        return value
    return f"a JSON {type(value).__name__}; allowed is an object"


def json_header(source: Source) -> tuple[str, ...]:
    """The keys of the first objects, each once, in order of appearance."""
    keys: dict[str, None] = {}
    first_problem = ""
    for line, found in islice(json_objects(source), HEADER_OBJECTS):
        if isinstance(found, dict):
            keys.update(dict.fromkeys(found))
        elif not first_problem:
            first_problem = f"line {line}: {found}"
    if not keys:
        raise source.error(f"{first_problem}; one JSON object per line is allowed")
    check_width(source, len(keys))
    return tuple(keys)


def read_jsonl(source: Source, columns: Sequence[str]) -> Table:
    """The given keys of a JSON Lines file; None where an object lacks one."""
    table = Table()
    for line, found in json_objects(source):
        if not table.room(line):
            break
        if isinstance(found, dict):
            table.lines.append(line)
            table.rows.append(tuple([found.get(column) for column in columns]))
        else:
            table.refused.append((line, found))
    return table

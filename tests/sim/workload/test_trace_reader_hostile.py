"""Files as they should not be: every bad row is reported with its line, nothing hangs or wraps."""

import json
import random
from pathlib import Path

import pytest

from sim.workload.importers import table
from sim.workload.trace_reader import TraceError, read_trace

HEADER = "time,prompt,output\n"
GOOD = HEADER + "0,10,3\n"


def reasons(text: str | bytes) -> list[tuple[int, str]]:
    """What is refused, of a file whose other rows are good."""
    read = read_trace(text.encode() if isinstance(text, str) else text)
    assert read.num_rows == read.taken + len(read.refused)
    return list(read.refused)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("0,10,0", "output is 0; a request without output failed"),
        ("0,0,5", "prompt is 0; allowed is a whole number from 1 to 10,000,000"),
        ("0,-4,5", "prompt is -4; allowed is a whole number from 1 to 10,000,000"),
        ("0,12.5,5", "prompt is 12.5; allowed is a whole number from 1 to 10,000,000"),
        ("0,10000001,5", "prompt is 10000001; allowed is a whole number from 1 to 10,000,000"),
        ("0,4294967297,5", "prompt is 4294967297; allowed is a whole number from 1 to 10,000,000"),
        ("0,1e400,5", "prompt is 1e400; allowed is a whole number from 1 to 10,000,000"),
        ("0,nan,5", "prompt is nan; allowed is a whole number from 1 to 10,000,000"),
        ("0,inf,5", "prompt is inf; allowed is a whole number from 1 to 10,000,000"),
        ("0,0x10,5", "prompt is '0x10'; allowed is a whole number from 1 to 10,000,000"),
        ("0,,5", "prompt is empty; allowed is a whole number from 1 to 10,000,000"),
        ("-1,10,5", "time is -1; allowed is a number from 0 up"),
        ("nan,10,5", "time is nan; allowed is a number from 0 up"),
        ("1e300,10,5", "time is 1e300; allowed is a number from 0 up"),
        ("1e9,10,5", "time is 1e9; years away from the other rows"),
        ("2024-01-01,10,5", "time is '2024-01-01'; allowed is a number from 0 up"),
        ("0,10", "2 fields; the header has 3"),
        ("0,10,5,6", "4 fields; the header has 3"),
        (",,", "prompt is empty; allowed is a whole number from 1 to 10,000,000"),
        ('0,10,"5', "a quote that is not closed on its line"),
        ("\x00,10,5", "time is '\\x00'; allowed is a number from 0 up"),
    ],
)
def test_a_bad_row_of_a_csv_is_told_with_its_line(row: str, reason: str) -> None:
    assert reasons(f"{GOOD}0,11,4\n{row}\n1,20,4\n") == [(4, reason)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"time": 0, "prompt": 10}', "output is missing; "),
        ('{"time": 0, "prompt": null, "output": 5}', "prompt is missing; "),
        ('{"time": 0, "prompt": true, "output": 5}', "prompt is true; "),
        ('{"time": 0, "prompt": [1], "output": 5}', "prompt is [1]; "),
        ('{"time": 0, "prompt": NaN, "output": 5}', "prompt is NaN; "),
        ('{"time": 0, "prompt": 1' + 400 * "0" + ', "output": 5}', "prompt is 1000"),
        ('{"time": 0, "prompt": 1' + 9999 * "0" + ', "output": 5}', "a number out of range: "),
        ('{"time": Infinity, "prompt": 1, "output": 5}', "time is Infinity; "),
        ('{"time": 0, "prompt": 10, "output": 5', "not JSON (column 38): "),
        ("[1, 2]", "a JSON list; allowed is an object"),
        ("12", "a JSON int; allowed is an object"),
        ('{"a":' * 100_000, "JSON nested too deeply"),
    ],
)
def test_a_bad_line_of_a_jsonl_is_told(line: str, reason: str) -> None:
    good = '{"time": 0, "prompt": 10, "output": 3}\n'
    ((number, told),) = reasons(f"{good}\n{line}\n{good}")
    assert number == 3
    assert told.startswith(reason)


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ([1], "hash_ids has 1 ids; 600 prompt tokens are 2 blocks of 512"),
        ([], "hash_ids has 0 ids; 600 prompt tokens are 2 blocks of 512"),
        (None, "hash_ids is missing; allowed is a list of ids"),
        ("12", "hash_ids is '12'; allowed is a list of ids"),
        ([1, -1], "hash_ids holds something else than whole numbers from 0 to 2^63 - 1"),
        ([1, 2**63], "hash_ids holds something else than whole numbers from 0 to 2^63 - 1"),
        ([1, True], "hash_ids holds something else than whole numbers from 0 to 2^63 - 1"),
        ([1, 0.5], "hash_ids holds something else than whole numbers from 0 to 2^63 - 1"),
    ],
)
def test_bad_hash_ids(ids: object, reason: str) -> None:
    row = {"timestamp": 0, "input_length": 600, "output_length": 1}
    lines = [json.dumps({**row, "hash_ids": [1, 2]}), json.dumps({**row, "hash_ids": ids})]
    assert reasons("\n".join(lines)) == [(2, reason)]


def test_first_usable_row_is_time_zero() -> None:
    read = read_trace((HEADER + "5,10,0\n7,10,3\n8,10,3\n").encode())
    assert read.workload.arrival_s.tolist() == [0.0, 1.0]


def test_values_never_wrap() -> None:
    """The largest prompt and output that are allowed go through unchanged."""
    workload = read_trace(f"{HEADER}0,10000000,10000000\n".encode()).workload
    assert (workload.num_prompt_tokens[0], workload.max_tokens[0]) == (10_000_000, 10_000_000)


def test_quoted_text_may_run_over_lines_but_an_open_quote_costs_one_row() -> None:
    quoted = 'time,prompt_tokens,output,text\n0,10,3,"two\nlines"\n1,10,3,"a, b"\n'
    assert reasons(quoted) == []
    open_quote = HEADER + '0,10,3\n1,10,"3\n' + "2,10,3\n" * 500 + '3,"10,3\n4,10,3\n'
    told = "a quote that is not closed on its line"
    assert reasons(open_quote) == [(3, told), (504, told)]


def test_bytes_that_are_no_text_cost_their_row() -> None:
    text = "time,model,prompt,output\n0,caf\u00e9,10,3\n1,b,10,3\n"
    assert reasons(text) == []
    assert reasons(text.encode("latin-1")) == [(2, "bytes that are not UTF-8 text")]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (b"", "empty"),
        (b" \r\n\n", "empty"),
        (b"\xef\xbb\xbf", "no column for"),
        (b"\x1f\x8b\x08\x00", "gzip-compressed; unpack it first"),
        (b"PK\x03\x04rest", "a zip archive or an Excel workbook; save the sheet as CSV"),
        (b"PAR1rest", "a Parquet file; convert it"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        (b"ab\x00cd\x00", "not a text file \\(NUL at byte 2\\)"),
        (b"time,pr\xf6mpt,output\n0,1,1\n", "not UTF-8 text"),
        (b"Dear all,\nplease find attached\n", "no column for prompt tokens and output tokens"),
        (b"time,prompt_tokens\n0,1\n", "no column for output tokens; found the columns time, "),
        (b"0.5,10,3\n1.5,20,4\n", "line 1 holds values, not column names"),
        (b"time,prompt,output\n", "column names but no rows"),
        (b"time,prompt,output\n0,x,1\n0,y,1\n", "none of its 2 rows .* line 2: prompt is 'x'"),
        (b"time,prompt,Prompt,output\n0,1,2,3\n", "more than one column is called 'prompt'"),
        (b"time,prompt,output\n0,1,1\n1e9,1,1\n", "time is 0; years away from the other rows"),
        (b"prompt,output\n1,2\n", "no time column .* give rate_per_s"),
        (b'[{"time": 0}]', "a JSON array"),
        (b'{\n  "time": 0\n}', "line 1: not JSON .*; one JSON object per line is allowed"),
        (b'{"a": 1}\n', "no column for prompt tokens and output tokens; found the columns a"),
        (b"," * 5000, "5,001 columns; at most 1,000"),
        (b"a" * 200_000, "line 1 is no CSV header"),
    ],
)
def test_what_is_no_trace_is_refused_in_words(source: bytes, problem: str) -> None:
    with pytest.raises(TraceError, match=f"^night.log: .*{problem}"):
        read_trace(source, name="night.log")


def test_a_wrong_name_or_path_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no format 'excel'; allowed are azure, mooncake"):
        read_trace(GOOD.encode(), "excel")
    with pytest.raises(TraceError, match="format mooncake is JSON Lines, but this is CSV"):
        read_trace(GOOD.encode(), "mooncake")
    with pytest.raises(TraceError, match=r"format azure needs prompt tokens \(contexttokens\)"):
        read_trace(GOOD.encode(), "azure")
    with pytest.raises(TraceError, match=r"gone\.csv: cannot be read: No such file"):
        read_trace(tmp_path / "gone.csv")
    with pytest.raises(TraceError, match="cannot be read: Is a directory"):
        read_trace(tmp_path)


def test_rows_beyond_the_most_that_are_read_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MAX_ROWS", 2)
    read = read_trace((HEADER + "0,1,1\n\n0,x,1\n0,1,1\n0,1,1\n").encode())
    assert (read.num_rows, read.taken, len(read.refused)) == (2, 1, 1)
    assert read.notes[0].endswith("not read from line 5 on")


def test_random_damage_never_ends_in_anything_but_words() -> None:
    """A thousand damaged files: read or refused in words, every row accounted for."""
    rng = random.Random(0)
    folder = Path(__file__).parent / "data"
    originals = [file.read_bytes() for file in sorted(folder.glob("*.*"))]
    for _ in range(1000):
        damaged = bytearray(rng.choice(originals))
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(damaged))
            damaged[at : at + rng.randrange(3)] = rng.choice(
                [b"", b'"', b"\n", b",", b"\xff", b"9" * 30, b"{", b"]", b"\x00", b"-", b"e"]
            )
        try:
            read = read_trace(bytes(damaged), rate_per_s=1.0)
        except TraceError:
            continue
        assert read.num_rows == read.taken + len(read.refused)
        assert (read.workload.num_prompt_tokens > 0).all()


def test_hostile_uploads_do_not_hang() -> None:
    """Open quotes everywhere, one endless line, endless columns: each is read or refused."""
    read_trace((GOOD + '1,"2,3\n' * 100_000).encode())
    for source in (b"a" * 20_000_000, b"," * 5_000_000, b'{"a":"' + b"a" * 20_000_000):
        with pytest.raises(TraceError):
            read_trace(source)

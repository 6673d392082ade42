"""Trace files in every format: recognised by their columns, read to the last digit."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sim.core.requests import OUTPUT_BASE, PRIVATE_BASE
from sim.workload.prompt_tokens import RENUMBERED_BASE
from sim.workload.spec import FactorTokens, FixedTokens
from sim.workload.trace_reader import FORMATS, Imported, TraceError, detect, read_trace
from sim.workload.workload import describe

DATA = Path(__file__).parent / "data"


def rows(imported: Imported) -> list[tuple[float, int, int]]:
    """(arrival, prompt, output) of each request."""
    workload = imported.workload
    columns = workload.arrival_s, workload.num_prompt_tokens, workload.output_len
    return list(zip(*(column.tolist() for column in columns), strict=True))


# --- each format ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("azure.csv", "azure"),
        ("mooncake.jsonl", "mooncake"),
        ("burstgpt.csv", "burstgpt"),
        ("burstgpt_3.csv", "burstgpt"),
        ("splitwise.csv", "splitwise"),
        ("vidur.csv", "vidur"),
        ("vidur_lengths.csv", "vidur"),
        ("vllm_log.jsonl", "vllm-log"),
        ("plain.csv", "csv"),
        ("plain.jsonl", "jsonl"),
    ],
)
def test_detection_goes_by_columns_alone(file: str, name: str) -> None:
    assert detect(DATA / file) == name
    assert detect((DATA / file).read_bytes()) == name
    assert name in FORMATS


def test_azure_keeps_all_seven_digits_and_refuses_the_failed() -> None:
    """Midnight of a leap day, 100 ns apart."""
    read = read_trace(DATA / "azure.csv")
    assert rows(read) == [(0.0, 500, 40), (1e-7, 600, 70), (1.5, 90, 7)]
    assert read.refused == ((4, "GeneratedTokens is 0; a request without output failed"),)
    assert (read.num_rows, read.taken, read.left_out) == (4, 3, 0)
    assert read.columns == {
        "arrival": "TIMESTAMP",
        "prompt": "ContextTokens",
        "output": "GeneratedTokens",
    }
    assert [read.workload.label(i) for i in range(3)] == ["request 1", "request 2", "request 3"]


def test_mooncake_is_milliseconds_and_hash_ids_are_content() -> None:
    read = read_trace(DATA / "mooncake.jsonl")
    assert rows(read) == [(0.0, 1300, 52), (0.0, 1024, 26), (3.997, 513, 1)]
    assert read.refused == ((3, "hash_ids has 1 ids; 600 prompt tokens are 2 blocks of 512"),)
    # 7, 8 continue each other: one run of 1,024; the partial blocks are 276 and 1 tokens
    assert [read.workload.content(i) for i in range(3)] == [
        [(7 * 512, 1024), (20 * 512, 276)],
        [(7 * 512, 1024)],
        [(7 * 512, 512), (3 * 512, 1)],
    ]
    prefix = describe(read.workload)["prefix"]
    assert prefix == {"block_size": 512, "blocks": 5, "hit_blocks": 3, "share": 0.6}


def test_burstgpt_is_read_by_name_not_by_position() -> None:
    read = read_trace(DATA / "burstgpt.csv")
    assert rows(read) == [(0.0, 450, 20), (40.0, 1000, 200), (113.0, 400, 300)]
    assert [line for line, _ in read.refused] == [4]
    assert rows(read_trace(DATA / "burstgpt_3.csv")) == [(0.0, 450, 20), (40.0, 1000, 200)]


def test_splitwise_takes_requests_to_an_llm_only() -> None:
    read = read_trace(DATA / "splitwise.csv")
    assert rows(read) == [(0.0, 1000, 30), (3.5, 500, 10)]
    assert read.refused == ((3, "request_type is 0; allowed is 2"),)


def test_vidur_with_times_and_without() -> None:
    assert rows(read_trace(DATA / "vidur.csv")) == [(0.0, 500, 40), (0.25, 600, 70)]
    with pytest.raises(TraceError, match=r"vidur_lengths.csv: no time column \(arrivedat\).*rate"):
        read_trace(DATA / "vidur_lengths.csv")
    drawn = read_trace(DATA / "vidur_lengths.csv", rate_per_s=2.0, seed=5)
    assert [row[1:] for row in rows(drawn)] == [(3000, 60), (2000, 100)]
    assert rows(drawn) == rows(read_trace(DATA / "vidur_lengths.csv", rate_per_s=2.0, seed=5))
    assert rows(drawn) != rows(read_trace(DATA / "vidur_lengths.csv", rate_per_s=2.0, seed=6))
    assert drawn.notes == ("no time column: Poisson arrivals at 2/s, seed 5",)


def test_vllm_log_uses_the_wall_clock_for_arrivals() -> None:
    """queued_ts of the second request is nonsense on purpose: it must not matter."""
    read = read_trace(DATA / "vllm_log.jsonl")
    assert rows(read) == [(0.0, 2300, 500), (0.25, 1000, 700)]
    assert read.workload.label(1) == "bench-1"


def test_plain_csv_with_semicolons_units_and_options() -> None:
    read = read_trace(DATA / "plain.csv")
    assert rows(read) == [(0.0, 200, 16), (0.5, 100, 20)]
    assert read.workload.max_tokens.tolist() == [16, 64]
    assert read.workload.priority.tolist() == [-1, 0]
    assert read.workload.names == ("a", "b")
    assert read.notes == (
        "1 outputs end at their Max Tokens",
        "Arrival (ms) read as milliseconds",
        "1 rows were earlier than the row before them: sorted by time",
    )


def test_plain_jsonl_with_dates_and_a_text_column() -> None:
    assert rows(read_trace(DATA / "plain.jsonl")) == [(0.0, 12, 5), (0.5, 9, 7)]


@pytest.mark.parametrize(
    ("stamps", "seconds"),
    [
        (("0", "1500"), 1500.0),  # plain seconds
        (("1787267980", "1787267981.5"), 1.5),  # since 1970 in s, ms, us and ns
        (("1787267980000", "1787267981500"), 1.5),
        (("1787267980000000", "1787267981500000"), 1.5),
        (("1787267980000000000", "1787267981500000000"), 1.5),
        (("2024-01-01 00:00:00", "2024-01-01T01:00:01.5+01:00"), 1.5),
    ],
)
def test_plain_time_stamps_in_the_units_people_have(
    stamps: tuple[str, str], seconds: float
) -> None:
    text = f"ts,input,output\n{stamps[0]},1,1\n{stamps[1]},1,1\n"
    assert read_trace(text.encode()).workload.arrival_s.tolist() == [0.0, seconds]


@pytest.mark.parametrize(
    "header",
    [
        "arrival,prompt,output",
        "Arrival_Time,Input Tokens,Generated-Tokens",
        "arrived_at,num_prompt_tokens,num_output_tokens",
        "timestamp,ISL,OSL",
        "time (s),prompt_len,output_len",
        "requestTime,contextTokens,completionTokens",
        "TS,input_length,output_length",
    ],
)
def test_obvious_column_names(header: str) -> None:
    assert rows(read_trace(f"{header}\n0,10,3\n2,20,4\n".encode())) == [(0, 10, 3), (2, 20, 4)]


# --- what holds for all ---------------------------------------------------------------------------


def test_line_ends_byte_order_marks_and_encodings_make_no_difference() -> None:
    text = "time,prompt,output\n1,10,3\n2,20,4\n"
    variants = [text, text.replace("\n", "\r\n"), text.replace("\n", "\r"), text.rstrip("\n")]
    sources = [variant.encode() for variant in variants]
    sources += [text.encode("utf-8-sig"), text.encode("utf-16"), ("\n\n" + text + "\n").encode()]
    sources += [text.replace(",", "\t").encode(), text.replace("3", '"3"').encode()]
    for source in sources:
        assert rows(read_trace(source)) == [(0, 10, 3), (1, 20, 4)]


def test_limit_time_scale_and_max_tokens() -> None:
    text = b"time,prompt,output\n9,10,3\n1,20,4\n5,30,5\n"
    read = read_trace(
        text, limit=2, time_scale=0.5, max_tokens=FactorTokens(kind="factor", factor=2)
    )
    assert rows(read) == [(0.0, 20, 4), (2.0, 30, 5)]
    assert (read.num_rows, read.taken, read.left_out) == (3, 2, 1)
    assert read.workload.max_tokens.tolist() == [8, 10]
    cut = read_trace(text, max_tokens=FixedTokens(kind="fixed", tokens=4)).workload
    assert (cut.max_tokens.tolist(), cut.output_len.tolist()) == ([4, 4, 4], [4, 4, 3])
    for option in ({"limit": 0}, {"time_scale": 0.0}, {"rate_per_s": float("nan")}):
        with pytest.raises(ValueError, match=f"{next(iter(option))} is .*; allowed is"):
            read_trace(text, **option)


def test_a_rule_replaces_the_column_and_says_so() -> None:
    text = b"time,prompt,output,max_tokens\n0,10,3,50\n"
    assert read_trace(text).workload.max_tokens.tolist() == [50]
    ruled = read_trace(text, max_tokens=FixedTokens(kind="fixed", tokens=2))
    assert ruled.workload.max_tokens.tolist() == [2]
    assert "max_tokens replaced by the rule max_tokens fixed" in ruled.notes


def test_equal_times_keep_the_order_of_the_file() -> None:
    read = read_trace(b"time,prompt,output\n3,1,1\n0,2,1\n3,3,1\n0,4,1\n")
    assert read.workload.num_prompt_tokens.tolist() == [2, 4, 1, 3]
    assert describe(read.workload)["zero_gaps"] == pytest.approx(2 / 3)


def test_large_hash_ids_stay_clear_of_generated_tokens() -> None:
    """Ids of 63 bits, as hashes are: numbered anew, equal ones still equal."""
    big = 2**63 - 1
    lines = [
        {"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [big, 5]},
        {"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [big]},
    ]
    read = read_trace("\n".join(map(json.dumps, lines)).encode())
    first, second = read.workload.content(0), read.workload.content(1)
    assert first == [(RENUMBERED_BASE + 512, 512), (RENUMBERED_BASE, 88)]
    assert second == first[:1]
    assert OUTPUT_BASE < RENUMBERED_BASE < PRIVATE_BASE


def test_importing_the_module_imports_no_pandas() -> None:
    code = "import sys, sim.workload.trace_reader; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- the public excerpts --------------------------------------------------------------------------


def test_public_azure(public_data: Path) -> None:
    """Figures of the whole file, of which this is the first part: median 1,469 and 13."""
    read = read_trace(public_data / "traces/azure2023_code_1000.csv")
    assert (read.format, read.taken, read.refused) == ("azure", 1000, ())
    figures = describe(read.workload)
    assert figures["prompt_tokens"]["p50"] == 1469
    assert figures["output_tokens"]["p50"] == pytest.approx(13, abs=1)
    assert figures["duration_s"] == pytest.approx(521.588576, abs=1e-9)


def test_public_mooncake(public_data: Path) -> None:
    """Every row has ceil(in / 512) ids; 321 prompts reach 8,192; equal ids, equal blocks."""
    path = public_data / "traces/mooncake_conversation_600.jsonl"
    read = read_trace(path)
    assert (read.format, read.taken, read.refused) == ("mooncake", 600, ())
    assert np.count_nonzero(read.workload.num_prompt_tokens >= 8192) == 321
    seen, hits, blocks = set(), 0, 0
    for row in map(json.loads, path.read_text().splitlines()):
        whole = row["hash_ids"][: row["input_length"] // 512]
        prefixes = [tuple(whole[: i + 1]) for i in range(len(whole))]
        hits += sum(prefix in seen for prefix in prefixes)
        blocks += len(whole)
        seen.update(prefixes)
    prefix = describe(read.workload)["prefix"]
    assert (prefix["blocks"], prefix["hit_blocks"]) == (blocks, hits)
    assert describe(read.workload)["zero_gaps"] == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize(
    ("file", "name", "taken"),
    [
        ("burstgpt_format_sample.csv", "burstgpt", 3),
        ("splitwise_sim_test_trace.csv", "splitwise", 3),
        ("vidur_arxiv_summarization_1000.csv", "vidur", 1000),
        ("vllm019_rtx4090_llama8b_requests.jsonl", "vllm-log", 300),
    ],
)
def test_other_public_files(public_data: Path, file: str, name: str, taken: int) -> None:
    read = read_trace(public_data / "traces" / file, rate_per_s=1.0)
    assert (read.format, read.taken, len(read.refused)) == (name, taken, 0)
    assert read.workload.arrival_s[0] >= 0


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("servegen_mmid0_trace.csv", "line 1 holds values, not column names"),
        ("sarathi_prefill_len.csv", "no column for prompt tokens and output tokens"),
        ("vllm019_rtx4090_llama8b_timeseries.csv", "no column for prompt tokens"),
        ("SYNTHETIC_vllm_bench_serve_detailed.json", "one JSON object per line is allowed"),
        ("trtllm_iteration_stats.jsonl", "no column for prompt tokens"),
    ],
)
def test_public_files_that_are_no_request_logs(public_data: Path, file: str, problem: str) -> None:
    with pytest.raises(TraceError, match=f"{file}: .*{problem}"):
        read_trace(public_data / "traces" / file)

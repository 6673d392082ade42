"""A sweep: the grid's paths and values, the table's order, cancel, refusals, and two executors."""

import csv
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sim.cli.main import main
from sim.cli.sweep import sweep_csv
from sim.results.run import simulate
from sim.scenario.load import Scenario, ScenarioError, parse_scenario
from sim.sweep import sweep as sweeping
from sim.sweep.grid import axis_of, parse_axis, settings_of
from sim.sweep.sweep import Row, open_executor, run_sweep
from tests.conftest import EXAMPLES

EXAMPLE = EXAMPLES / "toy_16_requests.json"


def base(**fields: Any) -> Scenario:
    """Twelve Poisson chats under the linear toy."""
    chat = {
        "name": "chat",
        "count": 12,
        "arrivals": {"kind": "poisson", "rate_per_s": 20.0},
        "prompt": {"kind": "uniform", "min": 50, "max": 400},
        "output": {"kind": "fixed", "tokens": 8},
    }
    replica = {
        "latency": {"kind": "linear"},
        "policy": {"engine": "vllm_v1", "max_num_batched_tokens": 256, "max_num_seqs": 8},
    }
    data = {"workload": {"classes": [chat]}, "replicas": [replica], "slo": {"itl_s": 0.02}}
    return parse_scenario(data | fields)


# --- the grid -------------------------------------------------------------------------------------


def test_a_bare_knob_is_set_in_every_replica_that_has_it() -> None:
    one = base().model_dump(mode="json")["replicas"][0]
    other = one | {"policy": {"engine": "static", "max_batch_size": 4}}
    scenario = base(replicas=[one, other, one])
    axis = parse_axis(scenario, "max_num_seqs=2,4")
    assert axis.places == tuple(("replicas", k, "policy", "max_num_seqs") for k in (0, 2))
    assert axis.values == (2, 4)


@pytest.mark.parametrize(
    ("text", "place", "values"),
    [
        ("seed=3,4", ("seed",), (3, 4)),
        ("replicas[0].tp=1,2", ("replicas", 0, "tp"), (1, 2)),
        ("replicas[*].count=1,2", ("replicas", 0, "count"), (1, 2)),
        ("enable_prefix_caching=true,false", (*"rp", "enable_prefix_caching"), (True, False)),
        ("max_model_len=null,8192", (*"rp", "max_model_len"), (None, 8192)),
        ("slo.ttft_s=0.5,1", ("slo", "ttft_s"), (0.5, 1)),
        ("link.kind=pcie_gen4_x16", ("link", "kind"), ("pcie_gen4_x16",)),
        (
            "workload.classes[0].arrivals.rate_per_s=1,1e2",
            ("workload", "classes", 0, "arrivals", "rate_per_s"),
            (1, 100.0),
        ),
        (
            'replicas[0].latency=[{"kind": "linear", "step_s": 0.01}, {"kind": "roofline"}]',
            ("replicas", 0, "latency"),
            ({"kind": "linear", "step_s": 0.01}, {"kind": "roofline"}),
        ),
    ],
)
def test_paths_and_values(text: str, place: tuple[Any, ...], values: tuple[Any, ...]) -> None:
    if place[:2] == tuple("rp"):
        place = ("replicas", 0, "policy", *place[2:])
    axis = parse_axis(base(), text)
    assert axis.places == (place,)
    assert axis.values == values


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max_num_tokens=1", "max_num_tokens is not a knob of vllm_v1; allowed: engine, max_num_b"),
        ("replicas[0].color=1", "replicas[0] has no color; allowed: count, role, model"),
        ("replicas[1].tp=1", "replicas has no 1; allowed: [0] to [0], [*]"),
        ("slo.p99=1", "slo has no p99; allowed: ttft_s, tpot_s, itl_s, e2e_s"),
        ("link.speed=1", "link has no speed; allowed: kind, bandwidth_bytes_per_s"),
        ("seed.x=1", "seed has no parts"),
        ("a..b=1", "'a..b' is not a path"),
        ("replicas[0].tp=1,3", "replicas[0].tp: found 3; allowed: 1, 2, 4 or 8"),
        ("max_num_seqs=4,-1", "found -1; must be at least 1"),
        ("max_num_seqs=many", "found 'many'; must be a whole number"),
        ("replicas[0].gpu=rtx_4091", "unknown GPU"),
        ("workload.classes[0].arrivals.kind=weekly", "found 'weekly'; allowed: 'poisson'"),
        ("max_num_seqs=4,4", "4 is given twice"),
        ("max_num_seqs=4,", "an empty value; write null"),
        ("max_num_seqs", "a grid is written NAME=VALUE"),
        ("seed=[1,2", "not a JSON list"),
    ],
)
def test_what_a_grid_cannot_be_is_refused_with_what_is_allowed(text: str, words: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        parse_axis(base(), text)
    assert words.lower() in str(refused.value).lower()


def test_two_axes_on_one_field_and_too_many_settings_are_refused() -> None:
    scenario = base()
    twice = [
        axis_of(scenario, "max_num_seqs", [1]),
        axis_of(scenario, "replicas[0].policy.max_num_seqs", [2]),
    ]
    with pytest.raises(ScenarioError, match="set by two axes: max_num_seqs and replicas"):
        settings_of(scenario, twice)
    many = [
        axis_of(scenario, "seed", range(400)),
        axis_of(scenario, "max_num_seqs", range(1, 401)),
    ]
    with pytest.raises(ScenarioError, match="160,000 settings; at most 20,000"):
        settings_of(scenario, many)


# --- the table ------------------------------------------------------------------------------------


class LastFirst(Executor):
    """Runs nothing until everything is submitted, then the last one first."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.calls: list[Callable[[], None]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def call() -> None:
            future.set_result(fn(*args, **kwargs))

        self.calls.append(call)
        if len(self.calls) == self.expected:
            for late in reversed(self.calls):
                late()
        return future


def test_rows_are_in_grid_order_and_equal_single_runs() -> None:
    scenario = base()
    axes = [
        axis_of(scenario, "max_num_batched_tokens", [64, 256]),
        axis_of(scenario, "seed", [0, 1, 2]),
    ]
    sweep = run_sweep(scenario, axes, executor=LastFirst(6))
    assert [row.values for row in sweep.rows] == [(b, s) for b in (64, 256) for s in (0, 1, 2)]
    for row, setting in zip(sweep.rows, settings_of(scenario, axes), strict=True):
        assert setting.scenario is not None
        assert row.summary == simulate(setting.scenario).summary
    figures = {row.summary["ttft_s"]["p50"] for row in sweep.rows if row.summary}
    assert len(figures) == 6


def test_the_requests_are_built_once_where_the_grid_leaves_them_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds: list[int] = []
    build = sweeping.requests_of

    def counting(spec: Any, seed: int, *places: Any) -> Any:
        seeds.append(seed)
        return build(spec, seed, *places)

    monkeypatch.setattr(sweeping, "requests_of", counting)
    scenario = base()
    axes = [
        axis_of(scenario, "max_num_seqs", [1, 2, 4, 8]),
        axis_of(scenario, "seed", [5, 6, 7]),
    ]
    assert run_sweep(scenario, axes).complete
    assert sorted(seeds) == [5, 6, 7]


def test_a_refused_setting_is_a_row_and_the_others_run() -> None:
    scenario = base()
    axes = [axis_of(scenario, "max_num_batched_tokens", [4, 256])]
    refused, ran = run_sweep(scenario, axes).rows
    assert refused.status == "refused"
    assert "must be greater than or equal to max_num_seqs (8)" in (refused.reason or "")
    assert refused.summary is None
    assert ran.status == "finished"


def test_a_combination_that_no_scenario_can_hold_is_a_refused_row() -> None:
    scenario = base()
    place = "workload.classes[0].prompt"
    axes = [axis_of(scenario, f"{place}.min", [50, 600]), axis_of(scenario, f"{place}.max", [400])]
    fits, crossed = run_sweep(scenario, axes).rows
    assert (fits.status, crossed.status) == ("finished", "refused")
    assert "min 600 is above max 400" in (crossed.reason or "")


def test_an_executor_that_breaks_costs_its_own_rows_only() -> None:
    class Breaking(ThreadPoolExecutor):
        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            if args[0].index == 1:
                broken: Future[Any] = Future()
                broken.set_exception(MemoryError("no room"))
                return broken
            return super().submit(fn, *args, **kwargs)

    scenario = base()
    with Breaking(2) as executor:
        rows = run_sweep(scenario, [axis_of(scenario, "seed", [0, 1, 2])], executor=executor).rows
    assert [row.status for row in rows] == ["finished", "failed", "finished"]
    assert rows[1].reason == "MemoryError: no room"


def test_a_deadline_bounds_each_setting_on_its_own() -> None:
    """A run looks at it every 20,000 steps: only the long answer takes that many."""
    scenario = base()
    axes = [
        axis_of(scenario, "max_model_len", [100_000]),
        axis_of(scenario, "workload.classes[0].output.tokens", [60_000, 5]),
    ]
    rows = run_sweep(scenario, axes, deadline_s=1e-9).rows
    assert [row.status for row in rows] == ["bounded", "finished"]
    assert "deadline" in (rows[0].reason or "")


class FiveSettings(ThreadPoolExecutor):
    """One thread that stops before its sixth setting until `the_rest` is called."""

    def __init__(self) -> None:
        super().__init__(1)
        self.gate = threading.Semaphore(5)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        def behind_the_gate() -> Any:
            self.gate.acquire()
            return fn(*args, **kwargs)

        return super().submit(behind_the_gate)

    def the_rest(self) -> None:
        self.gate.release(100)


def test_cancel_returns_what_is_done_in_grid_order() -> None:
    scenario = base()
    axes = [axis_of(scenario, "seed", range(50))]
    seen: list[tuple[int, int]] = []
    with FiveSettings() as executor:
        sweep = run_sweep(
            scenario,
            axes,
            executor=executor,
            progress=lambda done, total: seen.append((done, total)),
            cancelled=lambda: bool(seen) and seen[-1][0] >= 5,
        )
        executor.the_rest()
    assert seen == [(k, 50) for k in range(6)]
    assert not sweep.complete
    assert [row.index for row in sweep.rows] == [0, 1, 2, 3, 4]


def test_a_file_of_the_workload_is_found_beside_the_scenario(tmp_path: Path) -> None:
    lines = "".join(f"{k / 10},{100 + k},5\n" for k in range(10))
    (tmp_path / "log.csv").write_text("arrival_s,prompt_tokens,output_tokens\n" + lines)
    scenario = base(workload={"file": "log.csv"})
    axes = [axis_of(scenario, "workload.limit", [5, 10])]
    rows = run_sweep(scenario, axes, base_folder=tmp_path).rows
    assert [row.summary["requests"] for row in rows if row.summary] == [5, 10]
    (missing, _) = run_sweep(scenario, axes).rows
    assert missing.status == "refused"
    assert "please upload 'log.csv'" in (missing.reason or "")


# --- the command line -----------------------------------------------------------------------------


def test_command_line_writes_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "table.csv"
    grid = ["--grid", "max_num_batched_tokens=4,16", "--grid", "max_num_seqs=2,8"]
    assert main(["sweep", str(EXAMPLE), *grid, "--csv", str(file)]) == 0
    out, err = capsys.readouterr()
    with file.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0])[:4] == ["max_num_batched_tokens", "max_num_seqs", "status", "reason"]
    assert {"ttft_s_p50", "itl_s_max", "output_tokens_per_s", "steps"} <= set(rows[0])
    points = [(row["max_num_batched_tokens"], row["max_num_seqs"]) for row in rows]
    assert points == [("4", "2"), ("4", "8"), ("16", "2"), ("16", "8")]
    assert [row["status"] for row in rows] == ["finished", "refused", "finished", "finished"]
    assert "greater than or equal to max_num_seqs" in rows[1]["reason"]
    assert rows[1]["ttft_s_p50"] == ""
    assert float(rows[0]["ttft_s_p50"]) > 0
    assert out.splitlines()[2].split()[:3] == ["4", "8", "refused"]
    assert err.splitlines()[-2:] == ["4 of 4 settings", f"wrote {file}"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--grid", "budget=1"], "--grid budget is not a knob of vllm_v1; allowed: engine"),
        (["--grid", "max_num_seqs=0"], "found 0; must be at least 1"),
        (["--grid", "seed=1", "--executor", "ray://x"], "an executor is threads or dask://"),
        (["--grid", "seed=1", "--executor", "dask://nowhere"], "an executor is threads or dask://"),
        (["--grid", "seed=1", "--csv", "/proc/none/x.csv"], "--csv /proc/none/x.csv: "),
        (["--grid", "max_num_batched_tokens=1"], "no setting could run; the first was refused"),
    ],
)
def test_command_line_refuses(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", str(EXAMPLE), *arguments]) == 2
    assert words in capsys.readouterr().err


def test_ctrl_c_leaves_what_is_done_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes from the machine, in the middle of the third setting."""
    run, file, calls = sweeping.run_resolved, tmp_path / "table.csv", []

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
            while not kwargs["cancelled"]():
                pass
        return run(*args, **kwargs)

    monkeypatch.setattr(sweeping, "run_resolved", interrupted)
    monkeypatch.setattr(sweeping.os, "cpu_count", lambda: 1)
    before = signal.getsignal(signal.SIGINT)
    try:
        grid = ["--grid", f"seed={','.join(map(str, range(40)))}"]
        assert main(["sweep", str(EXAMPLE), *grid, "--csv", str(file)]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(calls) == 3
    with file.open(newline="") as stream:
        assert [row["seed"] for row in csv.DictReader(stream)] == ["0", "1"]
    assert "cancelled: 2 of 40 settings are done" in capsys.readouterr().err


def test_without_dask_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match="pip install distributed"), open_executor("dask://h:1"):
        pass


# --- a Dask cluster -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_table_and_survives_a_killed_worker() -> None:
    """200 settings on two worker processes; one is killed early, with settings in its hands."""
    distributed = pytest.importorskip("distributed")
    scenario = base()
    axes = [
        axis_of(scenario, "max_num_batched_tokens", [4, *range(32, 321, 32)][:10]),
        axis_of(scenario, "workload.classes[0].arrivals.rate_per_s", [5, 10, 20, 40]),
        axis_of(scenario, "seed", range(5)),
    ]
    killed: list[int] = []
    cluster = distributed.LocalCluster(
        n_workers=2, processes=True, threads_per_worker=1, dashboard_address=None
    )
    with cluster, open_executor(f"dask://{cluster.scheduler_address[6:]}") as executor:

        def kill_one(done: int, total: int) -> None:
            if done >= 30 and not killed:  # 20 of them were refused before anything ran
                with distributed.Client(cluster, set_as_default=False) as client:
                    at_work = {worker: len(keys) for worker, keys in client.processing().items()}
                    busy = max(at_work, key=at_work.__getitem__)
                    assert at_work[busy] > 0
                    killed.append(client.run(os.getpid)[busy])
                os.kill(killed[0], signal.SIGKILL)

        on_dask = run_sweep(scenario, axes, executor=executor, progress=kill_one)
        with distributed.Client(cluster, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
            assert killed[0] not in client.run(os.getpid).values()
    on_threads = run_sweep(scenario, axes)
    assert len(on_dask.rows) == 200
    assert on_dask.rows == on_threads.rows
    assert statuses(on_dask.rows) == {"refused": 20, "finished": 180}
    assert list(sweep_csv(on_dask)[1]) == list(sweep_csv(on_threads)[1])


def statuses(rows: tuple[Row, ...]) -> dict[str, int]:
    found = [row.status for row in rows]
    return {status: found.count(status) for status in sorted(set(found), key=found.index)}

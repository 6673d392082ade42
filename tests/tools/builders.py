"""Builders for tests: a server with a few requests, stepped by hand."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from sim.core import reasons
from sim.core import scheduler_ops as ops
from sim.core.integrity import check_integrity
from sim.core.requests import PRIVATE_BASE, Table, empty_requests
from sim.core.state import POLICY, State, columns, events_per_step, new_state, records
from sim.engines import dispatch
from sim.engines.registry import Knobs, engine_spec
from sim.latency.model import LATENCY, linear
from sim.workload.prompt_tokens import run_table


def policy_rows(engine: str = "vllm_v1", *, columns: Any = None, **knobs: Any) -> Table:
    """One POLICY row of an engine; what is not named is roomy. `columns` of the row are set last,
    for what no knob says directly."""
    numbers = dict(engine_spec(engine).roomy) | {"engine": engine} | knobs
    rows = records(1, POLICY)
    rows[0] = TypeAdapter(Knobs).validate_python(numbers).row()
    for name, value in (columns or {}).items():
        rows[name] = value
    return rows


def linear_latency(count: int = 1) -> Table:
    """The linear toy for each of `count` servers: 5 ms + 12 us a prefill token + 40 us a decode."""
    rows: Table = records(count, LATENCY)
    for k in range(count):
        rows[k] = linear()
    return rows


def request_table(
    asked: Iterable[tuple[int, int]], contents: list[list[tuple[int, int]]] | None = None
) -> tuple[Table, Table]:
    """(requests, runs) for (prompt tokens, output tokens) each; private content by default."""
    asked = list(asked)
    table = empty_requests(len(asked))
    table.num_prompt_tokens = [prompt for prompt, _ in asked]
    table.output_len = table.max_tokens = [output for _, output in asked]
    table.arrival_s = np.arange(len(asked))
    if contents is None:
        contents = [[(PRIVATE_BASE + (k << 24), prompt)] for k, (prompt, _) in enumerate(asked)]
    runs, table.first_run, table.num_runs = run_table(contents)
    return table, runs


PLANNED = ("request", "num_tokens", "num_computed_tokens")


def rows_of(table: Table, count: int, *names: str) -> list[tuple[int, ...]]:
    """The first rows of a table as tuples of the fields asked for."""
    found = columns(table[:count])
    return list(zip(*(found[name].tolist() for name in names), strict=True))


class Server:
    """A scheduler without a clock: every step takes one second."""

    def __init__(
        self,
        asked: Iterable[tuple[int, int]],
        contents: list[list[tuple[int, int]]] | None = None,
        *,
        check: bool = True,
        **knobs: Any,
    ) -> None:
        policy = policy_rows(**knobs)
        table, runs = request_table(asked, contents)
        room = events_per_step(policy) + 2 * len(table)
        self.state: State = new_state(table, runs, policy, num_events=room)
        self.flags = np.zeros(policy[0].max_num_seqs, np.int32)
        self.now_s = 0.0
        self.check = check

    def count(self, name: str) -> int:
        """A counter of the server, by its name."""
        return int(columns(self.state.counters)[name][0])

    def add(self, *rows: int) -> "Server":
        for r in rows:
            ops.add(self.state, 0, r)
        return self

    def abort(self, r: int) -> bool:
        return bool(ops.abort(self.state, r, self.now_s))

    def plan(self) -> list[tuple[int, int, int]]:
        """schedule(): (request, tokens, computed before) in batch order."""
        columns(self.state.log)["num_events"] = 0
        dispatch.schedule(self.state, 0)
        return rows_of(self.state.scheduled[0], self.count("num_scheduled"), *PLANNED)

    def complete(self) -> list[int]:
        """complete(): the requests that finished."""
        self.now_s += 1.0
        ops.complete(self.state, 0, self.flags, self.now_s)
        self.flags[:] = reasons.NOT_FINISHED
        if self.check:
            check_integrity(self.state)
        return self.state.ended[0, : self.count("num_ended")].tolist()

    def step(self) -> list[tuple[int, int, int]]:
        planned = self.plan()
        self.complete()
        return planned

    def run(self, max_steps: int = 10_000) -> int:
        """Step until nothing is left; returns the number of steps."""
        for steps in range(max_steps):
            if sum(map(self.count, ("num_running", "num_waiting", "num_swapped"))) == 0:
                return steps
            self.step()
        raise AssertionError(f"still running after {max_steps} steps")

    def events(self, kind: int) -> list[tuple[int, int, int]]:
        """(request, value, limit) of the events of one kind in the last step."""
        num_events = columns(self.state.log)["num_events"][0]
        found = rows_of(self.state.events, num_events, "kind", "request", "value", "limit")
        return [tuple(numbers) for of, *numbers in found if of == kind]

    @property
    def stop_reason(self) -> str:
        return reasons.STOP_REASONS[self.count("stop_reason")]

    @property
    def free(self) -> int:
        return self.count("num_free_blocks")

"""A small run, step by step: every KV block and the block table of every request while each step
runs.

The compiled loop runs one step at a time, and after each the scheduler's own state is read. What
ended with the step has given its blocks back by then; they are put in again, so that a step is seen
as it ran. Pure: no streamlit.
"""

from dataclasses import dataclass, field

import numpy as np

from sim.cluster import loop, simulator
from sim.core import reasons
from sim.core.recording import Recording
from sim.core.state import State
from sim.engines import dispatch
from sim.engines.registry import engine_spec
from sim.results.run import workload_of
from sim.scenario.load import Resolved, Scenario, resolve
from sim.workload.workload import Workload, to_requests

BLOCK_STATES = ("free", "used", "shared", "cached")
FREE, USED, SHARED, CACHED = range(len(BLOCK_STATES))
MOST_BLOCKS = 256
MOST_STEPS = 600
NO_HASH = -1


@dataclass(frozen=True)
class Held:
    """A request's block table as it changed: `blocks` from `position` on since `step`; an empty
    tuple at position 0: it gave all back."""

    step: int
    request: int
    position: int
    blocks: tuple[int, ...]


@dataclass(frozen=True)
class Replay:
    """All steps of a run. `kinds`, `owners` and `hashes` are (steps, blocks); an owner or a
    hash of -1 is none.

    `parents`: the hash before each hash in a chain, -1 for the first of one.
    """

    resolved: Resolved
    workload: Workload
    recording: Recording
    kinds: np.ndarray
    owners: np.ndarray
    hashes: np.ndarray
    held: tuple[Held, ...]
    parents: dict[int, int]
    evictions: tuple[tuple[int, int], ...]  # (step, block): what was cached there is forgotten
    ended: bool

    @property
    def num_steps(self) -> int:
        return len(self.kinds)


@dataclass
class Recorder:
    """What the steps leave behind. `has_slots`: each request holds a slot for the longest one."""

    has_slots: bool = False
    kinds: list[np.ndarray] = field(default_factory=list)
    owners: list[np.ndarray] = field(default_factory=list)
    hashes: list[np.ndarray] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    tables: dict[int, tuple[int, ...]] = field(default_factory=dict)
    parents: dict[int, int] = field(default_factory=dict)
    evictions: list[tuple[int, int]] = field(default_factory=list)

    def take(self, state: State) -> None:
        """Read the state after a step. Block 0 is the null block; block 1 is number 0 here."""
        step, hashes = len(self.kinds), state.blocks[0][1:].hash.astype(np.int64)
        owners = np.full(len(hashes), -1, np.int16)
        readers = np.zeros(len(hashes), int)
        ended = ended_tables(state, self.tables, self.has_slots)
        for r in range(len(state.requests)):
            table = ended[r] if r in ended else table_of(state, r)
            before = self.tables.get(r, ())
            if table != before:
                self.held.append(change(step, r, before, table))
                self.tables[r] = table
            for block in table:
                owners[block] = r if owners[block] < 0 else owners[block]
                readers[block] += 1
            self.link(hashes, table)
        kinds = np.where(readers > 1, SHARED, np.where(readers > 0, USED, FREE))
        kinds[(readers == 0) & (hashes != NO_HASH)] = CACHED
        if step:
            gone = np.flatnonzero((self.kinds[-1] == CACHED) & (hashes != self.hashes[-1]))
            self.evictions += [(step, int(b)) for b in gone]
        self.kinds.append(kinds.astype(np.uint8))
        self.owners.append(owners)
        self.hashes.append(hashes)

    def link(self, hashes: np.ndarray, table: tuple[int, ...]) -> None:
        """Note which hash follows which in a request's chain."""
        before = NO_HASH
        for block in table:
            value = int(hashes[block])
            if value == NO_HASH:
                break
            self.parents.setdefault(value, before)
            before = value


def table_of(state: State, r: int) -> tuple[int, ...]:
    """The block table of a request that holds one."""
    request = state.requests[r]
    count = int(request.num_blocks) if request.slot >= 0 else 0
    return tuple(int(b) - 1 for b in state.block_table[0, request.slot, :count])


def ended_tables(
    state: State, before: dict[int, tuple[int, ...]], has_slots: bool
) -> dict[int, tuple[int, ...]]:
    """The blocks of the requests that ended with the step that just ran.

    They returned their rows of the block table in the order in which they ended, onto the top of a
    stack; a row keeps its content until it is taken again.
    """
    counters, policy = state.counters[0], state.policy[0]
    ended = [int(r) for r in state.ended[0, : counters.num_ended]]
    ended = [r for r in ended if state.requests[r].status != reasons.REJECTED]
    top = int(counters.num_free_slots)
    found = {}
    for r, slot in zip(ended, state.free_slots[0, top - len(ended) : top], strict=True):
        tokens = int(state.requests[r].num_computed_tokens)
        if has_slots:
            tokens = int(policy.max_model_len)
        count = max(len(before.get(r, ())), -(-tokens // int(policy.block_size)))
        found[r] = tuple(int(b) - 1 for b in state.block_table[0, slot, :count])
    return found


def change(step: int, r: int, before: tuple[int, ...], after: tuple[int, ...]) -> Held:
    """The part of a block table that is new."""
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    if len(after) < len(before) or same < len(before):
        same = 0
    return Held(step, r, same, after[same:])


def replay(scenario: Scenario) -> Replay:
    """Run a scenario step by step. ValueError for one too large to draw; ScenarioError where it is
    refused."""
    resolved = resolve(scenario)
    if int(resolved.policy[0].num_gpu_blocks) - 1 > MOST_BLOCKS:
        raise ValueError(f"at most {MOST_BLOCKS} KV blocks can be drawn")
    workload, _ = workload_of(scenario)
    state, cluster = simulator.prepare(
        to_requests(workload),
        workload.runs,
        resolved.policy,
        resolved.latency,
        loop_think_s=workload.loop_think_s,
        limits=simulator.Limits(max_steps=MOST_STEPS),
    )
    engines = dispatch.only(int(resolved.policy[0].engine))
    recorder = Recorder(engine_spec(resolved.replicas[0].knobs.engine).kv_layout == "slots")
    outcome = loop.STEP_QUOTA_REACHED
    while outcome in (loop.STEP_QUOTA_REACHED, loop.RECORDING_FULL):
        taken = int(state.log[0].num_steps)
        outcome = loop.run_slice(state, cluster, engines, loop.COLOCATED, 1)
        if outcome == loop.RECORDING_FULL:
            state = simulator.with_more_room(state, cluster)
        if int(state.log[0].num_steps) > taken:
            recorder.take(state)
    status, reason = simulator.explain_outcome(outcome, state, cluster)
    return Replay(
        resolved=resolved,
        workload=workload,
        recording=simulator.close(state, cluster, status, reason),
        kinds=np.array(recorder.kinds).reshape(-1, len(state.blocks[0]) - 1),
        owners=np.array(recorder.owners).reshape(-1, len(state.blocks[0]) - 1),
        hashes=np.array(recorder.hashes).reshape(-1, len(state.blocks[0]) - 1),
        held=tuple(recorder.held),
        parents=recorder.parents,
        evictions=tuple(recorder.evictions),
        ended=outcome == loop.ALL_DONE,
    )

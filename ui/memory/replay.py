"""A small run, step by step: the state of every KV block and the block table of every request.

The compiled loop runs one step at a time, and after each the scheduler's own state is read. Pure:
no streamlit.
"""

from dataclasses import dataclass, field

import numpy as np

from sim import cluster, engine, policies
from sim.run import workload_of
from sim.scenario import Resolved, Scenario, resolve
from sim.state import State
from sim.trace import Trace
from sim.workload import Workload, to_requests

FREE, USED, SHARED, CACHED = range(4)  # of a block
MOST_BLOCKS = 256
MOST_STEPS = 600


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
    """All steps of a run. `kinds` and `owners` are (steps, blocks); an owner of -1 is nobody.

    `chains` are the hashes of each request's full blocks, in order, as the prefix cache had them.
    """

    resolved: Resolved
    workload: Workload
    trace: Trace
    kinds: np.ndarray
    owners: np.ndarray
    held: tuple[Held, ...]
    chains: dict[int, tuple[int, ...]]
    evictions: tuple[tuple[int, int], ...]  # (step, block): what was cached there is forgotten
    ended: bool

    @property
    def num_steps(self) -> int:
        return len(self.kinds)


@dataclass
class Recorder:
    """What the steps leave behind."""

    kinds: list[np.ndarray] = field(default_factory=list)
    owners: list[np.ndarray] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    tables: dict[int, tuple[int, ...]] = field(default_factory=dict)
    chains: dict[int, tuple[int, ...]] = field(default_factory=dict)
    evictions: list[tuple[int, int]] = field(default_factory=list)
    hashes: np.ndarray | None = None

    def take(self, state: State) -> None:
        """Read the state after a step. Block 0 is the null block; block 1 is number 0 here."""
        step, blocks = len(self.kinds), state.blocks[0][1:]
        owners = np.full(len(blocks), -1, np.int16)
        for r, request in enumerate(state.requests):
            count = int(request.num_blocks) if request.slot >= 0 else 0
            table = tuple(int(b) - 1 for b in state.block_table[0, request.slot, :count])
            before = self.tables.get(r, ())
            if table != before:
                self.held.append(change(step, r, before, table))
                self.tables[r] = table
            for block in table:
                owners[block] = r if owners[block] < 0 else owners[block]
            hashes = tuple(int(blocks.hash[b]) for b in table if blocks.hash[b] != -1)
            if len(hashes) > len(self.chains.get(r, ())):
                self.chains[r] = hashes
        kinds = np.where(blocks.references > 1, SHARED, np.where(blocks.references > 0, USED, FREE))
        kinds[(blocks.references == 0) & (blocks.hash != -1)] = CACHED
        if self.hashes is not None:
            unheld = self.kinds[-1] == CACHED
            gone = np.flatnonzero(unheld & (blocks.hash != self.hashes))
            self.evictions += [(step, int(b)) for b in gone]
        self.hashes = blocks.hash.copy()
        self.kinds.append(kinds.astype(np.uint8))
        self.owners.append(owners)


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
    state, world = engine.prepare(
        to_requests(workload),
        workload.runs,
        resolved.policy,
        resolved.latency,
        loop_think_s=workload.loop_think_s,
        limits=engine.Limits(max_steps=MOST_STEPS),
    )
    engines = policies.only(int(resolved.policy[0].engine))
    recorder = Recorder()
    outcome = cluster.SLICE_OVER
    while outcome in (cluster.SLICE_OVER, cluster.NO_ROOM):
        taken = int(state.log[0].num_steps)
        outcome = cluster.run_slice(state, world, engines, cluster.LONE, 1)
        if outcome == cluster.NO_ROOM:
            state = engine.with_more_room(state, world)
        if int(state.log[0].num_steps) > taken:
            recorder.take(state)
    status, reason = engine.explain_outcome(outcome, state, world)
    return Replay(
        resolved=resolved,
        workload=workload,
        trace=engine.close(state, world, status, reason),
        kinds=np.array(recorder.kinds).reshape(-1, len(state.blocks[0]) - 1),
        owners=np.array(recorder.owners).reshape(-1, len(state.blocks[0]) - 1),
        held=tuple(recorder.held),
        chains=recorder.chains,
        evictions=tuple(recorder.evictions),
        ended=outcome == cluster.ALL_DONE,
    )

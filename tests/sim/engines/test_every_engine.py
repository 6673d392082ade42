"""What every policy promises: nothing lost, nothing over budget, every run ends, the same each
time. They run on every engine of the registry."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sim import replay
from sim.cluster import simulator
from sim.cluster.simulator import Limits
from sim.core import reasons
from sim.core import scheduler_ops as ops
from sim.core.integrity import check_integrity
from sim.engines import dispatch
from sim.engines.knobs.translation import SharedKnobs, knobs_of, knobs_under, shared_knobs
from sim.engines.registry import ENGINE_IDS, ENGINES, EngineSpec, engine_spec
from tests.conftest import CASES
from tests.tools.builders import Server, linear_latency, policy_rows, request_table

LENGTH = 128  # no request is longer

# Small servers under pressure, in which every rule bites in some.
RANDOM_KNOBS: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "vllm_v0": lambda draw: {
        "max_num_batched_tokens": LENGTH,
        "max_num_seqs": 8,
        "max_model_len": LENGTH,
        "block_size": 4,
        "num_gpu_blocks": draw.choice([33, 50, 130]),
        "watermark": draw.choice([0.0, 0.01]),
        "columns": {"num_host_blocks": draw.choice([0, 0, 10, 100])},
    },
    "sarathi": lambda draw: {
        "chunk_size": draw.choice([8, 24, 64]),
        "dynamic": draw.choice([None, (8, 32, 200, 4)]),
        "max_num_seqs": 8,
        "max_model_len": LENGTH,
        "block_size": 4,
        "num_gpu_blocks": draw.choice([33, 50, 130]),
    },
    "orca": lambda draw: {
        "max_num_seqs": draw.choice([2, 8]),
        "max_model_len": LENGTH,
        "num_gpu_blocks": draw.choice([8, 20, 80]),
    },
    "static": lambda draw: {
        "max_batch_size": draw.choice([1, 3, 8]),
        "kv_tokens": draw.choice([LENGTH, 300, 2000]),
        "columns": {"max_model_len": LENGTH},
    },
}
SEEDS = range(25)


def random_knobs(name: str, draw: random.Random) -> dict[str, Any]:
    """Knobs of its own from RANDOM_KNOBS, else the same small server in the engine's words."""
    if name in RANDOM_KNOBS:
        return RANDOM_KNOBS[name](draw)
    shared = SharedKnobs(
        budget=draw.choice([8, 24, LENGTH]),
        seqs=8,
        length=LENGTH,
        kv_tokens=4 * draw.choice([33, 50, 130]),
        block_size=4,
        caching=draw.random() < 0.5,
        chunking=True,
    )
    return knobs_of(shared, name)


def random_load(draw: random.Random, n: int = 14) -> list[tuple[int, int]]:
    """(prompt, output) of requests that fit every server above."""
    return [(draw.randint(1, 60), draw.randint(1, 40)) for _ in range(n)]


def random_server(name: str, seed: int, *, check: bool = True) -> tuple[Server, random.Random]:
    draw = random.Random(f"{name}/{seed}")
    knobs = {"engine": name} | random_knobs(name, draw)
    return Server(random_load(draw), check=check, **knobs), draw


def budget_of(server: Server) -> int:
    """The most tokens that a step of the server may have."""
    policy = server.state.policy[0]
    if policy.max_num_batched_tokens == 0:
        return 10**9
    return int(policy.max_num_batched_tokens)


def idle(server: Server) -> bool:
    counters = server.state.counters[0]
    return counters.num_running + counters.num_waiting + counters.num_swapped == 0


@pytest.mark.parametrize("name", ENGINE_IDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_everything_asked_for_is_computed_once_or_again_after_a_preemption(
    name: str, seed: int
) -> None:
    """Tokens go on where they left off, within the budget; no request starves; all blocks come
    back."""
    server, _ = random_server(name, seed)
    state, requests = server.state, server.state.requests
    server.add(*range(len(requests)))
    computed = np.zeros(len(requests), int)
    for _ in range(5_000):
        if idle(server):
            break
        plan = server.plan()
        events = state.events[: state.log[0].num_events]
        computed[events.request[events.kind == reasons.PREEMPTION]] = 0
        for event in events[np.isin(events.kind, (reasons.ADMITTED, reasons.RESUMED))]:
            computed[event.request] = event.value  # found in the prefix cache
        assert sum(n for _, n, _ in plan) <= budget_of(server)
        assert len({r for r, _, _ in plan}) == len(plan) <= state.policy[0].max_num_seqs
        for r, n, before in plan:
            assert before == computed[r], "a token is computed twice, or skipped"
            assert n >= 1
            computed[r] += n
        server.complete()
    assert idle(server), "the run does not end"
    assert (requests.num_output_tokens == requests.max_tokens).all()
    assert server.free == state.policy[0].num_gpu_blocks - 1
    assert state.counters[0].num_free_host_blocks == state.policy[0].num_host_blocks
    once = requests.num_prompt_tokens + requests.num_output_tokens - 1
    assert (computed == once).all()
    if not state.policy[0].num_host_blocks and not state.policy[0].enable_prefix_caching:
        assert (requests.recomputed_tokens > 0).tolist() == (requests.num_preemptions > 0).tolist()


@pytest.mark.parametrize("name", [spec.id for spec in ENGINES if spec.first_come_first_served])
@pytest.mark.parametrize("seed", SEEDS)
def test_first_come_first_served(name: str, seed: int) -> None:
    """No request gets its first prompt token computed before one that arrived earlier."""
    server, draw = random_server(name, seed)
    to_come = list(range(len(server.state.requests)))
    seen: list[int] = []
    for _ in range(5_000):
        while to_come and draw.random() < 0.3:
            server.add(to_come.pop(0))
        seen += [r for r, _, _ in server.step() if r not in seen]
        if not to_come and idle(server):
            break
    assert seen == sorted(seen)


@pytest.mark.parametrize("name", ENGINE_IDS)
@pytest.mark.parametrize("seed", range(40))
def test_every_block_is_free_after_aborts_early_eos_and_cancelled_steps(
    name: str, seed: int
) -> None:
    server, draw = random_server(name, seed)
    state, n = server.state, len(server.state.requests)
    to_come = list(range(n))
    for _ in range(5_000):
        while to_come and draw.random() < 0.3:
            server.add(to_come.pop(0))
        if draw.random() < 0.05:
            server.abort(draw.randrange(n))
        plan = server.plan()
        if draw.random() < 0.1:
            ops.cancel_step(state, 0)
            check_integrity(state)
            continue
        for i in range(len(plan)):
            if draw.random() < 0.02:
                server.flags[i] = draw.choice([reasons.STOP, reasons.ABORT])
        server.complete()
        if not to_come and idle(server):
            break
    assert not to_come
    assert idle(server)
    assert server.free == state.policy[0].num_gpu_blocks - 1
    assert state.counters[0].num_free_host_blocks == state.policy[0].num_host_blocks
    ended = {reasons.FINISHED, reasons.ABORTED_REQUEST, reasons.EXPECTED}
    assert set(state.requests.status.tolist()) <= ended


def run(name: str, seed: int) -> Any:
    draw = random.Random(f"run/{name}/{seed}")
    knobs = {"engine": name} | random_knobs(name, draw)
    table, runs = request_table(random_load(draw, 40))
    table.arrival_s = np.sort([draw.uniform(0, 0.5) for _ in range(40)])
    table.output_len = [draw.randint(1, int(most)) for most in table.max_tokens]
    table.abort_after_s[::7] = 0.05
    return simulator.run(
        table, runs, policy_rows(**knobs), linear_latency(), limits=Limits(max_steps=10_000)
    )


@pytest.mark.parametrize("name", ENGINE_IDS)
@pytest.mark.parametrize("seed", range(10))
def test_a_run_ends_and_is_the_same_each_time(name: str, seed: int) -> None:
    one, other = run(name, seed), run(name, seed)
    assert one.status == "finished", one.reason
    for table in ("steps", "items", "events", "gaps"):
        assert np.array_equal(getattr(one, table), getattr(other, table)), table
    tokens = one.steps.num_prefill_tokens + one.steps.num_decodes - one.steps.num_padding_tokens
    assert tokens.sum() == one.items.num_tokens.sum()
    requests = one.requests
    counted = int(one.steps.num_regular_gaps.sum()) + int(one.gaps["count"].sum())
    assert counted == int(requests.num_output_tokens.sum() - (requests.num_output_tokens > 0).sum())


@pytest.mark.parametrize("name", ENGINE_IDS)
@pytest.mark.parametrize("seed", range(10))
def test_a_policy_does_not_know_where_eos_falls(name: str, seed: int) -> None:
    """Permuting output_len among the requests changes no plan before the first EOS."""
    logs = []
    for shuffled in (False, True):
        server, draw = random_server(name, seed, check=False)
        requests = server.state.requests
        lengths = [draw.randint(1, 40) for _ in requests]
        server.state.requests.max_tokens = 40
        if shuffled:
            lengths = draw.sample(lengths, len(lengths))
        server.state.requests.output_len = lengths
        server.add(*range(len(requests)))
        plans = []
        while not plans or not server.complete():
            plans.append(server.plan())
        logs.append(plans)
    shorter = min(map(len, logs))
    assert logs[0][:shorter] == logs[1][:shorter]


def test_compiled_and_plain_python_agree() -> None:
    """Two cases of each folder, replayed with and without the compiler."""
    files = [file for folder in sorted(CASES.iterdir()) for file in sorted(folder.iterdir())[:2]]
    done = subprocess.run(
        [sys.executable, "-m", "sim", "replay", *map(str, files)],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        cwd=CASES.parent.parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    plain = [json.loads(line) for line in done.stdout.splitlines()]
    assert plain == [replay.replay(replay.read_case(file)[0]) for file in files]


def test_the_registry_is_one_tuple() -> None:
    assert len(set(ENGINE_IDS)) == len(ENGINE_IDS)
    assert sorted(ENGINE_IDS) == list(dispatch.KERNELS), (
        "a kernel file and an entry for each engine"
    )
    assert set(RANDOM_KNOBS) < set(ENGINE_IDS)


@pytest.mark.parametrize("spec", ENGINES, ids=ENGINE_IDS)
def test_an_entry_names_knobs_that_the_engine_has(spec: EngineSpec) -> None:
    """And values that its model takes."""
    named = {spec.seqs_knob, spec.pool_knob, *spec.memory_dials, *spec.dials}
    named |= {spec.budget_knob, spec.length_knob, spec.block_size, spec.chunk_cap_knob}
    known = spec.knobs.model_fields.keys()
    assert {name for name in named if isinstance(name, str)} <= known
    defaults = spec.defaults.model_dump()
    for values in (
        spec.roomy,
        spec.dials,
        spec.with_caching,
        spec.without_caching,
        spec.with_chunking,
        spec.without_chunking,
    ):
        assert spec.knobs(engine=spec.id, **values)
    assert spec.summary(defaults | dict(spec.dials))
    assert spec.admission(defaults)
    assert bool(spec.without_chunking) == (spec.chunking == "optional")


@pytest.mark.parametrize("one", ENGINE_IDS)
@pytest.mark.parametrize("other", ENGINE_IDS)
def test_knobs_of_one_engine_under_another(one: str, other: str) -> None:
    """What both engines have keeps its value; under itself an engine keeps all knobs."""
    spec, target = engine_spec(one), engine_spec(other)
    knobs = spec.knobs(engine=one, **spec.roomy)
    if one == other:
        assert target.knobs.model_validate(knobs_under(knobs, other)) == knobs
        return
    there = target.knobs.model_validate(knobs_under(knobs, other, block_size=16))
    found, asked = shared_knobs(there), shared_knobs(knobs)
    assert found.seqs == asked.seqs
    assert found.kv_tokens == asked.kv_tokens
    if spec.budget_knob and target.budget_knob:
        whole = target.chunking == "never" or not asked.chunking
        least = asked.length if whole else 16  # a whole prompt, or a block
        budget = max(asked.budget or 0, least or 0)
        if not asked.chunking and target.budget_knob in target.without_chunking:
            budget = None  # SGLang's chunked_prefill_size says both
        assert found.budget == budget
    if spec.length_knob and target.length_knob:
        assert found.length == asked.length
    if spec.has_prefix_cache and target.has_prefix_cache:
        assert found.caching == asked.caching
    assert target.block_size != "block_size" or found.block_size == 16

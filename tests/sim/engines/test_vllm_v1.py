"""vLLM V1, step by step: against the recorded traces, a restatement of the rules, and by hand."""

import contextlib
import importlib.util
import io
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim import replay
from sim.cli.main import main
from sim.core import kv_cache, reasons
from sim.core import scheduler_ops as ops
from sim.core.integrity import check_integrity, check_prefix_cache, running_ids, waiting_ids
from sim.engines import dispatch
from tests.conftest import CASES, ROOT
from tests.tools.builders import Server

FILES = sorted((CASES / "vllm_v1").glob("*.json"))
ORACLES = CASES.parent


def load_reference() -> Any:
    spec = importlib.util.spec_from_file_location("ref_vllm_v1", ORACLES / "ref_vllm_v1.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = load_reference()


# --- recorded and random cases --------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_recorded_case(file: Path) -> None:
    case, document = replay.read_case(file)
    if replay.SCHEMAS["vllm_v1"].skip(document):
        assert "ghost" in file.stem
        return
    recorded = replay.SCHEMAS["vllm_v1"].recorded(document)
    assert replay.difference(replay.replay(case), recorded) is None


def test_replay_reads_nothing_of_the_recorded_trace(tmp_path: Path) -> None:
    for file in FILES[::7]:
        case, document = replay.read_case(file)
        folder = tmp_path / "vllm_v1"
        folder.mkdir(exist_ok=True)
        bare = folder / file.name
        kept = {key: document[key] for key in ("name", "config", "requests")}
        bare.write_text(json.dumps(kept))
        assert replay.replay(replay.read_case(bare)[0]) == replay.replay(case)


def random_case(seed: int) -> dict[str, Any]:
    """A small server under pressure: every rule bites in some of these."""
    draw = random.Random(seed)
    block_size = draw.choice([1, 2, 4, 8, 16])
    chunked = draw.random() < 0.8
    length = draw.choice([48, 96, 160])
    budget = draw.choice([16, 24, 32, 64, 128, 256])
    if not chunked:
        budget = max(budget, length)
    shared = [[10_000 * (k + 1), draw.randint(4, 40)] for k in range(3)]
    requests = []
    for k in range(draw.randint(2, 24)):
        prompt = [[1_000_000 + 10_000 * k, draw.randint(1, 30)]]
        if draw.random() < 0.6:
            prefix = draw.choice(shared)
            prompt = [[prefix[0], draw.randint(1, prefix[1])], *prompt]
        num_prompt_tokens = min(sum(n for _, n in prompt), length - 2)
        cut, left = [], num_prompt_tokens
        for base, n in prompt:
            if left:
                cut.append([base, min(n, left)])
                left -= min(n, left)
        request = {
            "id": k,
            "arrival_step": draw.choice([0, 0, draw.randint(0, 30)]),
            "arrival_time": float(draw.choice([k, k // 4])),
            "priority": draw.randint(0, 3),
            "prompt": cut,
            "output_len": draw.randint(1, 30),
        }
        if draw.random() < 0.1:
            request["abort_step"] = request["arrival_step"] + draw.randint(0, 20)
        requests.append(request)
    largest = max(sum(n for _, n in r["prompt"]) + r["output_len"] for r in requests)
    enough = -(-largest // block_size)
    config = {
        "max_num_batched_tokens": budget,
        "max_num_seqs": draw.choice([1, 2, 4, 8, 16]),
        "max_model_len": length,
        "enable_chunked_prefill": chunked,
        "long_prefill_token_threshold": draw.choice([0, 0, 5, 12]),
        "max_num_partial_prefills": 1,
        "max_long_partial_prefills": 1,
        "num_gpu_blocks": draw.choice([enough + 1, enough + 4, 2 * enough, 10 * enough]) + 1,
        "block_size": block_size,
        "enable_prefix_caching": draw.random() < 0.6,
        "policy": draw.choice(["fcfs", "priority"]),
        "scheduler_reserve_full_isl": draw.random() < 0.7,
        "watermark": draw.choice([0.0, 0.0, 0.05, 0.2]),
        "max_steps": 300,
    }
    requests.sort(key=lambda request: request["arrival_step"])
    return {"name": f"random_{seed}", "config": config, "requests": requests}


def reference_steps(document: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The restated rules on a case, in the form of a replay, and whether they record an `undo`."""
    status, steps = REFERENCE.simulate(document)
    recorded = replay.recorded_vllm_v1({"trace": {"status": status, "steps": steps}})
    return recorded, any(step["undo"] for step in steps)


@pytest.mark.parametrize("block", range(8))
def test_random_cases_equal_the_restated_rules(block: int) -> None:
    compared = 0
    for seed in range(block * 300, block * 300 + 300):
        document = random_case(seed)
        recorded, undone = reference_steps(document)
        if undone and document["config"]["enable_prefix_caching"]:
            continue  # there the reference imitates ghost hits
        case = replay.Case("vllm_v1", document["name"], document["config"], document["requests"])
        found = replay.difference(replay.replay(case), recorded)
        assert found is None, f"seed {seed}: {found}"
        compared += 1
    assert compared > 250


def test_plain_python_equals_compiled() -> None:
    """The kernels run without the compiler, to the same steps."""
    files = [str(file) for file in FILES[::6]]
    command = [sys.executable, "-W", "error", "-m", "sim", "replay", *files]
    environment = {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)}
    plain = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    with contextlib.redirect_stdout(io.StringIO()) as compiled:
        assert main(["replay", *files]) == 0
    assert plain.stdout == compiled.getvalue()


# --- worked examples ------------------------------------------------------------------------------


def decoding(server: Server, n: int) -> Server:
    """Bring the first `n` requests, one prompt token each, to where they decode."""
    server.add(*range(n))
    server.step()
    return server


def test_budget_16_four_decodes_and_a_48_token_prompt() -> None:
    """Sharing the budget takes four steps, and none of 16 decode tokens is held back."""
    server = decoding(
        Server([(1, 50)] * 4 + [(48, 8)], max_num_batched_tokens=16, max_num_seqs=16), 4
    )
    server.add(4)
    plans = [server.step() for _ in range(4)]
    assert [[tokens for _, tokens, _ in plan] for plan in plans] == [[1, 1, 1, 1, 12]] * 4
    assert server.state.requests[4].num_output_tokens == 1
    assert server.stop_reason == "queue_empty"


@pytest.mark.parametrize(
    ("cap", "chunks", "total", "reason"),
    [(512, [512, 512], 1072, "chunk_cap"), (0, [2000], 2048, "budget")],
)
def test_48_decodes_and_two_prompts(cap: int, chunks: list[int], total: int, reason: str) -> None:
    """Capped at 512, A and B share the step; uncapped, A takes the 2,000 tokens that are left."""
    server = Server(
        [(1, 50)] * 48 + [(2048, 8), (512, 8)], max_num_seqs=128, long_prefill_token_threshold=cap
    )
    decoding(server, 48).add(48, 49)
    plan = server.step()
    assert [tokens for _, tokens, _ in plan] == [1] * 48 + chunks
    assert sum(tokens for _, tokens, _ in plan) == total
    assert server.stop_reason == reason
    if not cap:
        assert server.events(reasons.REFUSED_BUDGET) == [(49, 512, 0)]


def test_a_prompt_that_fits_the_budget_exactly_is_one_step() -> None:
    server = Server([(2048, 3)]).add(0)
    assert [server.step() for _ in range(3)] == [[(0, 2048, 0)], [(0, 1, 2048)], [(0, 1, 2049)]]
    assert server.run() == 0


def test_running_requests_without_budget_are_refused_by_name() -> None:
    server = decoding(
        Server([(1, 9)] * 3 + [(40, 9), (10, 9)], max_num_batched_tokens=16, max_num_seqs=5), 3
    )
    server.add(3, 4)
    server.step()
    assert server.plan() == [(0, 1, 2), (1, 1, 2), (2, 1, 2), (3, 13, 13)]
    assert server.events(reasons.REFUSED_BUDGET) == [(4, 10, 0)]
    assert server.stop_reason == "budget"


def test_max_num_seqs_stops_admission() -> None:
    server = Server([(4, 9)] * 3, max_num_seqs=2).add(0, 1, 2)
    assert [r for r, _, _ in server.step()] == [0, 1]
    assert server.stop_reason == "max_num_seqs"
    assert server.events(reasons.REFUSED_MAX_NUM_SEQS) == [(2, 2, 2)]


def test_chunking_off_lets_a_prompt_wait_for_the_whole_of_its_budget() -> None:
    """V1 without chunking: decodes share one long step with a whole prompt, or the prompt waits."""
    server = Server(
        [(1, 9), (90, 2), (20, 2)],
        enable_chunked_prefill=False,
        max_num_batched_tokens=100,
        max_model_len=100,
    )
    server.add(0).step()
    server.add(1, 2)
    assert server.step() == [(0, 1, 1), (1, 90, 0)]
    assert server.stop_reason == "whole_prompt"
    assert server.events(reasons.REFUSED_WHOLE_PROMPT) == [(2, 20, 9)]


def test_full_prompt_gate_keeps_a_prompt_waiting_that_would_not_fit_whole() -> None:
    """10 of 20 blocks are free: the first chunk would fit, the 15 of the whole prompt do not."""
    knobs = {"block_size": 4, "num_gpu_blocks": 21, "max_num_batched_tokens": 64}
    gated = Server([(40, 5), (60, 5)], **knobs).add(0, 1)
    assert gated.step() == [(0, 40, 0)]
    assert gated.stop_reason == "kv_blocks"
    assert gated.events(reasons.REFUSED_FULL_PROMPT) == [(1, 15, 10)]
    open_ = Server([(40, 5), (60, 5)], scheduler_reserve_full_isl=False, **knobs).add(0, 1)
    assert open_.step() == [(0, 40, 0), (1, 24, 0)]


def test_watermark_is_waived_on_an_empty_engine() -> None:
    """Of 10 blocks a watermark of 0.5 keeps 5 free for a newcomer, unless nothing runs."""
    server = Server([(32, 3), (8, 3)], block_size=4, num_gpu_blocks=11, watermark=0.5).add(0, 1)
    assert server.step() == [(0, 32, 0)]
    assert server.events(reasons.REFUSED_FULL_PROMPT) == [(1, 2 + 5, 2)]


def test_fcfs_preempts_the_last_admitted_and_puts_it_first_in_line() -> None:
    """Two requests of 8 tokens fill 4 blocks of 4; the next token of the first costs the second."""
    server = Server([(8, 6), (7, 6), (4, 6)], block_size=4, num_gpu_blocks=5).add(0, 1, 2)
    server.step()
    assert server.plan() == [(0, 1, 8)]
    assert server.events(reasons.PREEMPTION) == [(1, 7, 2)]
    assert server.stop_reason == "preempted"
    assert waiting_ids(server.state) == [1, 2]
    server.complete()
    server.run()
    requests = server.state.requests
    assert requests.num_preemptions[:2].tolist() == [0, 1]
    assert requests.recomputed_tokens[:2].tolist() == [0, 7]


def test_priority_takes_back_tokens_that_its_victim_already_had() -> None:
    """Request 0 had its token when the more important request 1 found no block: its plan is off."""
    server = Server([(5, 6), (8, 6)], block_size=4, num_gpu_blocks=5, policy="priority")
    server.state.requests.priority = [5, 0]
    server.add(0).step()
    server.add(1).step()
    assert running_ids(server.state) == [0, 1]
    assert server.plan() == [(1, 1, 8)]
    assert server.events(reasons.UNSCHEDULED) == [(0, 1, 0)]
    assert server.events(reasons.PREEMPTION) == [(0, 6, 2)]
    assert server.stop_reason == "preempted"


# --- prefix caching -------------------------------------------------------------------------------


def test_the_last_token_is_always_computed() -> None:
    """Of a cached prompt of exactly two blocks only the first hits; the last is computed whole."""
    server = Server(
        [(8, 2), (8, 2), (9, 2)],
        [[(7, 8)], [(7, 8)], [(7, 9)]],
        block_size=4,
        enable_prefix_caching=True,
    )
    server.add(0).run()
    server.add(1, 2)
    assert server.step() == [(1, 4, 4), (2, 1, 8)]
    assert server.state.requests.hit_tokens.tolist() == [0, 4, 8]


def test_hits_within_the_same_step_and_on_generated_tokens() -> None:
    """Blocks are known as soon as they are scheduled; a follow-up quotes the answer it got."""
    first_output = 1_000_000_000
    contents = [[(50, 8)], [(50, 8), (90, 4)], [(50, 8), (first_output, 8), (70, 2)]]
    server = Server([(8, 9), (12, 1), (18, 1)], contents, block_size=4, enable_prefix_caching=True)
    server.add(0, 1)
    assert server.step() == [(0, 8, 0), (1, 4, 8)]
    server.run()
    server.add(2)
    assert server.step() == [(2, 2, 16)]


def test_a_preempted_request_hits_its_own_blocks_and_they_are_counted_apart() -> None:
    server = Server(
        [(8, 12), (24, 12)], block_size=4, num_gpu_blocks=10, enable_prefix_caching=True
    ).add(0, 1)
    server.run()
    requests = server.state.requests
    assert requests.num_preemptions[1] == 1
    assert requests.hit_tokens.tolist() == [0, 0]
    assert requests.resumed_hit_tokens[1] == 16  # 24 were cached; the survivor took the last two


def test_equal_hashes_of_different_content_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a hash that always collides the steps stay the same: a hit compares the tokens."""
    script = (
        "import sys, json; from pathlib import Path; from sim import replay\n"
        "from sim.core import kv_cache\n"
        "if sys.argv[1] == 'collide': kv_cache._mix = lambda value, word: 5\n"
        "for file in sys.argv[2:]:\n"
        "    print(json.dumps(replay.replay(replay.read_case(Path(file))[0])))"
    )
    files = [str(f) for f in FILES if f.stem in ("prefix_shared_00", "multi_turn_02", "mixed_01")]
    environment = {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script, mode, *files],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for mode in ("honest", "collide")
    ]
    assert outputs[0] == outputs[1] != ""


# --- what may happen between two steps ------------------------------------------------------------


def churn(seed: int) -> Server:
    """Random load with aborts, early EOS and cancelled steps; integrity checked after each step."""
    draw = random.Random(seed)
    n = 14
    asked = [(draw.randint(1, 40), draw.randint(1, 20)) for _ in range(n)]
    contents = [
        [(100, min(prompt, draw.choice([0, 8, 24]))), (10_000 * (k + 1), prompt)]
        for k, (prompt, _) in enumerate(asked)
    ]
    for (prompt, _), content in zip(asked, contents, strict=True):
        content[1] = (content[1][0], prompt - content[0][1])
    server = Server(
        asked,
        contents,
        block_size=draw.choice([2, 4, 8]),
        max_model_len=128,
        max_num_batched_tokens=draw.choice([8, 24, 64]),
        max_num_seqs=8,
        num_gpu_blocks=draw.choice([40, 64]),
        enable_prefix_caching=draw.random() < 0.8,
        policy=draw.choice(["fcfs", "priority"]),
        scheduler_reserve_full_isl=draw.random() < 0.5,
    )
    server.state.requests.priority = [draw.randint(0, 2) for _ in range(n)]
    to_come = list(range(n))
    counters = server.state.counters[0]
    for _ in range(2_000):
        while to_come and draw.random() < 0.3:
            server.add(to_come.pop(0))
        if draw.random() < 0.05:
            server.abort(draw.randrange(n))
        plan = server.plan()
        check_prefix_cache(server.state, 0, planned=True)
        if draw.random() < 0.1:
            ops.cancel_step(server.state, 0)
            check_integrity(server.state)
            continue
        for i in range(len(plan)):
            if draw.random() < 0.02:
                server.flags[i] = draw.choice([reasons.STOP, reasons.ABORT])
        server.complete()
        if not to_come and counters.num_running + counters.num_waiting == 0:
            return server
    raise AssertionError(f"seed {seed} did not end")


@pytest.mark.parametrize("seed", range(60))
def test_every_block_is_free_after_aborts_early_eos_and_cancelled_steps(seed: int) -> None:
    server = churn(seed)
    assert server.free == server.state.policy[0].num_gpu_blocks - 1
    ended = {reasons.FINISHED, reasons.ABORTED_REQUEST, reasons.EXPECTED}
    assert set(server.state.requests.status.tolist()) <= ended


def test_a_cancelled_step_takes_its_prefix_cache_entries_out_again() -> None:
    server = Server(
        [(8, 2), (9, 2)], [[(7, 8)], [(7, 9)]], block_size=4, enable_prefix_caching=True
    ).add(0)
    server.plan()
    ops.cancel_step(server.state, 0)
    check_integrity(server.state)
    assert (server.state.blocks[0].hash < 0).all()
    server.add(1)
    assert server.plan() == [(0, 8, 0), (1, 1, 8)]


@pytest.mark.parametrize("file", [f for f in FILES if f.stem.startswith("priority")], ids=str)
def test_no_cached_block_holds_uncomputed_tokens_after_an_undo(file: Path) -> None:
    """A victim that already had tokens in its step leaves nothing in the prefix cache."""
    case, _ = replay.read_case(file)
    config = case.config | {"enable_prefix_caching": True}
    case = replay.Case(case.engine, case.name, config, case.requests)
    state, ids = replay.vllm_v1_state(case, replay.vllm_v1_knobs(config))
    arrivals, _, _ = replay.arrivals_and_aborts(case, ids)
    flags = np.zeros(config["max_num_seqs"], np.int32)
    for s in range(150):
        state.log[0].num_events = 0
        for r in arrivals.get(s, []):
            ops.add(state, 0, r)
        dispatch.schedule(state, 0)
        check_prefix_cache(state, 0, planned=True)
        computed = {
            int(i.request): int(i.num_computed_tokens + i.num_tokens)
            for i in state.scheduled[0, : state.counters[0].num_scheduled]
        }
        for block in state.blocks[0][
            (state.blocks[0].hash >= 0) & (state.blocks[0].references > 0)
        ]:
            reached = computed.get(
                int(block.owner), state.requests[block.owner].num_computed_tokens
            )
            high = max(reached, state.requests[block.owner].high_water)
            assert (block.index + 1) * config["block_size"] <= high
        ops.complete(state, 0, flags, s + 1.0)
        check_integrity(state)


@pytest.mark.parametrize("seed", range(20))
def test_a_policy_does_not_know_where_eos_falls(seed: int) -> None:
    """Permuting output_len among the requests changes no plan before the first EOS."""
    draw = random.Random(seed)
    asked = [(draw.randint(1, 60), 40) for _ in range(12)]
    lengths = [draw.randint(5, 40) for _ in range(12)]
    logs = []
    for order in (lengths, draw.sample(lengths, 12)):
        server = Server(
            asked,
            block_size=4,
            num_gpu_blocks=120,
            max_num_batched_tokens=32,
            max_num_seqs=8,
            enable_prefix_caching=True,
            check=False,
        )
        server.state.requests.output_len = order
        server.add(*range(12))
        plans = []
        while True:
            plans.append(server.plan())
            if server.complete():
                break
        logs.append(plans)
    shorter = min(map(len, logs))
    assert shorter >= 5
    assert logs[0][:shorter] == logs[1][:shorter]


# --- conservation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_each_token_is_computed_once_and_no_budget_is_exceeded(seed: int) -> None:
    draw = random.Random(seed)
    asked = [(draw.randint(1, 200), draw.randint(1, 30)) for _ in range(20)]
    budget = draw.choice([16, 64, 256])
    server = Server(
        asked,
        max_num_batched_tokens=budget,
        max_num_seqs=16,
        block_size=4,
        num_gpu_blocks=1_200,
        long_prefill_token_threshold=draw.choice([0, 10]),
    ).add(*range(20))
    computed = [0] * 20
    first_seen: list[int] = []
    for _ in range(10_000):
        plan = server.step()
        if not plan:
            break
        assert sum(tokens for _, tokens, _ in plan) <= budget
        for r, tokens, before in plan:
            assert before == computed[r], "a token is computed twice, or skipped"
            computed[r] += tokens
            if r not in first_seen:
                first_seen.append(r)
    assert computed == [prompt + output - 1 for prompt, output in asked]
    assert first_seen == sorted(first_seen), "first come, first served"
    assert server.state.requests.recomputed_tokens.sum() == 0


def test_chain_start_is_no_hash_of_a_block() -> None:
    assert 0 <= kv_cache.CHAIN_START <= kv_cache.HASH_BITS

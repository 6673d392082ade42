"""TensorRT-LLM, step by step: against the recorded traces, a restatement of the rules, by hand."""

import importlib.util
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sim import replay
from sim.cli.main import main
from sim.core import reasons
from sim.core import scheduler_ops as ops
from sim.core.integrity import check_integrity, check_prefix_cache, running_ids, waiting_ids
from tests.conftest import CASES, ROOT
from tests.tools.builders import Server

FILES = sorted((CASES / "trt").glob("*.json"))
POLICIES = ("GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH")


def load_reference() -> Any:
    path = CASES.parent / "ref_others.py"
    spec = importlib.util.spec_from_file_location("ref_others", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = load_reference()


def server(asked: list[tuple[int, int]], contents: Any = None, **knobs: Any) -> Server:
    return Server(asked, contents, engine="tensorrt_llm", **knobs)


def tokens(plan: list[tuple[int, int, int]]) -> dict[int, int]:
    return {r: n for r, n, _ in plan}


# --- recorded and random cases --------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_recorded_case(file: Path) -> None:
    case, document = replay.read_case(file)
    assert replay.SCHEMAS["trt"].skip(document) is None
    recorded = replay.SCHEMAS["trt"].recorded(document)
    assert replay.difference(replay.replay(case), recorded) is None


def test_replay_reads_nothing_of_the_recorded_trace(tmp_path: Path) -> None:
    folder = tmp_path / "trt"
    folder.mkdir()
    for file in FILES[::7]:
        case, document = replay.read_case(file)
        bare = folder / file.name
        bare.write_text(json.dumps({key: document[key] for key in ("config", "requests")}))
        assert replay.replay(replay.read_case(bare)[0]) == replay.replay(case)


def random_case(seed: int) -> dict[str, Any]:
    """A small server under pressure: every rule bites in some of these."""
    draw = random.Random(seed)
    block = draw.choice([1, 2, 4, 8, 16])
    chunking = draw.choice([None, "FIRST_COME_FIRST_SERVED", "EQUAL_PROGRESS", "FORCE_CHUNK"])
    budget = draw.choice([8, 16, 24, 40, 64, 100])
    requests = []
    arrivals = sorted(draw.choice([0, 0, draw.randint(0, 30)]) for _ in range(draw.randint(1, 18)))
    for k, arrival in enumerate(arrivals):
        prompt = draw.randint(1, draw.choice([10, 30, 60]))
        if chunking is None and draw.random() < 0.95:
            prompt = min(prompt, budget)
        output = draw.randint(1, draw.choice([4, 12, 30]))
        requests.append({"id": k, "arrival_step": arrival, "prompt": prompt, "output": output})
    largest = max(-(-(r["prompt"] + r["output"]) // block) for r in requests)
    config = {
        "policy": draw.choice([*POLICIES, "MAX_UTILIZATION"]),
        "chunking": chunking,
        "chunk_unit": draw.choice([block, block, 1, 3, 8]),
        "max_num_tokens": budget,
        "max_batch_size": draw.choice([1, 2, 3, 4, 8, 12]),
        "num_blocks": draw.choice(
            [largest, largest + 1, largest + 3, 2 * largest, 6 * largest, max(1, largest - 1)]
        ),
        "tokens_per_block": block,
        "two_step_lookahead": draw.random() < 0.4,
        "snapshot_every": draw.choice([5, 8, 16]) if chunking == "FORCE_CHUNK" else None,
    }
    return {"config": config, "requests": requests}


@pytest.mark.parametrize("block", range(8))
def test_random_cases_equal_the_restated_rules(block: int) -> None:
    endings = set()
    for seed in range(block * 300, block * 300 + 300):
        document = random_case(seed)
        steps, outcome = REFERENCE.trt(document["config"], document["requests"])
        recorded = replay.SCHEMAS["trt"].recorded({"steps": steps, "outcome": outcome})
        case = replay.Case("trt", f"seed {seed}", document["config"], document["requests"])
        found = replay.difference(replay.replay(case), recorded)
        assert found is None, f"seed {seed}: {found}"
        endings.add(outcome)
    assert endings == {"done", "stuck", "error"}


def test_plain_python_equals_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    """The kernels run without the compiler, to the same steps."""
    files = [str(file) for file in FILES[::9]]
    plain = subprocess.run(
        [sys.executable, "-W", "error", "-m", "sim", "replay", *files],
        env={"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert main(["replay", *files]) == 0
    assert plain.stdout == capsys.readouterr().out != ""


# --- worked examples ------------------------------------------------------------------------------


def decoding(made: Server, n: int) -> Server:
    """Bring the first `n` requests, one prompt token each, to where they decode."""
    made.add(*range(n))
    made.step()
    return made


@pytest.mark.parametrize(
    ("policy", "a", "b"),
    [("FIRST_COME_FIRST_SERVED", 1984, 0), ("EQUAL_PROGRESS", 1472, 512)],
)
def test_48_decodes_and_two_prompts(policy: str, a: int, b: int) -> None:
    """Of 2048 tokens 48 go to decodes, 2000 are left: A takes 31 units of 64 and 16 tokens stay
    unused; in equal rounds B has its 8 units, A the other 23."""
    made = server(
        [(1, 50)] * 48 + [(2048, 8), (512, 8)],
        context_chunking_policy=policy,
        tokens_per_block=64,
        max_batch_size=128,
    )
    decoding(made, 48).add(48, 49)
    plan = tokens(made.step())
    assert [plan.get(r, 0) for r in (0, 47, 48, 49)] == [1, 1, a, b]
    assert made.stop_reason == "budget"
    if b == 0:
        assert made.events(reasons.REFUSED_BUDGET) == [(49, 512, 16)]


def test_what_a_cut_chunk_leaves_goes_to_later_ones() -> None:
    """24 tokens: 16 for the first (a multiple of 16), 8 for the whole of the second behind it."""
    made = server([(40, 2), (8, 2), (9, 2)], max_num_tokens=24, tokens_per_block=16).add(0, 1, 2)
    assert made.step() == [(0, 16, 0), (1, 8, 0)]
    assert made.events(reasons.REFUSED_BUDGET) == [(2, 9, 0)]


def test_no_evict_reserves_prompt_and_max_tokens() -> None:
    """8 blocks of 16: two requests of 16 + 48 tokens fill them on paper, the third waits although
    only two blocks are in use."""
    made = server([(16, 48)] * 3, num_blocks=8).add(0, 1, 2)
    assert made.step() == [(0, 16, 0), (1, 16, 0)]
    assert made.stop_reason == "kv_blocks"
    assert made.events(reasons.REFUSED_KV_BLOCKS) == [(2, 4, 0)]
    assert made.free == 6


def test_max_utilization_pauses_the_last_and_keeps_its_place() -> None:
    """Two requests fill 4 blocks of 4. The next token of the first costs the second, and the third
    behind it is out as well; both wait in order of arrival."""
    made = server(
        [(8, 6), (7, 6), (4, 6)],
        capacity_scheduler_policy="MAX_UTILIZATION",
        tokens_per_block=4,
        num_blocks=4,
    ).add(0, 1, 2)
    made.step()
    assert made.plan() == [(0, 1, 8)]
    assert made.events(reasons.PREEMPTION) == [(1, 7, 2)]
    assert made.stop_reason == "preempted"
    assert waiting_ids(made.state) == [1, 2]
    made.complete()
    made.run()
    requests = made.state.requests
    assert requests.num_preemptions.tolist() == [0, 1, 1], "no request is paused for one behind"
    assert requests.recomputed_tokens[:2].tolist() == [0, 7]
    assert requests.num_output_tokens.tolist() == [6, 6, 6]


def test_the_first_chunk_takes_the_blocks_of_the_whole_prompt() -> None:
    made = server([(100, 4)], max_num_tokens=32, num_blocks=20).add(0)
    made.step()
    assert made.state.requests[0].num_computed_tokens == 32
    assert made.free == 20 - 7


def test_a_static_batch_takes_nobody_in() -> None:
    made = server(
        [(8, 2), (8, 4), (8, 2)], capacity_scheduler_policy="STATIC_BATCH", tokens_per_block=8
    ).add(0, 1)
    made.step()
    made.add(2)
    assert made.step() == [(0, 1, 8), (1, 1, 8)]
    assert made.stop_reason == "max_batch_size"
    assert made.events(reasons.REFUSED_CLOSED_BATCH) == [(2, 2, 2)]
    assert [made.step() for _ in range(2)] == [[(1, 1, 9)], [(1, 1, 10)]]
    assert made.step() == [(2, 8, 0)]


def test_without_chunking_a_prompt_waits_for_the_whole_of_its_budget() -> None:
    made = server([(20, 4), (90, 2), (5, 2)], enable_chunked_prefill=False, max_num_tokens=100)
    made.add(0, 1, 2)
    assert made.step() == [(0, 20, 0)]
    assert made.stop_reason == "whole_prompt"
    assert made.events(reasons.REFUSED_WHOLE_PROMPT) == [(1, 90, 80)]
    assert made.step() == [(1, 90, 0), (2, 5, 0), (0, 1, 20)]


def test_the_active_list_holds_max_batch_size_requests() -> None:
    made = server([(8, 4)] * 3, max_batch_size=2).add(0, 1, 2)
    assert made.step() == [(0, 8, 0), (1, 8, 0)]
    assert made.stop_reason == "max_batch_size"


# --- reuse of blocks ------------------------------------------------------------------------------


def shared(n: int) -> list[list[tuple[int, int]]]:
    """`n` prompts of 72 tokens that share their first 64."""
    return [[(7, 64), (10_000 * (k + 1), 8)] for k in range(n)]


@pytest.mark.parametrize("policy", ["GUARANTEED_NO_EVICT", "MAX_UTILIZATION"])
def test_reused_tokens_cost_no_budget(policy: str) -> None:
    """With 64 of 72 tokens cached, 16 tokens serve two prompts; without reuse none is whole."""
    for reuse, plan in ((True, [(1, 8, 64), (2, 8, 64)]), (False, [(1, 16, 0)])):
        made = server(
            [(72, 1)] * 3,
            shared(3),
            capacity_scheduler_policy=policy,
            max_num_tokens=80,
            enable_block_reuse=reuse,
        )
        made.add(0).step()
        made.state.policy[0].max_num_batched_tokens = 16
        made.add(1, 2)
        assert made.step() == plan


def test_capacity_counts_the_blocks_that_must_be_free() -> None:
    """6 blocks of 16. The second prompt shares the 4 of the first, still held, and needs but one
    more; once no request holds them they come out of the free list, and it needs all 5."""
    knobs = {"num_blocks": 6, "enable_block_reuse": True}
    made = server([(72, 8), (72, 8)], shared(2), **knobs).add(0)
    made.step()
    made.add(1)
    assert made.plan() == [(1, 8, 64), (0, 1, 72)]
    assert made.free == 0
    alone = server([(72, 8), (72, 8)], shared(2), **knobs).add(0)
    alone.run()
    assert alone.free == 6
    alone.add(1)
    assert alone.plan() == [(1, 8, 64)]
    assert alone.free == 1


def test_blocks_counted_on_are_not_taken_by_another_prompt_of_the_step() -> None:
    """The first newcomer takes all free blocks but those that the second reuses."""
    contents = [[(7, 64), (9, 8)], [(50_000, 80)], [(7, 64), (90_000, 8)]]
    made = server(
        [(72, 1), (80, 1), (72, 1)], contents, num_blocks=11, enable_block_reuse=True
    ).add(0)
    made.run()
    made.add(1, 2)
    assert made.step() == [(1, 80, 0), (2, 8, 64)]


# --- what may happen between two steps ------------------------------------------------------------


def churn(seed: int) -> tuple[Server, list[Any]]:
    """Random load with aborts, early EOS and cancelled steps; integrity checked after each step."""
    draw = random.Random(seed)
    n, budget = 14, draw.choice([12, 24, 64])
    chunked = draw.random() < 0.7
    longest = 40 if chunked else budget // 2
    asked = [(draw.randint(1, longest), draw.randint(1, 20)) for _ in range(n)]
    if not chunked:  # a paused request comes back longer, and must fit whole
        asked = [(prompt, min(output, budget - prompt)) for prompt, output in asked]
    contents = []
    for k, (prompt, _) in enumerate(asked):
        common = min(prompt, draw.choice([0, 8, 24]))
        contents.append([(100, common), (10_000 * (k + 1), prompt - common)])
    policy = draw.choice(POLICIES)
    made = server(
        asked,
        contents,
        capacity_scheduler_policy=policy,
        context_chunking_policy=draw.choice(["FIRST_COME_FIRST_SERVED", "EQUAL_PROGRESS"]),
        enable_chunked_prefill=chunked,
        tokens_per_block=draw.choice([2, 4, 8]),
        max_num_tokens=budget,
        max_batch_size=draw.choice([2, 6, 10]),
        num_blocks=draw.choice([32, 50]),
        max_seq_len=64,
        enable_block_reuse=draw.random() < 0.6,
    )
    to_come, log = list(range(n)), []
    counters, unit = made.state.counters[0], made.state.policy[0].chunk_unit
    for _ in range(2_000):
        while to_come and draw.random() < 0.3:
            made.add(to_come.pop(0))
        if draw.random() < 0.05:
            made.abort(draw.randrange(n))
        plan = made.plan()
        log.append((plan, made.stop_reason))
        check_prefix_cache(made.state, 0, planned=True)
        assert sum(tokens for _, tokens, _ in plan) <= budget
        for item in made.state.scheduled[0, : len(plan)]:
            assert item.num_tokens == item.num_needed or item.num_tokens % unit == 0
        if policy != "MAX_UTILIZATION":
            assert counters.num_preempted == 0, "guaranteed no evict"
        if draw.random() < 0.1:
            ops.cancel_step(made.state, 0)
            check_integrity(made.state)
            continue
        for i in range(len(plan)):
            if draw.random() < 0.02:
                made.flags[i] = draw.choice([reasons.STOP, reasons.ABORT])
        made.complete()
        if not to_come and counters.num_running + counters.num_waiting == 0:
            return made, log
    raise AssertionError(f"seed {seed} did not end")


@pytest.mark.parametrize("seed", range(80))
def test_every_block_is_free_after_aborts_early_eos_and_cancelled_steps(seed: int) -> None:
    made, log = churn(seed)
    assert made.free == made.state.policy[0].num_gpu_blocks - 1
    ended = {reasons.FINISHED, reasons.ABORTED_REQUEST, reasons.EXPECTED}
    assert set(made.state.requests.status.tolist()) <= ended
    assert churn(seed)[1] == log, "the same again"


@pytest.mark.parametrize("seed", range(30))
def test_each_token_is_computed_once_and_nobody_overtakes(seed: int) -> None:
    draw = random.Random(seed)
    asked = [(draw.randint(1, 200), draw.randint(1, 30)) for _ in range(20)]
    policy = draw.choice(["GUARANTEED_NO_EVICT", "STATIC_BATCH"])
    made = server(
        asked,
        capacity_scheduler_policy=policy,
        enable_chunked_prefill=False,
        max_num_tokens=draw.choice([200, 400]),
        max_batch_size=8,
        num_blocks=draw.choice([40, 400]),
    ).add(*range(20))
    computed, first_seen = [0] * 20, []
    while made.state.counters[0].num_running + made.state.counters[0].num_waiting > 0:
        for r, n, before in made.step():
            assert before == computed[r], "a token is computed twice, or skipped"
            computed[r] += n
            if r not in first_seen:
                first_seen.append(r)
    assert computed == [prompt + output - 1 for prompt, output in asked]
    assert first_seen == sorted(first_seen), "first come, first served"


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_does_not_know_where_eos_falls(policy: str) -> None:
    """Permuting output_len among the requests changes no plan before the first EOS."""
    draw = random.Random(1)
    asked = [(draw.randint(1, 60), 40) for _ in range(12)]
    lengths = [draw.randint(5, 40) for _ in range(12)]
    logs = []
    for order in (lengths, draw.sample(lengths, 12)):
        made = server(
            asked,
            capacity_scheduler_policy=policy,
            tokens_per_block=4,
            num_blocks=120,
            max_num_tokens=32,
            max_batch_size=8,
        )
        made.state.requests.output_len = order
        made.add(*range(12))
        plans = []
        while True:
            plans.append(made.plan())
            if made.complete():
                break
        logs.append(plans)
    shorter = min(map(len, logs))
    assert shorter >= 5
    assert logs[0][:shorter] == logs[1][:shorter]


def test_who_was_overtaken_stands_before_who_overtook() -> None:
    """37 tokens: 30 for the first; of the 7 left the second gets none (less than a unit), the third
    its 6. In the next step the second starts, and stands before the third again."""
    made = server([(30, 9), (40, 9), (6, 9)], max_num_tokens=37, tokens_per_block=16).add(0, 1, 2)
    assert made.step() == [(0, 30, 0), (2, 6, 0)]
    assert made.step() == [(1, 32, 0), (0, 1, 30), (2, 1, 6)]
    made.plan()
    assert running_ids(made.state) == [0, 1, 2]

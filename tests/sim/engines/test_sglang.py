"""SGLang, step by step: by hand, and against the rule of docs/sglang-rule.md in plain Python."""

import math
import random
import subprocess
import sys
from typing import Any

import pytest

from sim.core import reasons
from sim.core import scheduler_ops as ops
from sim.core.integrity import check_integrity, check_prefix_cache, waiting_ids
from tests.conftest import ROOT
from tests.tools.builders import Server


def server(asked: list[tuple[int, int]], contents: Any = None, **knobs: Any) -> Server:
    return Server(asked, contents, engine="sglang", **knobs)


# --- the rule in plain Python ---------------------------------------------------------------------


class Request:
    def __init__(self, number: int, prompt: int, output: int) -> None:
        self.number, self.prompt, self.output = number, prompt, output
        self.outputs = self.computed = self.pages = 0
        self.target = prompt  # to compute before it decodes

    @property
    def left(self) -> int:
        return self.output - self.outputs


class Restated:
    """Lists of requests and counts of pages; `step` returns {request: tokens}, prefill first."""

    def __init__(self, knobs: dict[str, Any]) -> None:
        self.page, self.pool = knobs["page_size"], knobs["max_total_tokens"] // knobs["page_size"]
        self.chunk, self.mixed = knobs["chunked_prefill_size"], knobs["enable_mixed_chunk"]
        self.places, self.prefill = knobs["max_running_requests"], knobs["max_prefill_tokens"]
        self.first_ratio = self.ratio = min(0.7 * knobs["schedule_conservativeness"], 1.0)
        self.waiting: list[Request] = []
        self.decoding: list[Request] = []
        self.cut: Request | None = None
        self.batch: list[Request] = []  # of the prefill step at hand
        self.full = False
        self.before = 0  # how many ran at the end of the last step
        self.retracted: list[int] = []

    def ceil_paged_tokens(self, tokens: int) -> int:
        return -(-tokens // self.page)

    def free(self) -> int:
        running = {*self.decoding, *self.batch}
        running |= {self.cut} if self.cut else set()
        return self.pool - sum(request.pages for request in running)

    def hold(self, request: Request, tokens: int) -> None:
        request.pages = max(request.pages, self.ceil_paged_tokens(tokens))
        assert self.free() >= 0

    def step(self) -> dict[int, int]:
        self.retracted = []
        if len(self.decoding) + (self.cut is not None) < self.before:
            self.full = False
        if not self.decoding and not self.cut:
            self.ratio = self.first_ratio
        batch, had_decodes = self.prefill_batch(), bool(self.decoding)
        if not batch:
            plan = self.decode_batch()
        else:
            self.batch = [request for request, _ in batch]
            for request, n in batch:
                self.hold(request, request.computed + n)
            joined = [d for d in self.decoding if self.mixed and self.one_more(d)]
            plan = {request.number: n for request, n in batch} | {d.number: 1 for d in joined}
            whole = [r for r, n in batch if r.computed + n == r.target]
            if not had_decodes or self.mixed or len(whole) < len(batch):
                self.full = False
            for request, n in batch:
                request.computed += n
            for request in joined + whole:
                self.emit(request)
            if self.cut in whole:
                self.cut = None
            self.decoding += whole
            self.batch = []
        self.before = len(self.decoding) + (self.cut is not None)
        self.decoding = [r for r in self.decoding if r.left > 0]
        return plan

    def emit(self, request: Request) -> None:
        request.outputs += 1

    def one_more(self, request: Request) -> bool:
        tokens = request.prompt + request.outputs
        if self.ceil_paged_tokens(tokens) - request.pages > self.free():
            return False
        self.hold(request, tokens)
        return True

    def prefill_batch(self) -> list[tuple[Request, int]]:
        batch: list[tuple[Request, int]] = []
        joining = len(self.decoding) if self.mixed else 0
        chunk = self.chunk - joining if self.chunk > 0 else math.inf
        prefill = self.prefill - joining
        room = self.free() * self.page - joining
        room -= sum((min(d.left, 4096) * self.ratio for d in self.decoding), 0.0)
        if self.cut:
            rest = self.cut.target - self.cut.computed
            n = int(min(rest, chunk, int(room)))
            if n == rest:
                room -= min(self.cut.output, 4096)
            if n > 0:
                batch.append((self.cut, n))
                charge = self.ceil_paged_tokens(n) * self.page
                chunk, prefill, room = chunk - charge, prefill - charge, room - charge
        while self.waiting and not self.full:
            request = self.waiting[0]
            if len(batch) >= self.places - len(self.decoding):
                self.full = True
                break
            tokens = request.prompt + request.outputs
            charge = self.ceil_paged_tokens(tokens) * self.page
            if tokens + min(request.left, 4096) >= room:
                self.full = True
                break
            if charge >= prefill and batch:
                break
            n = tokens
            if charge > chunk:
                n = charge = int(max(chunk, 0)) // self.page * self.page
                if n == 0:
                    break
            self.waiting.pop(0)
            request.target, request.computed = tokens, 0
            batch.append((request, n))
            room -= charge
            if n == tokens:
                room -= min(request.output, 4096)
            else:
                self.cut = request
            chunk, prefill = chunk - charge, prefill - charge
            if room <= 0:
                self.full = True
            elif prefill <= 0 or chunk <= 0:
                break
        return batch

    def decode_batch(self) -> dict[int, int]:
        def short() -> bool:
            needed = [self.ceil_paged_tokens(d.prompt + d.outputs) - d.pages for d in self.decoding]
            return sum(needed) > self.free()

        if short():
            self.full = False
            while short():
                victims = sorted(self.decoding, key=lambda d: (-d.outputs, d.prompt))
                victim = victims[-1] if len(victims) > 1 else self.cut
                assert victim is not None
                if victim is self.cut:
                    self.cut = None
                else:
                    self.decoding.remove(victim)
                victim.pages = 0
                self.waiting.append(victim)
                self.retracted.append(victim.number)
            done = sum(d.outputs for d in self.decoding) + 20 * len(self.decoding)
            self.ratio = min(done / (sum(d.output for d in self.decoding) + 1), 1.0)
        else:
            lowest = self.first_ratio * 0.14
            self.ratio = max(self.ratio - (self.first_ratio - lowest) / 600, lowest)
        for request in self.decoding:
            assert self.one_more(request)
            self.emit(request)
        return {request.number: 1 for request in self.decoding}


def random_knobs(draw: random.Random) -> dict[str, Any]:
    page = draw.choice([1, 1, 2, 4])
    return {
        "page_size": page,
        "chunked_prefill_size": draw.choice([-1, 4, 8, 16, 32, 64]),
        "enable_mixed_chunk": draw.random() < 0.4,
        "max_running_requests": draw.choice([2, 4, 8, 16]),
        "max_prefill_tokens": draw.choice([16, 40, 16_384]),
        "schedule_conservativeness": draw.choice([0.0, 0.05, 0.3, 1.0, 1.5]),
        "max_total_tokens": draw.choice([60, 100, 200, 1000]) // page * page,
        "context_length": 512,
    }


@pytest.mark.parametrize("block", range(8))
def test_random_cases_equal_the_restated_rule(block: int) -> None:
    retractions = mixes = cuts = 0
    for seed in range(block * 150, block * 150 + 150):
        draw = random.Random(seed)
        knobs = random_knobs(draw)
        if draw.random() < 0.3:
            knobs |= {"schedule_conservativeness": 0.0, "max_total_tokens": 60}
        if knobs["chunked_prefill_size"] < 0:
            knobs["enable_mixed_chunk"] = False
        most = min(knobs["max_total_tokens"], 512) - 2
        asked = []
        for _ in range(draw.randint(1, 16)):
            prompt = draw.randint(1, draw.choice([5, 20, 50]))
            asked.append((prompt, draw.randint(1, min(draw.choice([4, 20, 60]), most - prompt))))
        arrivals = sorted(draw.choice([0, 0, draw.randint(0, 40)]) for _ in asked)
        ours, rule = server(asked, check=False, **knobs), Restated(knobs)
        for s in range(3000):
            for r, (prompt, output) in enumerate(asked):
                if arrivals[r] == s:
                    ours.add(r)
                    rule.waiting.append(Request(r, prompt, output))
            counters = ours.state.counters[0]
            if counters.num_running + counters.num_waiting == 0:
                if s > arrivals[-1]:
                    break
                continue
            plan = ours.step()
            expected = rule.step()
            assert {r: n for r, n, _ in plan} == expected, f"seed {seed}, step {s}"
            assert [r for r, _, _ in ours.events(reasons.PREEMPTION)] == rule.retracted
            assert counters.new_token_ratio == rule.ratio
            retractions += len(rule.retracted)
            cuts += rule.cut is not None
            mixes += knobs["enable_mixed_chunk"] and len(set(expected.values())) > 1
        else:
            raise AssertionError(f"seed {seed} did not end")
    assert min(retractions, mixes, cuts) > 20


# --- worked examples ------------------------------------------------------------------------------


def four_decodes_and_a_prompt(**knobs: Any) -> tuple[int, int]:
    """(steps until a 48-token prompt is computed, tokens held back of four decodes)."""
    made = server([(1, 50)] * 4 + [(48, 8)], chunked_prefill_size=16, **knobs)
    made.add(0, 1, 2, 3).step()
    made.add(4)
    steps = held = 0
    while made.state.requests[4].num_output_tokens == 0:
        plan = made.step()
        steps += 1
        held += 4 - sum(r < 4 for r, _, _ in plan)
    return steps, held


def test_mixed_off_a_prompt_of_three_chunks_holds_back_twelve_decode_tokens() -> None:
    assert four_decodes_and_a_prompt() == (3, 12)


def test_mixed_on_decodes_join_and_take_their_share_of_the_chunk() -> None:
    """12 prompt tokens beside 4 decodes, so four steps instead of three, and nothing held back."""
    assert four_decodes_and_a_prompt(enable_mixed_chunk=True) == (4, 0)


def test_a_prefill_batch_is_filled_before_anybody_decodes() -> None:
    made = server([(30, 4), (30, 4), (30, 4)], chunked_prefill_size=64).add(0, 1, 2)
    assert made.step() == [(0, 30, 0), (1, 30, 0), (2, 4, 0)]
    assert made.stop_reason == "budget"
    assert made.step() == [(2, 26, 4)]
    assert [r for r, _, _ in made.step()] == [0, 1, 2]


def test_a_newcomer_must_fit_beside_the_future_of_those_who_decode() -> None:
    """100 tokens of KV. The first holds 10 and has 39 outputs to go, 0.7 x 39 = 27.3 of which are
    expected: 62.7 are left for a newcomer's prompt and all of its outputs."""
    asked = [(10, 40), (30, 32), (30, 33)]
    for newcomer, plan in ((1, [(1, 30, 0)]), (2, [(0, 1, 10)])):
        made = server(asked, max_total_tokens=100).add(0)
        made.step()
        made.add(newcomer)
        assert made.step() == plan
    assert made.stop_reason == "kv_blocks"
    assert made.events(reasons.REFUSED_KV_BLOCKS) == [(2, 63, 62)]


def test_the_ratio_falls_with_decode_steps_only_and_starts_anew_when_idle() -> None:
    made = server([(8, 5), (8, 5)]).add(0)
    made.step()
    assert made.state.counters[0].new_token_ratio == 0.7
    made.step()
    assert made.state.counters[0].new_token_ratio == pytest.approx(0.7 - 0.7 * 0.86 / 600)
    made.run()
    made.add(1).step()
    assert made.state.counters[0].new_token_ratio == 0.7


def test_retraction_takes_the_fewest_outputs_then_the_longest_prompt() -> None:
    """100 tokens of KV, no future expected. Three requests hold 32, take 3 a step, and after 22
    steps two tokens are left. The youngest two have as many outputs; the longer prompt gives way,
    waits at the end of the line, and the ratio is set to what the others have and 20 more each."""
    asked = [(10, 70), (8, 60), (13, 50), (5, 20)]
    made = server(asked, max_total_tokens=100, schedule_conservativeness=0.0)
    made.add(0).step()
    made.step()
    made.add(1).step()
    made.add(2).step()
    for _ in range(22):
        assert len(made.step()) == 3
    made.add(3)
    made.state.counters[0].batch_is_full = 1
    assert made.plan() == [(0, 1, 33), (1, 1, 30)]
    assert made.events(reasons.PREEMPTION) == [(2, 35, 35)]
    assert made.stop_reason == "preempted"
    assert made.state.counters[0].new_token_ratio == (24 + 23 + 40) / (70 + 60 + 1)
    assert waiting_ids(made.state) == [3, 2]
    made.complete()
    made.run()
    assert made.state.requests.num_output_tokens.tolist() == [70, 60, 50, 20]


def test_max_running_requests_counts_decodes_and_the_batch() -> None:
    made = server([(8, 4)] * 3, max_running_requests=2).add(0, 1, 2)
    assert [r for r, _, _ in made.step()] == [0, 1]
    assert made.stop_reason == "max_num_seqs"


def test_max_prefill_tokens_admits_one_prompt_however_long() -> None:
    made = server([(50, 4), (8, 4)], max_prefill_tokens=16).add(0, 1)
    assert made.step() == [(0, 50, 0)]
    assert made.stop_reason == "budget"


def test_a_cached_prefix_is_not_computed_again() -> None:
    contents = [[(7, 20), (100, 4)], [(7, 20), (200, 6)]]
    made = server([(24, 2), (26, 2)], contents, disable_radix_cache=False).add(0)
    made.run()
    made.add(1)
    assert made.step() == [(1, 6, 20)]


# --- what may happen between two steps ------------------------------------------------------------


def churn(seed: int) -> tuple[Server, list[Any]]:
    """Random load with aborts, early EOS and cancelled steps; integrity checked after each step."""
    draw = random.Random(seed)
    knobs = random_knobs(draw) | {"disable_radix_cache": draw.random() < 0.4}
    most = min(knobs["max_total_tokens"], 512) - 2
    asked, contents = [], []
    for k in range(14):
        prompt = draw.randint(1, 40)
        asked.append((prompt, draw.randint(1, min(20, most - prompt))))
        common = min(prompt, draw.choice([0, 8, 24]))
        contents.append([(100, common), (10_000 * (k + 1), prompt - common)])
    made = server(asked, contents, **knobs)
    to_come, log, counters = list(range(14)), [], made.state.counters[0]
    for _ in range(3_000):
        while to_come and draw.random() < 0.3:
            made.add(to_come.pop(0))
        if draw.random() < 0.05:
            made.abort(draw.randrange(14))
        plan = made.plan()
        log.append((plan, made.stop_reason, float(counters.new_token_ratio)))
        check_prefix_cache(made.state, 0, planned=True)
        prefill = [n for r, n, before in plan if before < made.state.requests[r].context_len]
        if knobs["chunked_prefill_size"] > 0:
            assert sum(prefill) <= knobs["chunked_prefill_size"]
        if not knobs["enable_mixed_chunk"] or knobs["chunked_prefill_size"] < 0:
            assert len(prefill) in (0, len(plan)), "prefill runs alone"
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
def test_every_page_is_free_after_aborts_early_eos_and_cancelled_steps(seed: int) -> None:
    made, log = churn(seed)
    assert made.free == made.state.policy[0].num_gpu_blocks - 1
    ended = {reasons.FINISHED, reasons.ABORTED_REQUEST, reasons.EXPECTED}
    assert set(made.state.requests.status.tolist()) <= ended
    assert churn(seed)[1] == log, "the same again"


@pytest.mark.parametrize("seed", range(30))
def test_each_token_is_computed_once_first_come_first_served(seed: int) -> None:
    draw = random.Random(seed)
    asked = [(draw.randint(1, 200), draw.randint(1, 30)) for _ in range(20)]
    made = server(
        asked,
        chunked_prefill_size=draw.choice([16, 64, -1]),
        enable_mixed_chunk=draw.random() < 0.5,
        page_size=draw.choice([1, 4]),
        max_running_requests=8,
        max_total_tokens=4_000,
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


def test_a_policy_does_not_know_where_eos_falls() -> None:
    """Permuting output_len among the requests changes no plan before the first EOS."""
    draw = random.Random(1)
    asked = [(draw.randint(1, 60), 40) for _ in range(12)]
    lengths = [draw.randint(5, 40) for _ in range(12)]
    logs = []
    for order in (lengths, draw.sample(lengths, 12)):
        made = server(asked, max_total_tokens=500, chunked_prefill_size=32)
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


def test_plain_python_equals_compiled() -> None:
    """The kernels run without the compiler, to the same steps."""
    script = (
        "from tests.sim.engines.test_sglang import churn; "
        "print([churn(seed)[1] for seed in range(4)])"
    )
    plain = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert plain.stdout == f"{[churn(seed)[1] for seed in range(4)]}\n"

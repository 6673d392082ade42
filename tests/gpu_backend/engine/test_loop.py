"""What happens to a run, and what it leaves behind, however it ends."""

import numpy as np
import pytest
import torch

from gpu_backend.device import OutOfMemory
from gpu_backend.engine.executor import StepOutput
from gpu_backend.engine.loop import serve
from gpu_backend.engine.request_inputs import make_inputs
from gpu_backend.engine.sampling import Sampling
from gpu_backend.models.model import Model
from sim.core import reasons
from sim.core.integrity import check_integrity
from sim.core.state import State
from tests.gpu_backend.conftest import Peer
from tests.gpu_backend.harness import PROMPTS, check_ended, executor_for, generate
from tests.tools.builders import policy_rows

CACHING = {"enable_prefix_caching": True, "num_gpu_blocks": 120, "max_num_batched_tokens": 48}


@pytest.fixture
def model(tiny: dict[str, Model]) -> Model:
    return tiny["qwen3"]


@pytest.fixture
def peer(peers: dict[str, Peer]) -> Peer:
    return peers["qwen3"]


# --- the prefix cache -----------------------------------------------------------------------------


def test_a_follow_up_hits_what_was_really_generated(model: Model, peer: Peer) -> None:
    """The second turn begins with the first prompt and its answer: the cache has hashed the real
    tokens of both."""
    first = PROMPTS[0]
    answer = peer.greedy(first, 40)
    follow_up = (*first, *answer, *PROMPTS[2])
    served = generate(model, [first, follow_up], 40, inputs={"arrival_s": [0.0, 1e6]}, **CACHING)
    known = len(first) + len(answer) - 1  # the last token's KV was never computed
    assert served.recording.requests.hit_tokens.tolist() == [0, known // 16 * 16]
    assert served.outputs == (answer, peer.greedy(follow_up, 40))


def test_a_wrong_guess_of_the_answer_does_not_hit(model: Model, peer: Peer) -> None:
    first = PROMPTS[0]
    wrong = tuple((token + 1) % 384 for token in peer.greedy(first, 40))
    served = generate(
        model, [first, (*first, *wrong)], 8, inputs={"arrival_s": [0.0, 1e6]}, **CACHING
    )
    assert served.recording.requests.hit_tokens[1] == len(first) // 16 * 16
    assert served.outputs[1] == peer.greedy((*first, *wrong), 8)


def test_requests_of_one_step_share_a_prefix(model: Model, peer: Peer) -> None:
    """The second request hits blocks that are computed in the very step that admits it."""
    shared = PROMPTS[0] + PROMPTS[1]
    prompts = [shared + PROMPTS[2], shared + PROMPTS[3]]
    knobs = CACHING | {"max_num_batched_tokens": 1024}
    served = generate(model, prompts, 24, **knobs)
    assert served.recording.steps.num_chunks[0] == 2
    assert served.recording.requests.hit_tokens[1] == len(shared) // 16 * 16
    assert served.outputs == tuple(peer.greedy(prompt, 24) for prompt in prompts)


# --- preemption -----------------------------------------------------------------------------------


def test_recompute_and_swap_really_happen(model: Model, peer: Peer) -> None:
    scarce = {"num_gpu_blocks": 18, "max_num_batched_tokens": 256}
    swapping = generate(
        model, PROMPTS[:4], 40, "vllm_v0", columns={"num_host_blocks": 100}, **scarce
    )
    recomputing = generate(model, PROMPTS[:4], 40, "vllm_v0", **scarce)
    assert swapping.recording.steps.swapped_out_blocks.sum() > 0
    assert (
        swapping.recording.steps.swapped_in_blocks.sum()
        == swapping.recording.steps.swapped_out_blocks.sum()
    )
    assert swapping.recording.requests.recomputed_tokens.sum() == 0
    assert recomputing.recording.requests.recomputed_tokens.sum() > 0
    expected = tuple(peer.greedy(prompt, 40) for prompt in PROMPTS[:4])
    assert swapping.outputs == recomputing.outputs == expected


# --- ends of a request ----------------------------------------------------------------------------


def test_eos_ends_a_request_and_the_scheduler_hears_of_it(model: Model, peer: Peer) -> None:
    answer = peer.greedy(PROMPTS[0], 30)
    stop = answer[12]
    served = generate(model, PROMPTS[:2], 30, inputs={"stop_ids": [stop]})
    first = served.recording.requests[0]
    end = answer.index(stop) + 1
    assert served.outputs[0] == answer[:end]
    assert (first.num_output_tokens, first.finish_reason) == (end, reasons.STOP)


def test_tokens_are_streamed_step_by_step(model: Model) -> None:
    policy = policy_rows(max_num_batched_tokens=32)
    inputs = make_inputs(PROMPTS[:3], [5, 9, 2])
    streamed: dict[int, list[int]] = {0: [], 1: [], 2: []}

    def listen(state: State, executed: StepOutput) -> None:
        for r, token in executed.emitted:
            streamed[r].append(token)
            assert state.requests[r].num_output_tokens == len(streamed[r])

    served = serve(inputs, policy, executor_for(model, policy, inputs), on_step=listen)
    assert tuple(tuple(tokens) for tokens in streamed.values()) == served.outputs
    assert [len(tokens) for tokens in served.outputs] == [5, 9, 2]


def test_the_clock_advances_by_what_steps_took(model: Model) -> None:
    served = generate(model, PROMPTS[:3], 6, inputs={"arrival_s": [0.0, 0.0, 1e3]})
    steps = served.recording.steps
    assert steps.duration_s.tolist() == served.times["whole_s"].tolist()
    assert steps.start_s[-1] >= 1e3  # idle time is skipped
    parts = served.times["prepare_s"] + served.times["forward_s"] + served.times["sample_s"]
    assert np.allclose(parts, served.times["whole_s"])


# --- sampling -------------------------------------------------------------------------------------


def test_a_seed_draws_the_same_tokens_under_every_policy(model: Model) -> None:
    drawn = Sampling(temperature=0.8, seed=7)
    runs = [
        generate(model, PROMPTS[:4], 20, engine, inputs={"sampling": drawn}, **knobs).outputs
        for engine, knobs in (
            ("vllm_v1", {"max_num_batched_tokens": 24, "num_gpu_blocks": 19}),
            ("static", {}),
        )
    ]
    other = generate(model, PROMPTS[:4], 20, inputs={"sampling": Sampling(0.8, 8)}).outputs
    assert runs[0] == runs[1]
    assert runs[0] != other


def test_a_high_temperature_draws_many_different_tokens(model: Model) -> None:
    served = generate(model, PROMPTS[:2], 40, inputs={"sampling": Sampling(2.0, 1)})
    assert len(set(served.outputs[0] + served.outputs[1])) > 55  # nearly uniform over 384


@pytest.mark.parametrize("temperature", [-1.0, 2.1, float("nan")])
def test_a_temperature_that_is_none_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match="temperature"):
        Sampling(temperature)


# --- ends of a run --------------------------------------------------------------------------------


def broken_run(model: Model, error: Exception, when: int, engine: str = "vllm_v1"):
    """A run whose `when`-th layer raises, in an eager step or in a compiled one."""
    knobs = CACHING if engine == "vllm_v1" else {}
    policy = policy_rows(engine, **knobs)
    inputs = make_inputs(PROMPTS[:5], 20)
    executor = executor_for(model, policy, inputs)
    layers, plain = 0, executor.runner.prepare

    def layer() -> None:
        nonlocal layers
        layers += 1
        if layers == when:
            raise error

    def prepare(batch):
        forward = plain(batch)
        return lambda check: forward(layer)

    executor.runner.prepare = prepare
    served = serve(inputs, policy, executor, on_step=lambda state, executed: check_integrity(state))
    return served, policy


@pytest.mark.parametrize("engine", ["vllm_v1", "vllm_v0", "static", "sglang"])
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("bad kernel"), "failed: RuntimeError: bad kernel"),
        (torch.OutOfMemoryError("no room"), "out of memory in step"),
        (MemoryError("no room"), "out of memory in step"),
        (OutOfMemory("no room"), "out of memory in step"),
    ],
)
def test_a_crash_ends_that_run_with_words_and_no_leak(
    model: Model, engine: str, error: Exception, words: str
) -> None:
    served, policy = broken_run(model, error, 20, engine)
    assert words in served.error
    assert served.recording.status == "cancelled"
    check_ended(served, policy)
    assert set(served.recording.requests.status) <= {reasons.FINISHED, reasons.ABORTED_REQUEST}


def test_after_a_crash_the_next_run_is_whole(model: Model, peer: Peer) -> None:
    broken_run(model, RuntimeError("bad kernel"), 8)
    assert generate(model, PROMPTS[:2], 12).outputs == tuple(
        peer.greedy(prompt, 12) for prompt in PROMPTS[:2]
    )


@pytest.mark.parametrize("asked_before", [1, 2, 7, 30])
@pytest.mark.parametrize("engine", ["vllm_v1", "orca", "static", "tensorrt_llm"])
def test_cancel_in_the_middle_of_a_step(model: Model, engine: str, asked_before: int) -> None:
    """The step that is cancelled did not happen: no row, no token, no cache entry, no block."""
    policy = policy_rows(engine, **(CACHING if engine == "vllm_v1" else {}))
    inputs = make_inputs(PROMPTS, 20)
    questions = 0

    def cancelled() -> bool:
        nonlocal questions
        questions += 1
        return questions > asked_before

    served = serve(inputs, policy, executor_for(model, policy, inputs), cancelled=cancelled)
    check_ended(served, policy)
    assert (served.recording.status, served.error) == ("cancelled", None)
    layers = len(model.layers) + 1
    assert len(served.times) == asked_before // layers
    emitted = int(served.recording.requests.num_output_tokens.sum())
    assert emitted == sum(map(len, served.outputs))


def test_cancel_takes_the_cache_entries_of_the_step_out(model: Model) -> None:
    policy = policy_rows(**CACHING)
    inputs = make_inputs(PROMPTS[:2], 4)
    executor = executor_for(model, policy, inputs)
    seen: list[State] = []
    plain = executor.execute

    def execute(state: State, replica: int, flags):
        seen.append(state)
        if len(seen) == 2:
            assert (state.blocks[0].hash >= 0).sum() > 3  # entered at schedule time
            raise RuntimeError("bad kernel")
        return plain(state, replica, flags)

    executor.execute = execute
    serve(inputs, policy, executor)
    state = seen[-1]
    computed = 48  # the first step's budget, in whole blocks of 16
    assert (state.blocks[0].hash >= 0).sum() == computed // 16
    check_integrity(state)


def test_a_deadline_bounds_a_run(model: Model) -> None:
    from sim.cluster.simulator import Limits

    policy = policy_rows()
    inputs = make_inputs(PROMPTS, 20)
    executor = executor_for(model, policy, inputs)
    served = serve(inputs, policy, executor, limits=Limits(deadline_s=0.0))
    check_ended(served, policy)
    assert served.recording.status == "bounded"
    assert "deadline" in served.recording.reason


def test_a_request_that_never_fits_is_refused_by_the_front_end(model: Model) -> None:
    served = generate(model, [PROMPTS[0] * 6, PROMPTS[1]], 4, num_gpu_blocks=9)
    assert served.recording.requests.status.tolist() == [reasons.REJECTED, reasons.FINISHED]
    assert [len(tokens) for tokens in served.outputs] == [0, 4]


@pytest.mark.parametrize(
    ("prompts", "max_tokens", "words"),
    [([[]], 1, "prompt is empty"), ([[1]], 0, "max_tokens must be at least 1")],
)
def test_what_cannot_be_asked(prompts: list[list[int]], max_tokens: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_inputs(prompts, max_tokens)

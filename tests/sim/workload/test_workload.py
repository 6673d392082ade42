"""Workloads: drawn from classes, their content as runs, and their figures."""

from typing import Any

import numpy as np
import pytest

from sim.core.requests import PRIVATE_BASE
from sim.workload.prompt_tokens import run_table
from sim.workload.spec import WorkloadSpec
from sim.workload.workload import PER_REQUEST, Workload, build_workload, describe, to_requests


def one_class(**changes: Any) -> dict[str, Any]:
    """Four requests at once, ten tokens in and five out, but for the changes."""
    return {
        "name": "chat",
        "count": 4,
        "arrivals": {"kind": "all_at_once"},
        "prompt": {"kind": "fixed", "tokens": 10},
        "output": {"kind": "fixed", "tokens": 5},
        **changes,
    }


def build(*classes: dict[str, Any], seed: int = 0) -> Workload:
    return build_workload(WorkloadSpec.model_validate({"classes": classes}), seed)


def arrivals(count: int, seed: int = 0, **spec: Any) -> list[float]:
    return list(build(one_class(count=count, arrivals=spec), seed=seed).arrival_s)


def lengths(count: int, **spec: Any) -> np.ndarray:
    return build(one_class(count=count, prompt=spec)).num_prompt_tokens


# --- arrivals -------------------------------------------------------------------------------------


def test_arrivals_without_chance() -> None:
    assert arrivals(3, kind="constant", rate_per_s=4.0, start_s=1.0) == [1.0, 1.25, 1.5]
    assert arrivals(2, kind="all_at_once", start_s=2.0) == [2.0, 2.0]
    assert arrivals(3, kind="at", times_s=[3.0, 0.5, 0.5]) == [0.5, 0.5, 3.0]


def test_the_rate_stretches_the_same_poisson_arrivals() -> None:
    slow = arrivals(100, kind="poisson", rate_per_s=2.0)
    fast = arrivals(100, kind="poisson", rate_per_s=8.0)
    assert np.allclose(slow, 4 * np.array(fast), rtol=1e-12)


@pytest.mark.parametrize(
    ("spec", "cv"),
    [
        ({"kind": "poisson"}, 1.0),
        ({"kind": "gamma", "cv": 0.5}, 0.5),
        ({"kind": "gamma", "cv": 3.0}, 3.0),
        ({"kind": "gamma", "cv": 1e-9}, 0.0),
    ],
)
def test_random_gaps_have_the_wanted_mean_and_variation(spec: dict[str, Any], cv: float) -> None:
    gaps = np.diff(arrivals(100_000, rate_per_s=5.0, **spec))
    assert gaps.mean() == pytest.approx(0.2, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03, abs=1e-5)


def test_a_rate_that_never_delivers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rate_per_s 1e-308 the last of 4 requests never arrives"):
        arrivals(4, kind="constant", rate_per_s=1e-308)


def test_closed_loops_release_all_but_the_first_of_each_user_later() -> None:
    """Two loops and an open class: those that wait for a release stand last, loop by loop."""
    loop = {"kind": "closed_loop", "users": 1, "think_time_s": 2.0, "start_s": 0.5}
    workload = build(
        one_class(name="a", count=3, arrivals=loop),
        one_class(name="b", count=2),
        one_class(name="c", count=3, arrivals={"kind": "closed_loop", "users": 2}),
    )
    assert [workload.label(i) for i in range(len(workload))] == [
        *("b 1", "b 2", "c 1", "c 2", "a 1"),
        *("a 2", "a 3", "c 3"),
    ]
    assert workload.arrival_s.tolist() == [0.0] * 4 + [0.5] + [np.inf] * 3
    assert workload.loop.tolist() == [-1, -1, 1, 1, 0, 0, 0, 1]
    assert workload.loop_think_s == (2.0, 0.0)
    assert describe(workload)["released_by_loops"] == 3


# --- lengths --------------------------------------------------------------------------------------


def test_lengths() -> None:
    assert lengths(3, kind="fixed", tokens=7).tolist() == [7, 7, 7]
    assert lengths(5, kind="list", values=[3, 1]).tolist() == [3, 1, 3, 1, 3]
    assert set(lengths(1000, kind="uniform", min=3, max=5)) == {3, 4, 5}
    assert set(lengths(1000, kind="empirical", values=[2, 9, 9])) == {2, 9}


def test_lognormal_lengths_keep_their_median_and_their_limits() -> None:
    drawn = lengths(100_000, kind="lognormal", median=200, sigma=0.4, max=300)
    assert np.median(drawn) == pytest.approx(200, abs=2)
    assert drawn.max() == 300
    assert np.percentile(drawn, 16) == pytest.approx(200 * np.exp(-0.4), abs=3)
    wild = lengths(1000, kind="lognormal", median=10**7, sigma=10)
    assert (wild.min(), wild.max()) == (1, 10**7)


@pytest.mark.parametrize(
    ("rule", "max_tokens", "output_len"),
    [
        ({"kind": "equal"}, [10, 3], [10, 3]),
        ({"kind": "fixed", "tokens": 5}, [5, 5], [5, 3]),
        ({"kind": "factor", "factor": 1.1}, [11, 4], [10, 3]),
        ({"kind": "factor", "factor": 0.5}, [5, 2], [5, 2]),
        ({"kind": "factor", "factor": 1e-6}, [1, 1], [1, 1]),
    ],
)
def test_what_the_client_asks_for(
    rule: dict[str, Any], max_tokens: list[int], output_len: list[int]
) -> None:
    output = {"kind": "list", "values": [10, 3]}
    workload = build(one_class(count=2, output=output, max_tokens=rule))
    assert workload.max_tokens.tolist() == max_tokens
    assert workload.output_len.tolist() == output_len


# --- mixing, order, names -------------------------------------------------------------------------


def test_classes_mix_in_order_of_arrival() -> None:
    """Two chats per second and one document at t = 0.75 s, which comes second."""
    workload = build(
        one_class(count=2, arrivals={"kind": "constant", "rate_per_s": 1.0}, priority=1),
        one_class(
            name="document",
            arrivals={"kind": "at", "times_s": [0.75]},
            count=1,
            prompt={"kind": "fixed", "tokens": 8000},
            abort_after_s=3.0,
        ),
    )
    assert [workload.label(i) for i in range(3)] == ["chat 1", "document", "chat 2"]
    assert workload.num_prompt_tokens.tolist() == [10, 8000, 10]
    assert workload.priority.tolist() == [1, 0, 1]
    assert workload.abort_after_s.tolist() == [np.inf, 3.0, np.inf]
    assert (workload.total_prompt_tokens, workload.total_output_tokens) == (8020, 15)
    table = to_requests(workload)
    for name in PER_REQUEST:
        assert (table[name] == getattr(workload, name)).all()
    assert table.num_tokens.tolist() == [10, 8000, 10]
    assert table.num_computed_tokens.tolist() == [0, 0, 0]


RANDOM = {
    "arrivals": {"kind": "gamma", "rate_per_s": 5.0, "cv": 2.0},
    "prompt": {"kind": "lognormal", "median": 300, "sigma": 1.0, "max": 4000},
    "output": {"kind": "uniform", "min": 1, "max": 500},
    "shared_prefix": {"tokens": 50, "groups": 3},
}


def same(a: Workload, b: Workload) -> bool:
    return all((getattr(a, name) == getattr(b, name)).all() for name in (*PER_REQUEST, "runs"))


def test_the_seed_fixes_every_bit() -> None:
    classes = one_class(count=500, **RANDOM), one_class(name="other", count=300, **RANDOM)
    assert same(build(*classes, seed=3), build(*classes, seed=3))
    assert not same(build(*classes, seed=3), build(*classes, seed=4))


def test_an_edit_leaves_the_rest_alone() -> None:
    """Another count in one class: the other draws as before. Another prompt: arrivals stay."""
    before = build(one_class(count=5, **RANDOM), one_class(name="other", count=9, **RANDOM))
    after = build(one_class(count=7, **RANDOM), one_class(name="other", count=9, **RANDOM))
    for name in ("arrival_s", "num_prompt_tokens", "output_len"):
        first = getattr(before, name)[before.class_id == 1]
        assert first.tolist() == getattr(after, name)[after.class_id == 1].tolist()
    edited = build(one_class(count=5, **{**RANDOM, "prompt": {"kind": "fixed", "tokens": 1}}))
    assert edited.arrival_s.tolist() == before.arrival_s[before.class_id == 0].tolist()
    assert edited.output_len.tolist() == before.output_len[before.class_id == 0].tolist()


def test_a_file_or_too_many_requests_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="read it with read_trace"):
        build_workload(WorkloadSpec(file="a.csv"), 0)
    with pytest.raises(ValueError, match="10,000,000 requests together"):
        build(one_class(count=5_000_000), one_class(name="b", count=5_000_000))
    huge = {"tokens": 10_000_000, "groups": 5_000_000}
    with pytest.raises(ValueError, match="shared prefixes of all groups"):
        build(one_class(count=1_000_000, shared_prefix=huge))


# --- content --------------------------------------------------------------------------------------


def test_run_table_merges_what_continues() -> None:
    content = run_table([[(5, 3), (8, 2), (20, 1)], [], [(7, 0), (9, 4)], [(13, 2)]])
    assert content.runs.tolist() == [(0, 5), (5, 20), (0, 9), (0, 13)]
    assert content.first_run.tolist() == [0, 2, 2, 3]
    assert content.num_runs.tolist() == [2, 0, 1, 1]


def test_nobody_shares_unknown_content() -> None:
    workload = build(one_class(count=100))
    prompts = [workload.content(i) for i in range(100)]
    tokens = {token for ((base, n),) in prompts for token in range(base, base + n)}
    assert len(tokens) == 1000
    assert min(tokens) >= PRIVATE_BASE


def test_groups_in_turn_share_the_beginning_of_their_prompts() -> None:
    """Prefix 6 of prompts 10 and 4: a short prompt is prefix all over."""
    prompt = {"kind": "list", "values": [10, 10, 4, 10]}
    shared = {"tokens": 6, "groups": 2}
    workload = build(
        one_class(prompt=prompt, shared_prefix=shared), one_class(shared_prefix=shared)
    )
    a, b, short, d, other = (workload.content(i) for i in range(5))
    assert [n for _, n in a] == [6, 4]
    assert a[0] == (short[0][0], 6)
    assert short == [(a[0][0], 4)]
    assert b[0] == d[0]
    assert len({a[0], b[0], other[0]}) == 3
    assert len({a[1], b[1], d[1], other[1]}) == 4


def hits_by_looking(workload: Workload, block_size: int) -> int:
    """The slow and obvious count: every whole block keyed by all tokens up to its end."""
    seen, hits = set(), 0
    for i in range(len(workload)):
        tokens = [t for base, n in workload.content(i) for t in range(base, base + n)]
        for end in range(block_size, len(tokens) + 1, block_size):
            key = tuple(tokens[:end])
            hits += key in seen
            seen.add(key)
    return hits


def test_the_share_of_an_infinite_cache_is_what_looking_finds() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        groups = one_class(
            count=12,
            prompt={"kind": "uniform", "min": 1, "max": 40},
            shared_prefix={"tokens": int(rng.integers(0, 30)), "groups": 2},
        )
        drawn = build(groups, one_class(), seed=int(rng.integers(1000)))
        block_size = int(rng.integers(1, 9))
        prefix = describe(drawn, block_size)["prefix"]
        assert prefix["hit_blocks"] == hits_by_looking(drawn, block_size)
        assert prefix["blocks"] == sum(n // block_size for n in drawn.num_prompt_tokens.tolist())


# --- figures --------------------------------------------------------------------------------------


def test_describe() -> None:
    times = {"kind": "at", "times_s": [1.0, 1.0, 2.0, 5.0]}
    figures = describe(build(one_class(arrivals=times, prompt={"kind": "list", "values": [4, 8]})))
    assert figures["requests"] == 4
    assert figures["classes"] == {"chat": 4}
    assert figures["duration_s"] == 4.0
    assert figures["rate_per_s"] == 0.75
    assert figures["zero_gaps"] == pytest.approx(1 / 3)
    assert figures["gap_s"]["p50"] == 1.0
    assert figures["prompt_tokens"]["mean"] == 6.0
    assert figures["prefix"] == {"block_size": 512, "blocks": 0, "hit_blocks": 0, "share": None}
    alone = describe(build(one_class(count=1)))
    assert (alone["gap_s"], alone["rate_per_s"], alone["zero_gaps"]) == (None, None, None)


def test_a_million_requests() -> None:
    assert len(build(one_class(count=1_000_000, **RANDOM))) == 1_000_000
    assert len(run_table([[(i, 1)] for i in range(1_000_000)]).runs) == 1_000_000

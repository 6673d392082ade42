"""A workload: requests with their arrivals, lengths, priorities and content.

A workload comes from a scenario (`build_workload`) or from a file (`trace_reader.read_trace`). It
is the input of a run; the Recording is its output.
"""

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.core.requests import PRIVATE_BASE, Table, empty_requests
from sim.workload.arrivals import arrival_times
from sim.workload.lengths import ask_for, draw_lengths
from sim.workload.prompt_tokens import (
    SHARED_BASE,
    Content,
    count_hit_blocks,
    prefixed_content,
)
from sim.workload.spec import MAX_REQUESTS, ClassSpec, ClosedLoop, WorkloadSpec

PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, eq=False)
class Workload:
    """Arrays of length n, one element per request, in order of arrival (stable for ties).

    Times are seconds, lengths are tokens. Requests that a closed loop releases later are at the end
    with arrival inf, by loop, in order of release.
    """

    arrival_s: NDArray[np.float64]
    num_prompt_tokens: NDArray[np.int32]
    output_len: NDArray[np.int32]  # where generation ends; at most max_tokens
    max_tokens: NDArray[np.int32]  # what the client asked for
    priority: NDArray[np.int32]  # lower is more important
    abort_after_s: NDArray[np.float64]  # inf: never
    class_id: NDArray[np.int32]  # index into class_names
    loop: NDArray[np.int32]  # index into loop_think_s, -1 for none
    runs: Table  # content of the prompts, see prompt_tokens.py
    first_run: NDArray[np.int64]
    num_runs: NDArray[np.int32]
    class_names: tuple[str, ...]
    loop_think_s: tuple[float, ...] = ()
    names: tuple[str, ...] | None = None  # names of requests in the file

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def total_prompt_tokens(self) -> int:
        """Prompt tokens of all requests."""
        return int(self.num_prompt_tokens.sum(dtype=np.int64))

    @property
    def total_output_tokens(self) -> int:
        """Tokens that all requests will generate."""
        return int(self.output_len.sum(dtype=np.int64))

    @cached_property
    def class_sizes(self) -> NDArray[np.int64]:
        """Requests of each class."""
        return np.bincount(self.class_id, minlength=len(self.class_names))

    @cached_property
    def ordinals(self) -> NDArray[np.int64]:
        """The number of each request within its class, from 1 in order of arrival."""
        by_class = np.argsort(self.class_id, kind="stable")
        first = np.cumsum(self.class_sizes) - self.class_sizes
        ordinals = np.empty(len(self), np.int64)
        ordinals[by_class] = np.arange(len(self)) - first[self.class_id[by_class]] + 1
        return ordinals

    def label(self, i: int) -> str:
        """The label of request i: its name in the file, else "chat 3", or "document" for a class of
        one."""
        if self.names is not None:
            return self.names[i]
        class_id = int(self.class_id[i])
        name = self.class_names[class_id]
        if self.class_sizes[class_id] == 1:
            return name
        return f"{name} {self.ordinals[i]}"

    def content(self, i: int) -> list[tuple[int, int]]:
        """The prompt of request i as (first token id, number of tokens) of each run."""
        rows = self.runs[self.first_run[i] : self.first_run[i] + self.num_runs[i]]
        lengths = np.diff(np.append(rows["start"], self.num_prompt_tokens[i]))
        return list(zip(rows["token"].tolist(), lengths.tolist(), strict=True))


PER_REQUEST = tuple(
    field.name
    for field in fields(Workload)
    if field.name not in ("runs", "class_names", "loop_think_s", "names")
)


def in_order_of_arrival(workload: Workload) -> Workload:
    """The same requests sorted by arrival; the run table stays as it is."""
    if (workload.arrival_s[1:] >= workload.arrival_s[:-1]).all():
        return workload
    order = np.argsort(workload.arrival_s, kind="stable")
    names = workload.names
    return replace(
        workload,
        **{name: getattr(workload, name)[order] for name in PER_REQUEST},
        names=None if names is None else tuple(names[i] for i in order.tolist()),
    )


def to_requests(workload: Workload) -> Table:
    """The request table at the start of a run."""
    table = empty_requests(len(workload))
    for name in PER_REQUEST:
        table[name] = getattr(workload, name)
    table.num_tokens = workload.num_prompt_tokens
    return table


# --- from a scenario ------------------------------------------------------------------------------


def build_workload(spec: WorkloadSpec, seed: int) -> Workload:
    """Draw the requests of a scenario's classes; the same spec and seed give the same bits.

    Every class, and within it arrivals, prompts and outputs, has its own generator: editing one
    leaves the others unchanged. Raises ValueError for a spec that names a file (read
    it with `trace_reader.read_trace`) or that asks for more than MAX_REQUESTS requests.
    """
    if spec.classes is None:
        raise ValueError(f"the workload is the file {spec.file!r}: read it with read_trace")
    total = sum(wanted.count for wanted in spec.classes)
    if total > MAX_REQUESTS:
        raise ValueError(f"the classes have {total:,} requests together; at most {MAX_REQUESTS:,}")
    prefixes, loops = shared_bases(spec.classes), loop_ids(spec.classes)
    parts = [
        class_columns(wanted, seed, class_id, loop, prefix)
        for class_id, (wanted, loop, prefix) in enumerate(
            zip(spec.classes, loops, prefixes, strict=True)
        )
    ]
    columns: dict[str, Any] = {
        name: np.concatenate([part[name] for part in parts]) for name in parts[0]
    }
    content = prefixed_content(
        columns["num_prompt_tokens"], columns.pop("prefix_base"), columns.pop("prefix_len")
    )
    workload = Workload(
        **columns,
        **content._asdict(),
        class_names=tuple(wanted.name for wanted in spec.classes),
        loop_think_s=tuple(
            wanted.arrivals.think_time_s
            for wanted in spec.classes
            if isinstance(wanted.arrivals, ClosedLoop)
        ),
    )
    return in_order_of_arrival(workload)


def class_columns(
    wanted: ClassSpec, seed: int, class_id: int, loop: int, first_prefix: int
) -> dict[str, NDArray[Any]]:
    """The columns of one class, in order of arrival, and the shared prefix of each prompt."""
    streams = np.random.SeedSequence([seed, class_id]).spawn(3)
    arrivals, prompts, outputs = (np.random.default_rng(stream) for stream in streams)
    n, shared = wanted.count, wanted.shared_prefix
    num_prompt_tokens = draw_lengths(wanted.prompt, n, prompts)
    max_tokens, output_len = ask_for(wanted.max_tokens, draw_lengths(wanted.output, n, outputs))
    return {
        "arrival_s": arrival_times(wanted.arrivals, n, arrivals),
        "num_prompt_tokens": num_prompt_tokens,
        "output_len": output_len,
        "max_tokens": max_tokens,
        "priority": np.full(n, wanted.priority, np.int32),
        "abort_after_s": np.full(n, wanted.abort_after_s or np.inf),
        "class_id": np.full(n, class_id, np.int32),
        "loop": np.full(n, loop, np.int32),
        "prefix_base": first_prefix + np.arange(n) % shared.groups * shared.tokens,
        "prefix_len": np.minimum(num_prompt_tokens, shared.tokens),
    }


def loop_ids(classes: tuple[ClassSpec, ...]) -> list[int]:
    """For each class the number of its closed loop, -1 for an open one."""
    closed = [isinstance(wanted.arrivals, ClosedLoop) for wanted in classes]
    return [sum(closed[:i]) if closed[i] else -1 for i in range(len(classes))]


def shared_bases(classes: tuple[ClassSpec, ...]) -> list[int]:
    """For each class the first token id of its first group's shared prefix."""
    bases = [SHARED_BASE]
    for wanted in classes:
        shared = wanted.shared_prefix
        bases.append(bases[-1] + min(shared.groups, wanted.count) * shared.tokens)
    if bases[-1] > PRIVATE_BASE:
        raise ValueError(
            f"the shared prefixes of all groups are {bases[-1] - SHARED_BASE:,} tokens together; "
            f"at most {PRIVATE_BASE - SHARED_BASE:,}"
        )
    return bases[:-1]


# --- in figures -----------------------------------------------------------------------------------


def percentiles(values: NDArray[Any]) -> dict[str, float] | None:
    """Mean, extremes and percentiles (linear interpolation); None for no values."""
    if not len(values):
        return None
    marks = np.percentile(values, PERCENTILES).tolist()
    named = {f"p{mark}": value for mark, value in zip(PERCENTILES, marks, strict=True)}
    return {
        "mean": float(values.mean()),
        "min": float(values.min()),
        **named,
        "max": float(values.max()),
    }


def describe(workload: Workload, block_size: int = 512) -> dict[str, Any]:
    """Size, rate and lengths of a workload, and the share of its prompts that an earlier prompt
    shares.

    Gaps, duration and rate count open arrivals; `released_by_loops` counts
    the others. rate_per_s is one over the mean gap. `prefix`: hits in a prefix cache of infinite
    size, in whole blocks of `block_size` tokens: share = hit_blocks / blocks.
    """
    arrivals = workload.arrival_s[np.isfinite(workload.arrival_s)]
    gaps = np.diff(arrivals)
    duration_s = float(arrivals[-1] - arrivals[0]) if len(arrivals) else 0.0
    content = Content(workload.runs, workload.first_run, workload.num_runs)
    blocks = int((workload.num_prompt_tokens // block_size).sum(dtype=np.int64))
    hit_blocks = count_hit_blocks(content, workload.num_prompt_tokens, block_size)
    return {
        "requests": len(workload),
        "classes": dict(zip(workload.class_names, workload.class_sizes.tolist(), strict=True)),
        "released_by_loops": len(workload) - len(arrivals),
        "duration_s": duration_s,
        "rate_per_s": len(gaps) / duration_s if duration_s > 0 else None,
        "gap_s": percentiles(gaps),
        "zero_gaps": float((gaps == 0).mean()) if len(gaps) else None,
        "prompt_tokens": percentiles(workload.num_prompt_tokens),
        "output_tokens": percentiles(workload.output_len),
        "max_tokens": percentiles(workload.max_tokens),
        "prefix": {
            "block_size": block_size,
            "blocks": blocks,
            "hit_blocks": hit_blocks,
            "share": hit_blocks / blocks if blocks else None,
        },
    }

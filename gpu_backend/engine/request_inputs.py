"""The inputs of a real run: prompts as token ids, max_tokens, sampling.

The request table is the simulator's. Real outputs are written into the run table behind the prompt,
so that the prefix cache hashes and compares the tokens that were generated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_backend.engine.sampling import Sampling
from sim.core.requests import REAL_OUTPUTS, RUN, Table, empty_requests

__all__ = ["RequestInputs", "make_inputs"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RequestInputs:
    """n requests in order of arrival. `requests` and `runs` are templates: `start` copies them.

    tokens: (n, longest prompt + outputs) prompts, padded with zeros. stop_ids: tokens that end a
    generation; empty where outputs run to max_tokens.
    """

    requests: Table
    runs: Table
    tokens: Ints
    sampling: tuple[Sampling, ...]
    stop_ids: frozenset[int]

    def __len__(self) -> int:
        return len(self.requests)


def make_inputs(
    prompts: Sequence[Sequence[int] | Ints],
    max_tokens: Sequence[int] | NDArray[np.integer[Any]] | int,
    *,
    arrival_s: Sequence[float] | NDArray[np.float64] | None = None,
    sampling: Sampling | Sequence[Sampling] | None = None,
    stop_ids: Sequence[int] = (),
    table: Table | None = None,
) -> RequestInputs:
    """Requests for these prompts. ValueError for an empty prompt or a max_tokens below 1.

    arrival_s ascends (default: all at 0). Greedy without `sampling`; with a single Sampling,
    request k draws with its seed + k. `table`: a request table with arrivals and output lengths (of
    a scenario); its rows are copied."""
    n = len(prompts)
    asked = np.broadcast_to(np.asarray(max_tokens, np.int64), (n,))
    for k, prompt in enumerate(prompts):
        if len(prompt) == 0:
            raise ValueError(f"request {k}: the prompt is empty")
        if asked[k] < 1:
            raise ValueError(f"request {k}: max_tokens must be at least 1, found {asked[k]}")
    lengths = np.array([len(prompt) for prompt in prompts], np.int64)
    if table is None:
        requests = empty_requests(n)
        requests.output_len = requests.max_tokens = asked
        arrivals = np.zeros(n) if arrival_s is None else np.asarray(arrival_s, np.float64)
        if (np.diff(arrivals) < 0).any():
            raise ValueError("arrival times must ascend")
        requests.arrival_s = arrivals
    else:
        requests = table.copy()
    requests.num_prompt_tokens = requests.num_tokens = lengths
    requests.output_base = REAL_OUTPUTS
    outputs = np.minimum(requests.max_tokens, requests.output_len)
    tokens = np.zeros((n, int((lengths + outputs).max(initial=1))), np.int64)
    for k, prompt in enumerate(prompts):
        tokens[k, : len(prompt)] = prompt
    runs = run_table(tokens, lengths, outputs, requests)
    if sampling is None or isinstance(sampling, Sampling):
        common = sampling or Sampling()
        sampling = [replace(common, seed=common.seed + k) for k in range(n)]
    return RequestInputs(requests, runs, tokens, tuple(sampling), frozenset(stop_ids))


def run_table(tokens: Ints, lengths: Ints, outputs: NDArray[np.int32], requests: Table) -> Table:
    """The run table of the prompts, with room for one run per generated token after each; sets
    first_run and num_runs."""
    begins = [
        np.flatnonzero(np.diff(tokens[k, : lengths[k]], prepend=-2) != 1)
        for k in range(len(lengths))
    ]
    requests.num_runs = [len(starts) for starts in begins]
    room = requests.num_runs + outputs.astype(np.int64)
    requests.first_run = np.cumsum(room) - room
    runs: Table = np.zeros(max(int(room.sum()), 1), RUN).view(np.recarray)
    for k, starts in enumerate(begins):
        rows = runs[requests.first_run[k] : requests.first_run[k] + len(starts)]
        rows["start"], rows["token"] = starts, tokens[k, starts]
    return runs


def append_output(requests: Table, runs: Table, r: int, position: int, token: int) -> None:
    """Request `r` generated `token` at `position`: its last run grows, or a new one begins."""
    request = requests[r]
    last = runs[request.first_run + request.num_runs - 1]
    if token == last["token"] + position - last["start"]:
        return
    row = runs[request.first_run + request.num_runs]
    row["start"], row["token"] = position, token
    request.num_runs += 1

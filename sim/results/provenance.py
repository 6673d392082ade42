"""Where the step times of a run come from, their expected error, and what lies outside the
calibrated range."""

import numpy as np

from sim.core.recording import Recording
from sim.hardware import catalog
from sim.latency.efficiency import Efficiency, efficiency
from sim.latency.profiles import Profile
from sim.scenario.load import Resolved
from sim.scenario.resolve import ResolvedReplica

__all__ = [
    "ADDS_UP",
    "QUEUE_SHARE",
    "outside",
    "provenance",
    "queue_share",
    "step_notes",
    "step_times",
]

ADDS_UP = "which amplifies small errors of step times: trust the direction more than the seconds"
QUEUE_SHARE = 0.5  # of the mean TTFT; above it an error of step times is amplified


def provenance(recording: Recording, resolved: Resolved) -> tuple[str, ...]:
    """Notes on the step times of a run; none for the linear toy. Errors are those of one step, see
    docs/metrics.md."""
    notes = step_notes(recording, resolved)
    queued = queue_share(recording)
    if notes and queued > QUEUE_SHARE:
        notes.append(f"{queued:.0%} of the mean TTFT is queueing, {ADDS_UP}")
    return tuple(notes)


def step_notes(recording: Recording, resolved: Resolved) -> list[str]:
    """The class of the step times, their expected error, and what lies outside the calibrated
    range, for each kind of server. Pools of equal servers are one kind."""
    kinds: dict[str, list[int]] = {}
    for k, replica in enumerate(resolved.replicas):
        kinds.setdefault(kind_of(replica), []).append(k)
    notes = []
    for name, servers in kinds.items():
        roles = {resolved.replicas[k].replica.role for k in servers} - {"both"}
        pool = f"{roles.pop()} " if len(roles) == 1 else ""
        kind = f"{pool}servers {name}: " if len(kinds) > 1 else ""
        notes += [kind + note for note in notes_of_kind(recording, resolved, servers)]
    return notes


def kind_of(replica: ResolvedReplica) -> str:
    """The short name of the step times of equal servers."""
    if replica.profile is not None:
        return f"as measured in {replica.profile.name}"
    return f"on {replica.gpu.title}, {replica.precision}" if replica.gpu else replica.precision


def notes_of_kind(recording: Recording, resolved: Resolved, servers: list[int]) -> list[str]:
    """The notes on the step times of equal servers."""
    replica = resolved.replicas[servers[0]]
    if replica.profile is not None:
        return [measured(replica.profile), *beyond(recording, replica, servers)]
    if replica.expected_error is None or replica.gpu is None:
        return []
    return [step_times(replica.gpu, replica.precision), *beyond(recording, replica, servers)]


def step_times(gpu: catalog.Gpu, precision: str) -> str:
    """The class of the step times of a GPU, and the expected error of one step."""
    known = efficiency(gpu.name, precision)
    share = f"{known.left_out_error or known.mean_error:.1%}"
    if known.kind == "calibrated":
        return f"step times: calibrated for this GPU, expected error of a step {share}"
    return (
        f"step times: from the spec sheet of {gpu.title} and other GPUs' constants, "
        f"expected error of a step {share}"
    )


def measured(profile: Profile) -> str:
    """The same for a measured profile."""
    where = "on another machine" if profile.imported else "here"
    threads = f", {profile.threads} threads" if profile.threads else ""
    return (
        f"step times: measured {where} ({profile.name}: {profile.model}, {profile.dtype}, "
        f"{profile.device}{threads}), expected error of a step {profile.mape:.1%} on held-out steps"
    )


def outside(known: Efficiency | Profile, tokens: int, decodes: int, context: int) -> list[str]:
    """What exceeds the rows that the constants were fitted to: tokens and decodes per step,
    context."""
    reached = {
        "tokens in a step": (tokens, known.max_tokens),
        "decodes in a step": (decodes, known.max_batch),
        "tokens of context": (context, known.max_context),
    }
    return [
        f"outside the calibrated range: {most:,} {what}, measured up to {limit:,}"
        for what, (most, limit) in reached.items()
        if most > limit
    ]


def queue_share(recording: Recording) -> float:
    """Time before the first step as a share of TTFT, over all requests with a first token."""
    served = ~np.isnan(recording.requests.first_token_s)
    requests = recording.requests[served]
    scheduled = (
        recording.prefill_requests if len(recording.prefill_requests) else recording.requests
    )[served]
    first_token_s = float((requests.first_token_s - requests.arrival_s).sum())
    waited_s = float((scheduled.first_scheduled_s - requests.arrival_s).sum())
    return waited_s / first_token_s if first_token_s > 0 else 0.0


def beyond(recording: Recording, replica: ResolvedReplica, servers: list[int]) -> list[str]:
    """What of the steps of equal servers is outside the calibrated range."""
    alone = len(recording.replica_blocks) == len(servers)
    steps = recording.steps if alone else recording.steps[np.isin(recording.steps.replica, servers)]
    longest = 0
    for table in (recording.requests, recording.prefill_requests):
        here = table if alone else table[np.isin(table.replica, servers)]
        longest = max(longest, int(here.num_computed_tokens.max(initial=0)))
    known: Efficiency | Profile | None = replica.profile
    if known is None and replica.gpu is not None:
        known = efficiency(replica.gpu.name, replica.precision)
    if not len(steps) or known is None:
        return []
    return outside(
        known,
        tokens=int((steps.num_prefill_tokens + steps.num_decodes).max()),
        decodes=int(steps.num_decodes.max()),
        context=longest,
    )

"""How sure the milliseconds of a run are: where step times come from, and where it goes beyond."""

import numpy as np

from sim import catalog
from sim.profiles import Profile
from sim.scenario import Resolved
from sim.trace import Trace

__all__ = ["QUEUE_SHARE", "provenance"]

QUEUE_SHARE = 0.5  # of the mean TTFT: from here on an error of step times is amplified


def provenance(trace: Trace, resolved: Resolved) -> tuple[str, ...]:
    """Sentences on the step times of a run; none for the linear toy, which claims nothing. Error
    bars are those of one step, see docs/metrics.md."""
    replica = resolved.replicas[0]
    if replica.profile is not None:
        return measured(trace, replica.profile)
    if replica.expected_error is None or replica.gpu is None:
        return ()
    known = catalog.efficiency(replica.gpu.name, replica.precision)
    share = f"{replica.expected_error:.1%}"
    if known.kind == "calibrated":
        notes = [f"step times: calibrated for this GPU, expected error of a step {share}"]
    else:
        notes = [
            f"step times: from the spec sheet of {replica.gpu.title} and other GPUs' constants, "
            f"expected error of a step {share}"
        ]
    return (*notes, *beyond(trace, known), *amplified(trace))


def measured(trace: Trace, profile: Profile) -> tuple[str, ...]:
    """The same for step times of a measured profile."""
    where = "on another machine" if profile.imported else "here"
    threads = f", {profile.threads} threads" if profile.threads else ""
    notes = (
        f"step times: measured {where} ({profile.name}: {profile.model}, {profile.dtype}, "
        f"{profile.device}{threads}), expected error of a step {profile.mape:.1%} on held-out steps"
    )
    return (notes, *beyond(trace, profile), *amplified(trace))


def amplified(trace: Trace) -> list[str]:
    """What queueing makes of an error."""
    queued = queue_share(trace)
    if queued <= QUEUE_SHARE:
        return []
    return [
        f"{queued:.0%} of the mean TTFT is queueing, where a small error of every "
        "step adds up: trust the direction more than the seconds"
    ]


def queue_share(trace: Trace) -> float:
    """Waiting before the first step, as a share of the time to the first token, over all requests
    that got one."""
    requests = trace.requests[~np.isnan(trace.requests.first_token_s)]
    first_token_s = float((requests.first_token_s - requests.arrival_s).sum())
    waited_s = float((requests.first_scheduled_s - requests.arrival_s).sum())
    return waited_s / first_token_s if first_token_s > 0 else 0.0


def beyond(trace: Trace, known: catalog.Efficiency | Profile) -> list[str]:
    """What of the run lies outside the steps that the constants were fitted to."""
    steps = trace.steps
    if not len(steps):
        return []
    longest = int(trace.requests.num_computed.max(initial=0))
    reached = {
        "tokens in a step": (
            int((steps.num_prefill_tokens + steps.num_decodes).max()),
            known.max_tokens,
        ),
        "decodes in a step": (int(steps.num_decodes.max()), known.max_batch),
        "tokens of context": (longest, known.max_context),
    }
    return [
        f"outside the calibrated range: {most:,} {what}, measured up to {limit:,}"
        for what, (most, limit) in reached.items()
        if most > limit
    ]

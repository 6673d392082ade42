"""When the requests of a class arrive."""

import numpy as np
from numpy.typing import NDArray

from sim.workload.spec import AllAtOnce, Arrivals, At, ClosedLoop, Constant, Gamma, Poisson

# Below this coefficient of variation gamma gaps are equal to within a millionth.
LEAST_CV = 1e-6


def arrival_times(arrivals: Arrivals, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """`count` arrival times in seconds, ascending; inf for those that a closed loop releases.

    Random gaps are drawn at rate 1 and then divided by the rate: with the same generator another
    rate stretches the same arrivals. Raises ValueError where an arrival overflows.
    """
    # a rate near the smallest float overflows: refused below, in words
    with np.errstate(over="ignore", divide="ignore"):
        times = unchecked_times(arrivals, count, rng)
    if isinstance(arrivals, Poisson | Gamma | Constant) and not np.isfinite(times).all():
        raise ValueError(
            f"at rate_per_s {arrivals.rate_per_s} the last of {count} requests never arrives; "
            "use a larger rate"
        )
    return times


def unchecked_times(
    arrivals: Arrivals, count: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """`arrival_times` before the check for overflow."""
    match arrivals:
        case Poisson():
            times = rng.standard_exponential(count).cumsum() / arrivals.rate_per_s
            times += arrivals.start_s
        case Gamma():
            shape = max(arrivals.cv, LEAST_CV) ** -2.0  # mean gap = shape at scale 1
            times = rng.standard_gamma(shape, count).cumsum() / shape / arrivals.rate_per_s
            times += arrivals.start_s
        case Constant():
            times = arrivals.start_s + np.arange(count) / arrivals.rate_per_s
        case AllAtOnce():
            times = np.full(count, arrivals.start_s)
        case At():
            times = np.sort(np.array(arrivals.times_s, np.float64))
        case ClosedLoop():
            times = np.full(count, np.inf)
            times[: arrivals.users] = arrivals.start_s
    return times

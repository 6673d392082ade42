"""Where the two dials stand, and how far they go."""

from dataclasses import dataclass

BUDGET_LEAST, BUDGET_MOST = 16, 16_384
CAP_LEAST, CAP_MOST = 16, 8_192


@dataclass(frozen=True)
class Dials:
    """Tokens a step, tokens a request and step (0 = off)."""

    budget: int
    cap: int

"""Numbers in sentences."""

__all__ = ["plural"]


def plural(n: int, what: str) -> str:
    """A number with its noun: 1 request, 1,234 requests."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"

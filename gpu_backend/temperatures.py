"""The range of sampling temperatures, as in OpenAI-compatible servers. Does not load torch."""

__all__ = ["TEMPERATURES"]

TEMPERATURES = (0.0, 2.0)

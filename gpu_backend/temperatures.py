"""The temperatures that a run may draw at, those of OpenAI-compatible servers. Loads no torch."""

__all__ = ["TEMPERATURES"]

TEMPERATURES = (0.0, 2.0)

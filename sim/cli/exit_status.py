"""The exit status of a command ended by Ctrl-C; importable before anything else is loaded."""

__all__ = ["INTERRUPTED"]

INTERRUPTED = 130

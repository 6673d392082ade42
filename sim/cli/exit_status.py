"""The exit status of a command that Ctrl-C ended; known before anything else is loaded."""

__all__ = ["INTERRUPTED"]

INTERRUPTED = 130

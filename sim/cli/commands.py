"""Shared by the commands of `python -m sim`."""

import signal
from collections.abc import Callable
from typing import Any

import click

__all__ = ["Refused", "cancel_on_interrupt"]


class Refused(click.ClickException):
    """Bad input: one sentence on stderr."""

    exit_code = 2


def cancel_on_interrupt() -> Callable[[], bool]:
    """A function that returns whether Ctrl-C was pressed; a second Ctrl-C interrupts."""
    asked: list[int] = []

    def remember(number: int, frame: Any) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, remember)
    return lambda: bool(asked)

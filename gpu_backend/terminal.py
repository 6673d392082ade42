"""Progress and Ctrl-C of a command."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from sim.cli.commands import cancel_on_interrupt

__all__ = ["cancel_once_begun", "progress_line"]


@contextmanager
def progress_line() -> Iterator[Callable[[str], None]]:
    """A progress line on stderr that is overwritten, and cleared at the end. Nothing is written
    where stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda words: None
        return
    longest = 0

    def show(words: str) -> None:
        nonlocal longest
        longest = max(longest, len(words))
        click.echo(f"\r{words:<{longest}}", nl=False, err=True)

    try:
        yield show
    finally:
        if longest:
            click.echo(f"\r{'':<{longest}}\r", nl=False, err=True)


def cancel_once_begun() -> Callable[[], bool]:
    """A function that returns whether Ctrl-C was pressed since its first call. Before that, while a
    model loads or a server is contacted, Ctrl-C ends the command."""
    listening: list[Callable[[], bool]] = []

    def cancelled() -> bool:
        if not listening:
            listening.append(cancel_on_interrupt())
        return listening[0]()

    return cancelled

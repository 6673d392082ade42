"""What a command says on the way, and what Ctrl-C does to it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from sim.cli.commands import cancel_on_interrupt

__all__ = ["cancel_once_begun", "progress_line"]


@contextmanager
def progress_line() -> Iterator[Callable[[str], None]]:
    """A line on a terminal's stderr, written over, and wiped at the end, whatever ends it. Nothing
    where stderr is no terminal."""
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
    """A question "cancelled?" that the first Ctrl-C answers with yes, once it has been asked. Until
    then, while a model loads or a server is looked for, Ctrl-C ends the command."""
    listening: list[Callable[[], bool]] = []

    def cancelled() -> bool:
        if not listening:
            listening.append(cancel_on_interrupt())
        return listening[0]()

    return cancelled

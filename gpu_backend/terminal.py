"""Device options, progress and Ctrl-C of a command."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from sim.cli.commands import cancel_on_interrupt

__all__ = ["cancel_once_begun", "device_options", "progress_line"]

Command = Callable[..., Any]

DEVICE_OPTIONS = (
    click.option("--device", "kind", type=click.Choice(["auto", "cuda", "cpu"]), default="auto"),
    click.option("--dtype", type=click.Choice(["auto", "bf16", "fp32"]), default="auto"),
    click.option("--threads", type=click.IntRange(1, 1024), help="Of the CPU; default: all."),
)


def device_options(command: Command) -> Command:
    """Add --device, --dtype and --threads: the arguments kind, dtype and threads of
    `device.choose`."""
    for option in reversed(DEVICE_OPTIONS):
        command = option(command)
    return command


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

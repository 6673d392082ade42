"""Options of a command that choose the device."""

from collections.abc import Callable
from typing import Any

import click

Command = Callable[..., Any]

OPTIONS = (
    click.option("--device", "kind", type=click.Choice(["auto", "cuda", "cpu"]), default="auto"),
    click.option("--dtype", type=click.Choice(["auto", "bf16", "fp32"]), default="auto"),
    click.option("--threads", type=click.IntRange(1, 1024), help="Of the CPU; default: all."),
)


def device_options(command: Command) -> Command:
    """Add --device, --dtype and --threads: the arguments kind, dtype and threads of
    `device.choose`."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command

"""`python -m gpu_backend`: the engine without a browser."""

import sys

import click

from gpu_backend.serve_check import serve_check_command


@click.group(name="gpu_backend", context_settings={"help_option_names": ["-h", "--help"]})
def gpu_backend() -> None:
    """Measured beside simulated."""


gpu_backend.add_command(serve_check_command)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; what it raises becomes an exit status and a sentence."""
    try:
        status = gpu_backend.main(
            args=arguments, prog_name="python -m gpu_backend", standalone_mode=False
        )
        return status if isinstance(status, int) else 0
    except click.Abort:
        return 130
    except (click.ClickException, ValueError) as error:
        words = error.format_message() if isinstance(error, click.ClickException) else str(error)
        click.echo(f"error: {words}", err=True)
        return 2


if __name__ == "__main__":
    sys.exit(main())

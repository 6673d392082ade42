"""Compile the kernels that the tests run, before they run: `python -m tests.tools.compile`.

Both halves of `make test` start at once. From an empty cache each would compile for itself what the
other one compiles too."""

from tests.tools.builders import Server
from ui import prepare

JOBS = 2


def by_hand() -> None:
    """The scheduler stepped without a loop."""
    server = Server([(8, 2), (8, 2)], enable_prefix_caching=True).add(0, 1)
    server.abort(1)
    server.run()


def main() -> None:
    prepare.compile_all(JOBS, print, wait=True)
    by_hand()
    prepare.real_engine("fp32")


if __name__ == "__main__":
    main()

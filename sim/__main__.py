"""`python -m sim`: the simulator on the command line."""

import sys

from sim.cli.exit_status import INTERRUPTED

try:  # numba and its kernels take a moment to load; Ctrl-C may arrive meanwhile
    from sim.cli.main import main
except KeyboardInterrupt:
    raise SystemExit(INTERRUPTED) from None

if __name__ == "__main__":
    sys.exit(main())

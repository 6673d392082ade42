"""The real engine: PyTorch executes the steps that the simulator's policies plan.

Importing it sets how long a thread of torch's OpenMP spins for the next parallel region before it
sleeps, unless the environment sets it. A step has hundreds of short regions, so sleeping at once
costs time, but the default of milliseconds stalls a shared machine (measured with two busy
processes on two cores: a decode step 461 ms by default, 93 ms with this, 236 ms without spinning).
"""

import os

if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")

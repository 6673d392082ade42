"""A running app for the benchmarks of this folder, and small statistics."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_S = 120.0


def chromium() -> str:
    """The path of a Chromium: $CHROMIUM or the first on the path."""
    wanted = os.environ.get("CHROMIUM")
    found = shutil.which(wanted) if wanted else next(filter(None, map(shutil.which, NAMES)), None)
    if not found:
        raise SystemExit("no Chromium: set CHROMIUM to one")
    return found


@contextlib.contextmanager
def app(**environment: str) -> Iterator[tuple[str, int]]:
    """Start the app on a free port; yields its address and its process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless=true"]
    command += ["--server.address=127.0.0.1", f"--server.port={port}"]
    command += ["--server.fileWatcherType=none"]
    server = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    end = time.monotonic() + PATIENCE_S
    try:
        while True:
            try:
                with urllib.request.urlopen(f"{url}/_stcore/health", timeout=1):
                    break
            except OSError:
                if time.monotonic() > end or server.poll() is not None:
                    raise SystemExit("the app did not start") from None
                time.sleep(0.2)
        yield url, server.pid
    finally:
        server.terminate()
        server.wait(20)


def resident_mib(pid: int) -> float:
    """Memory of a process in MiB (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def told(name: str, milliseconds: list[float]) -> str:
    """Median, p95 and worst of some times, in a line."""
    values = np.array(milliseconds)
    p50, p95 = np.percentile(values, [50, 95])
    return (
        f"{name:<44} p50 {p50:6.0f} ms   p95 {p95:6.0f} ms   worst {values.max():6.0f} ms"
        f"   ({len(values)} times)"
    )

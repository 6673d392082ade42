"""What all tests share: the folder of recorded cases, and public traces where they are present."""

import os
from pathlib import Path

import pytest

FEW_SEEDS = 3  # of each random test run in `make check`; all of them in `make test`
ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
CASES = ROOT / "tests" / "oracles" / "cases"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the later seeds of random tests as slow."""
    for item in items:
        parameters = getattr(item, "callspec", None)
        seeds = [parameters.params.get(name, 0) for name in ("seed", "block")] if parameters else []
        if any(isinstance(seed, int) and seed >= FEW_SEEDS for seed in seeds):
            item.add_marker("slow")


@pytest.fixture
def public_data() -> Path:
    """The folder of public traces and tables that $BATCHSCOPE_DATA names; skips without one."""
    folder = os.environ.get("BATCHSCOPE_DATA")
    if not folder:
        pytest.skip("BATCHSCOPE_DATA names no folder with public traces")
    return Path(folder)

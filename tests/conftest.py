"""What all tests share: the folder of recorded cases, and public traces where they are present."""

import os
from pathlib import Path

import pytest

CASES = Path(__file__).parent / "oracles" / "cases"


@pytest.fixture
def public_data() -> Path:
    """The folder of public traces and tables that $BATCHSCOPE_DATA names; skips without one."""
    folder = os.environ.get("BATCHSCOPE_DATA")
    if not folder:
        pytest.skip("BATCHSCOPE_DATA names no folder with public traces")
    return Path(folder)

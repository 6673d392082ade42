"""Pages run compiled kernels; the process that serves a page does not compile them."""

import pytest

from ui import prepare


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    prepare.compile_all(wait=True)

"""What all tests share: the folder of recorded cases, public traces where they are present, and
the list of the skips that are allowed."""

import os
import re
from collections.abc import Generator
from pathlib import Path

import pytest

# Of each random test these run in `make check`, all of them in `make test`. A block is 300 seeds.
FEW = {"seed": 3, "block": 1}
ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
CASES = ROOT / "tests" / "oracles" / "cases"

# The reasons for which a test may be skipped (patterns), and why each of them is outside the
# repository's control. Any other skip, and any xfail, fails.
ALLOWED_SKIPS = {
    r"BATCHSCOPE_DATA names no .*": "public traces and tables are not part of the repository",
    r"NO BROWSER: .*": "a Chromium is not a Python package; REQUIRE_BROWSER=1 fails without one",
    r".* is not fetched\b.*": "the weights of SmolLM2 are downloaded on request",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the later seeds of random tests as slow."""
    for item in items:
        parameters = getattr(item, "callspec", None)
        given = parameters.params if parameters else {}
        if any(
            isinstance(given.get(name), int) and given[name] >= few for name, few in FEW.items()
        ):
            item.add_marker("slow")


def fail_unlisted_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip that ALLOWED_SKIPS does not list, and any xfail, into a failure."""
    if hasattr(report, "wasxfail"):
        words = f"xfail is not allowed: {report.wasxfail}"
        del report.wasxfail
    elif report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if any(re.fullmatch(pattern, reason, re.DOTALL) for pattern in ALLOWED_SKIPS):
            return
        words = f"a skip that ALLOWED_SKIPS does not list: {reason}"
    else:
        return
    report.outcome = "failed"
    report.longrepr = words


# Outermost wrappers, in the process that runs the test: pytest-xdist reports what they return.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    fail_unlisted_skip(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    fail_unlisted_skip(report)
    return report


@pytest.fixture
def public_data() -> Path:
    """The folder of public traces and tables that $BATCHSCOPE_DATA names; skips without one."""
    folder = os.environ.get("BATCHSCOPE_DATA")
    if not folder:
        pytest.skip("BATCHSCOPE_DATA names no folder with public traces")
    return Path(folder)

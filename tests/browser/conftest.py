"""A running app and a real Chromium for the tests of this folder.

The browser is $CHROMIUM, or the first of chromium, chromium-browser, google-chrome on the path.
Without one these tests are skipped with a line that says so; with REQUIRE_BROWSER=1 they fail.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from ui import prepare

ROOT = Path(__file__).parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_S = 120  # a first start compiles the kernels
# No run of the page, nothing dimmed, no transition; spinners turn without end.
AT_REST = """document.querySelector('.stApp[data-test-script-state=notRunning]')
    && !document.querySelector('[data-stale=true]')
    && document.getAnimations().every((one) => one.playState === 'finished'
        || one.effect.getComputedTiming().iterations === Infinity)"""


def find_chromium() -> str | None:
    """The path of a Chromium, None where there is none."""
    wanted = os.environ.get("CHROMIUM")
    if wanted:
        return shutil.which(wanted)
    return next((path for path in map(shutil.which, NAMES) if path), None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a browser one test stays, to be skipped (or to fail) for all: one line in all."""
    mine = [item for item in items if item.path.parent == Path(__file__).parent]
    if find_chromium() is None and mine:
        items[:] = [item for item in items if item not in mine[1:]]
        config.hook.pytest_deselected(items=mine[1:])


@pytest.fixture(scope="session")
def chromium() -> str:
    path = find_chromium()
    if path is None:
        words = "NO BROWSER: set CHROMIUM to a Chromium to run the tests in tests/browser"
        if os.environ.get("REQUIRE_BROWSER") == "1":
            pytest.fail(words)
        pytest.skip(words)
    return path


@pytest.fixture(scope="session")
def app_url(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the app, started on a free port for this test session."""
    prepare.compile_all(wait=True)  # so that no test waits for it in the browser
    with serving(ROOT, tmp_path_factory.mktemp("app") / "log.txt") as url:
        yield url


@contextmanager
def serving(folder: Path, log: Path, **environment: str) -> Iterator[str]:
    """The address of the app in a folder, on a free port, with more variables of environment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {"headless": "true", "address": "127.0.0.1", "port": port, "fileWatcherType": "none"}
    command = [sys.executable, "-m", "streamlit", "run", "app.py"]
    command += [f"--server.{name}={value}" for name, value in options.items()]
    with log.open("w") as output:
        server = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(server, f"{url}/_stcore/health", log)
        yield url
    finally:
        server.terminate()
        server.wait(20)


def wait_for(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Come back when the server answers; fail with its log when it does not."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if server.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the app did not start:\n{log.read_text()}")


@pytest.fixture(scope="module")  # its event loop would be in the way of other tests
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"], timeout=60_000
        )
        yield browser
        browser.close()


class Timeline:
    """An open page: what tests look at and press."""

    def __init__(self, page: Page):
        self.page = page
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._note)

    def _note(self, message) -> None:
        # Streamlit looks for its server below the page's address first: two 404s, and no error.
        probing = "/_stcore/" in (message.location or {}).get("url", "")
        if message.type == "error" and "favicon" not in message.text and not probing:
            self.errors.append(message.text)

    def open(self, url: str) -> "Timeline":
        self.page.goto(url)
        self.stage.wait_for(timeout=PATIENCE_S * 1000)
        self.page.wait_for_function("document.querySelector('.stMetric') !== null")
        return self

    @property
    def stage(self):
        return self.page.get_by_role("slider", name="Play head")

    @property
    def budget(self):
        return self.page.get_by_label("Token budget per step")

    @property
    def cap(self):
        return self.page.get_by_label("Cap per request")

    @property
    def step(self) -> int:
        return int(self.stage.get_attribute("aria-valuenow") or -1)

    @property
    def sentence(self) -> str:
        return self.page.locator(".say").inner_text()

    @property
    def why(self) -> list[tuple[str, str]]:
        """The lines of the inspector: chip and text."""
        chips = self.page.locator(".why dt").all_inner_texts()
        return list(zip(chips, self.page.locator(".why dd").all_inner_texts(), strict=True))

    def preset(self, name: str) -> None:
        self.page.get_by_role("radio", name=name).click()

    def until(self, expression: str, argument=None) -> None:
        """Wait until a JavaScript expression over the timeline's root (`bs`) holds."""
        find = """(a) => { const host = [...document.querySelectorAll('*')]
            .find((e) => e.shadowRoot && e.shadowRoot.querySelector('.bs'));
            const bs = host && host.shadowRoot.querySelector('.bs'); return bs && (EXPRESSION); }"""
        self.page.wait_for_function(find.replace("EXPRESSION", expression), arg=argument)

    @property
    def packet(self) -> str:
        """A short name for the bytes that are shown."""
        return self.page.locator(".bs").get_attribute("data-packet") or ""

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def at_rest(self) -> None:
        """Wait until the page's run and its transitions are over."""
        self.page.wait_for_function(AT_REST)

    def serious_faults(self) -> list[tuple[str, list[str]]]:
        """What axe-core calls serious or critical, of a page at rest."""
        self.at_rest()
        return [
            (fault["id"], [node["target"] for node in fault["nodes"]][:3])
            for fault in Axe().run(self.page)["violations"]
            if fault["impact"] in ("serious", "critical")
        ]

    def until_sentence(self, words: str) -> None:
        self.until("bs.querySelector('.say').textContent.includes(a)", words)


@pytest.fixture
def visit(browser: Browser, app_url: str) -> Iterator[Callable[..., Timeline]]:
    """Opens an address in a fresh browser session: visit("/token_budget?v=1", color_scheme="dark").
    A script error fails the test."""
    contexts, opened = [], []

    def go(path: str, timeline: bool = True, **options) -> Timeline:
        options = {"viewport": {"width": 1340, "height": 1250}} | options
        contexts.append(browser.new_context(**options))
        page = Timeline(contexts[-1].new_page())
        opened.append(page)
        if timeline:
            return page.open(app_url + path)
        page.page.goto(app_url + path)
        page.page.get_by_test_id("stSidebarUserContent").wait_for(state="attached")
        return page

    yield go
    for context in contexts:
        context.close()
    assert [page.errors for page in opened if page.errors] == []


@pytest.fixture
def timeline(browser: Browser, app_url: str) -> Iterator[Timeline]:
    """The page at its start, in a fresh browser session; a script error fails the test."""
    context = browser.new_context(viewport={"width": 1340, "height": 1250})
    opened = Timeline(context.new_page()).open(f"{app_url}/token_budget")
    yield opened
    context.close()
    assert opened.errors == []

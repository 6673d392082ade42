"""Opens a page of the app without a browser, and reads what its session keeps."""

from pathlib import Path
from typing import TypeVar

from streamlit.testing.v1 import AppTest

from ui.shell.frame import Visit
from ui.shell.session import key_of

ROOT = Path(__file__).parents[2]
Kept = TypeVar("Kept")


def open_page(path: str, **query: str) -> AppTest:
    """A page in its frame; "__" in a key of the query stands for a dot."""
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120)
    at.session_state[key_of(Visit)] = Visit(wanted=path)
    for key, text in query.items():
        at.query_params[key.replace("__", ".")] = text
    at.run()
    assert not at.exception
    return at


def go_to(at: AppTest, path: str) -> AppTest:
    """Another page in the same session."""
    kept(at, Visit).wanted = path
    at.run()
    assert not at.exception
    return at


def kept(at: AppTest, kind: type[Kept]) -> Kept:
    """What the session keeps of a class."""
    found = at.session_state[key_of(kind)]
    assert isinstance(found, kind)
    return found


def address(at: AppTest) -> dict[str, str]:
    """The query that the page wrote."""
    return {
        key: text if isinstance(text, str) else text[0]
        for key, text in dict(at.query_params).items()
    }

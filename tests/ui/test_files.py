"""What the browser loads and what Python says about it must fit together."""

import re
from pathlib import Path

from ui import component

MODULES = sorted(component.STATIC.glob("*/*.js"))


def test_modules_are_small():
    assert all(len(file.read_text().splitlines()) < 300 for file in MODULES)


def test_no_module_writes_markup():
    """Labels come from files people upload: text goes in by textContent and canvas alone."""
    for file in MODULES:
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", file.read_text()
        )


def test_every_import_carries_the_version():
    """A browser must not mix two versions: no import without the query of its importer."""
    for file in MODULES:
        assert not re.search(r'^\s*import\s.*from|import\("', file.read_text(), re.MULTILINE)


def test_nothing_is_loaded_from_elsewhere():
    for file in component.STATIC.glob("*/*"):
        found = re.findall(r"https?://[^\s\"'`]+", file.read_text())
        assert all(address.startswith("http://www.w3.org/") for address in found)


def test_the_version_follows_the_files(tmp_path: Path, monkeypatch):
    for name in ("map", "timeline"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "main.js").write_text("one")
    monkeypatch.setattr(component, "STATIC", tmp_path)
    first, alone = component.version("map", "timeline"), component.version("map")
    (tmp_path / "timeline" / "main.js").write_text("two")
    assert component.version("map", "timeline") != first
    assert component.version("map") == alone

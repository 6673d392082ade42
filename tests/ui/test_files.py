"""What the browser loads: no markup from text, nothing from elsewhere."""

import re

from ui import component

MODULES = sorted(component.WEB.rglob("*.js"))


def test_no_module_writes_markup():
    """Labels come from files people upload: text goes in by textContent and canvas alone."""
    for file in MODULES:
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", file.read_text()
        )


def test_nothing_is_loaded_from_elsewhere():
    for file in (*MODULES, *component.WEB.rglob("*.css")):
        found = re.findall(r"https?://[^\s\"'`]+", file.read_text())
        assert all(address.startswith("http://www.w3.org/") for address in found)

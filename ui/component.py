"""Mounting a Streamlit v2 component whose JavaScript lies in static/ as plain ES modules.

The string handed to Streamlit is only a loader, with a hash of the files in the address so that a
browser never mixes two versions.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamlit as st

__all__ = ["STATIC", "component", "skeleton", "version"]

STATIC = Path(__file__).parents[1] / "static"
_LOADER = """
const address = new URL("app/static/NAME/main.js?v=VERSION", document.baseURI).href;
export default function (component) {
  let stop = null, gone = false;
  import(address).then(({ mount }) => { if (!gone) stop = mount(component); });
  return () => { gone = true; stop?.(); };
}
"""


def component(name: str, skeleton: str, borrows: Sequence[str] = ()) -> Any:
    """What mounts static/NAME/main.js. `skeleton`: shown until it stands; `borrows`: other folders
    of static/ whose modules it loads."""
    loader = _LOADER.replace("NAME", name).replace("VERSION", version(name, *borrows))
    return st.components.v2.component(f"batchscope.{name}", html=skeleton, js=loader)


def version(*names: str) -> str:
    """A hash of every file that the browser loads."""
    digest = hashlib.sha256()
    for name in names:
        for file in sorted((STATIC / name).iterdir()):
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def skeleton(height: int, words: str) -> str:
    """A box that says what is on its way."""
    return f"""
<div class="skeleton" role="status" style="min-height: {height}px; border-radius: 12px;
  padding: 14px 18px; font: 400 14px/1.5 var(--st-font), sans-serif; color: var(--st-text-color);
  border: 1px solid var(--st-border-color); background: var(--st-secondary-background-color)">
  {words}</div>
"""

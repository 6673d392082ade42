"""The block map: KV memory step by step, on a canvas. A Streamlit v2 component like the timeline,
whose modules it borrows."""

import hashlib
from pathlib import Path

import streamlit as st

STATIC = Path(__file__).parents[2] / "static"
FOLDERS = (STATIC / "memory", STATIC / "timeline")
_SKELETON = """
<div class="skeleton" role="status" style="min-height: 380px; border-radius: 12px;
  padding: 14px 18px; font: 400 14px/1.5 var(--st-font), sans-serif; color: var(--st-text-color);
  border: 1px solid var(--st-border-color); background: var(--st-secondary-background-color)">
  Getting the memory ready</div>
"""
_LOADER = """
const address = new URL("app/static/memory/main.js?v=VERSION", document.baseURI).href;
export default function (component) {
  let stop = null, gone = false;
  import(address).then(({ mount }) => { if (!gone) stop = mount(component); });
  return () => { gone = true; stop?.(); };
}
"""


def version() -> str:
    """A hash of every file that the browser loads."""
    digest = hashlib.sha256()
    for folder in FOLDERS:
        for file in sorted(folder.iterdir()):
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:12]


_mount = st.components.v2.component(
    "batchscope.memory", html=_SKELETON, js=_LOADER.replace("VERSION", version())
)


def block_map(packet: bytes, *, key: str) -> None:
    """Mount the map; `packet` is the work of `packing.pack`."""
    _mount(key=key, data=packet)

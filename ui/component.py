"""Mounting Streamlit v2 components whose JavaScript lies in web/ as plain ES modules.

Streamlit serves the folder static/ and lets browsers cache what it serves. So that no browser ever
mixes two versions, web/ is copied to static/VERSION/, VERSION being a hash of its files: every
module imports its neighbours by a relative address and stays inside its version. The string handed
to Streamlit is only a loader. It asks for all files of a component at once.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

__all__ = ["WEB", "component", "files_of", "publish", "skeleton"]

ROOT = Path(__file__).parents[1]
WEB = ROOT / "web"
STATIC = ROOT / "static"
SERVED = (".js", ".css")
KEPT_S = 7 * 86_400  # other versions of this age are removed
_IMPORT = re.compile(r'^(?:import|export)\b[^"]*?"(\.[^"]+)"', re.MULTILINE)
_LOADER = """
const base = new URL("app/static/VERSION/", document.baseURI).href;
for (const file of FILES) {
  const href = base + file;
  if (document.querySelector(`link[href="${href}"]`)) continue;
  const link = document.createElement("link");
  if (file.endsWith(".css")) Object.assign(link, { rel: "preload", as: "style", href });
  else Object.assign(link, { rel: "modulepreload", href });
  document.head.append(link);
}
export default function (component) {
  let stop = null, gone = false;
  import(base + "NAME/main.js").then(({ mount }) => { if (!gone) stop = mount(component); });
  return () => { gone = true; stop?.(); };
}
"""


def component(name: str, skeleton: str) -> Any:
    """What mounts web/NAME/main.js. `skeleton` is shown until it is there."""
    files = json.dumps(files_of(name))
    loader = _LOADER.replace("NAME", name).replace("FILES", files).replace("VERSION", publish())
    return st.components.v2.component(f"batchscope.{name}", html=skeleton, js=loader)


def files_of(name: str) -> list[str]:
    """The modules that web/NAME/main.js imports, directly or not, and the style sheets."""
    found, todo = set[Path](), [WEB / name / "main.js"]
    while todo:
        file = todo.pop()
        if file not in found:
            found.add(file)
            todo += [(file.parent / path).resolve() for path in _IMPORT.findall(file.read_text())]
    sheets = [WEB / folder / "style.css" for folder in ("lib", name)]
    return sorted(str(file.relative_to(WEB).as_posix()) for file in [*found, *sheets])


@cache
def publish(web: Path = WEB, static: Path = STATIC) -> str:
    """Copy the files that a browser may ask for to static/VERSION/; returns VERSION."""
    files = sorted(file for file in web.rglob("*") if file.suffix in SERVED)
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(web).as_posix()}\n".encode() + file.read_bytes())
    version = digest.hexdigest()[:12]
    target = static / version
    if target.is_dir():
        os.utime(target)
    else:
        static.mkdir(exist_ok=True)
        _copy(files, web, target)
    for other in static.iterdir():
        if other.is_dir() and time.time() - other.stat().st_mtime > KEPT_S:
            shutil.rmtree(other, ignore_errors=True)
    return version


def _copy(files: list[Path], web: Path, target: Path) -> None:
    """All files at once: another process sees the whole version or nothing of it."""
    with tempfile.TemporaryDirectory(dir=target.parent, ignore_cleanup_errors=True) as made:
        whole = Path(made) / target.name
        for file in files:
            copy = whole / file.relative_to(web)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        try:
            whole.rename(target)
        except OSError:  # another process was first
            if not target.is_dir():
                raise


def skeleton(height: int, words: str) -> str:
    """A box that says what is on its way."""
    return f"""
<div class="skeleton" role="status" style="min-height: {height}px; border-radius: 12px;
  padding: 14px 18px; font: 400 14px/1.5 var(--st-font), sans-serif; color: var(--st-text-color);
  border: 1px solid var(--st-border-color); background: var(--st-secondary-background-color)">
  {words}</div>
"""

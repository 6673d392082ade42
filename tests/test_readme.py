"""The file tree in README.md: every path in it exists, and every package folder is in it."""

import re
import subprocess
from pathlib import PurePosixPath

import pytest

from tests.conftest import ROOT

LISTED_WHOLE = ("sim", "ui", "gpu_backend", "web")  # folders whose subfolders are all in the tree
ENTRY = re.compile(r"^    ( *)([\w.-]+/?)(?:  |$)")


def tree() -> list[str]:
    """The paths of the tree, with their folders; a folder ends in "/"."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    paths: list[str] = []
    folders: list[tuple[int, str]] = []  # (indent, path) of the folders that are open
    for line in text.split("## Where things are", 1)[1].splitlines():
        if found := ENTRY.match(line):
            indent, name = len(found[1]), found[2]
            folders = [each for each in folders if each[0] < indent]
            path = (folders[-1][1] if folders else "") + name
            paths.append(path)
            if name.endswith("/"):
                folders.append((indent, path))
    return paths


def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_tree_is_read() -> None:
    assert {"app.py", "sim/core/", "sim/hardware/data/", "ui/shell/"} <= set(tree())


def test_every_path_is_tracked_and_listed_once() -> None:
    files = tracked()
    folders = {f"{parent}/" for file in files for parent in PurePosixPath(file).parents}
    assert len(tree()) == len(set(tree()))
    assert set(tree()) <= {*files, *folders}


@pytest.mark.parametrize("folder", LISTED_WHOLE)
def test_every_folder_is_in_the_tree(folder: str) -> None:
    parents = {
        f"{parent}/"
        for file in tracked()
        for parent in PurePosixPath(file).parents
        if parent.parts[:1] == (folder,)
    }
    assert parents <= set(tree())


def test_every_page_is_in_the_tree() -> None:
    pages = {file for file in tracked() if file.startswith("pages/") and file.endswith(".py")}
    assert pages <= set(tree())

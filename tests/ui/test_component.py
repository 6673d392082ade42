"""How web/ reaches a browser: every file that a component needs, under one version."""

import os
import re
import time
from pathlib import Path

import pytest

from ui import component

NAMES = ("timeline", "lanes", "block_map", "chat_windows")


@pytest.mark.parametrize("name", NAMES)
def test_the_loader_asks_for_every_module_that_is_imported(name: str) -> None:
    files = component.files_of(name)
    assert f"{name}/main.js" in files
    assert {"lib/mount.js", "lib/dom.js", "lib/style.css", f"{name}/style.css"} <= set(files)
    for file in files:
        assert (component.WEB / file).is_file()
        assert file.split("/")[0] in ("lib", name)  # components import nothing of each other


def test_no_module_is_unused() -> None:
    used = {file for name in NAMES for file in component.files_of(name)}
    shipped = {str(file.relative_to(component.WEB)) for file in component.WEB.rglob("*.js")}
    assert shipped - used == {"timeline/types.js", "lanes/types.js"}  # types only


@pytest.mark.parametrize("file", sorted(component.WEB.rglob("*.js")), ids=lambda file: file.name)
def test_modules_are_checked_and_import_statically(file: Path) -> None:
    text = file.read_text()
    assert text.startswith("// @ts-check\n")
    assert not re.search(r"\bimport\(|^await |@ts-ignore|@ts-nocheck", text, re.MULTILINE)


@pytest.fixture
def web(tmp_path: Path) -> Path:
    folder = tmp_path / "web"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "a.js").write_text("export const a = 1;")
    (folder / "style.css").write_text("p {}")
    (folder / "tsconfig.json").write_text("{}")
    return folder


def test_a_version_holds_all_files_and_never_changes(web: Path, tmp_path: Path) -> None:
    static = tmp_path / "static"
    first = component.publish.__wrapped__(web, static)
    assert component.publish.__wrapped__(web, static) == first
    (web / "lib" / "a.js").write_text("export const a = 2;")
    second = component.publish.__wrapped__(web, static)
    assert first != second
    assert (static / first / "lib" / "a.js").read_text() == "export const a = 1;"
    assert (static / second / "lib" / "a.js").read_text() == "export const a = 2;"
    assert sorted(path.name for path in (static / second).rglob("*.*")) == ["a.js", "style.css"]
    assert {path.name for path in static.iterdir()} == {first, second}


def test_a_file_that_moves_is_another_version(web: Path, tmp_path: Path) -> None:
    first = component.publish.__wrapped__(web, tmp_path / "static")
    (web / "lib" / "a.js").rename(web / "lib" / "b.js")
    assert component.publish.__wrapped__(web, tmp_path / "static") != first


def test_old_versions_are_removed(web: Path, tmp_path: Path) -> None:
    static = tmp_path / "static"
    first = component.publish.__wrapped__(web, static)
    (static / ".gitignore").write_text("*")
    old = time.time() - component.KEPT_S - 60
    os.utime(static / first, (old, old))
    (web / "style.css").write_text("b {}")
    second = component.publish.__wrapped__(web, static)
    assert {path.name for path in static.iterdir()} == {second, ".gitignore"}


def test_the_version_in_use_is_kept(web: Path, tmp_path: Path) -> None:
    static = tmp_path / "static"
    first = component.publish.__wrapped__(web, static)
    old = time.time() - component.KEPT_S - 60
    os.utime(static / first, (old, old))
    assert component.publish.__wrapped__(web, static) == first
    assert (static / first / "style.css").is_file()

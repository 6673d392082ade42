"""The import rule of each folder of ui, one line each."""

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.test_import_rules import imported

BASE = {"component", "scenarios", "text"}
COMPONENTS = {"timeline", "lanes", "block_map", "chat_windows"}
SHARED = BASE | COMPONENTS | {"charts", "shell", "widgets"}
PAGES = {"start", "two_phases", "token_budget", "six_ways", "kv_memory", "disaggregation",
         "real_engine"}  # fmt: skip
# folder, or module, of ui: the others that it may import
MAY_IMPORT: dict[str, set[str]] = {
    "component": set(),
    "scenarios": set(),
    "text": {"scenarios"},
    "charts": {"scenarios", "text"},
    "timeline": BASE,
    "lanes": BASE | {"timeline"},
    "block_map": BASE | {"timeline"},
    "chat_windows": BASE,
    "shell": BASE | {"timeline"},
    "widgets": BASE | {"shell"},
    **dict.fromkeys(sorted(PAGES), SHARED),
    "lessons": SHARED | PAGES,
    "start_up": SHARED | PAGES,
    "prepare": {"shell", "timeline"},
}
PURE = {"scenarios", "text", "charts"}  # load no Streamlit themselves


def test_every_part_of_ui_has_a_rule():
    parts = {file.relative_to(ROOT / "ui").parts[0] for file in (ROOT / "ui").rglob("*.py")}
    assert {Path(part).stem for part in parts} - {"__init__"} == set(MAY_IMPORT)


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_a_part_imports_what_its_rule_allows(part: str):
    path = ROOT / "ui" / part
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]:
        others = {name.split(".")[1] for name in imported(file) if name.startswith("ui.")}
        assert others <= MAY_IMPORT[part] | {part}, file


@pytest.mark.parametrize("part", sorted(PURE))
def test_a_pure_part_imports_no_streamlit(part: str):
    for file in sorted((ROOT / "ui" / part).rglob("*.py")):
        assert not any(name.split(".")[0] == "streamlit" for name in imported(file)), file


@pytest.mark.parametrize("file", sorted((ROOT / "pages").glob("*.py")), ids=lambda f: f.stem)
def test_a_page_imports_its_own_folder_and_what_is_shared(file: Path):
    others = {name.split(".")[1] for name in imported(file) if name.startswith("ui.")}
    assert others <= SHARED | {file.stem}

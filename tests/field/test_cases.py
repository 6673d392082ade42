"""Each case keeps the report's own words, and every number the phrase it was read from."""

import re

import pytest

from tests.field.field import CASES, TEXT, case

NAMES = sorted(file.stem for file in CASES.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_numbers_stand_in_their_phrases(name: str) -> None:
    document = case(name)
    assert document["id"] == name
    text = " ".join(str(document[key]) for key in TEXT)
    for key, entry in document["numbers"].items():
        assert entry["phrase"] in text, key
        figures = re.findall(r"\d+(?:\.\d+)?", entry["phrase"].replace(",", ""))
        assert float(entry["value"]) in [float(figure) for figure in figures], key


def test_every_case_has_a_test_that_carries_its_id() -> None:
    sources = "".join(file.read_text() for file in CASES.parent.glob("test_*.py"))
    tested = set(re.findall(r"def test_(F\d+)_", sources))
    assert tested == set(NAMES)

"""Plain technical English: the worst habits do not come back. Words: docs/glossary.md.

Reads every tracked text file but the recorded cases, the field reports and this file.
"""

import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

READ = {".py", ".js", ".css", ".md", ".toml", ".yml", ".yaml", ".json"}
LEFT_OUT = ("tests/oracles/", "tests/field/cases/", "tests/test_language.py", "docs/glossary.md")
LOCKS = ("package-lock.json",)

UNIT = (
    "request|step|token|second|minute|replica|server|engine|file|line|GPU|prompt|page|problem|"
    "policy|block|row|column|figure|setting|run|seed|layer|session|point|chunk|descriptor|transfer|"
    "reader|class|model|lane|decode|lesson|sentence|word|test|case|call|field|key|entry|user"
)
COUNTED = (
    r"(?:one|a|an|two|three|four) [\w-]+|tokens|rows|requests|steps|bytes|times|blocks|files|lines|"
    r"sentences|slots|seconds|FLOP|[GMk]B|ms|queries|prompts|users|descriptors"
)
PATTERNS = {
    "write 'per': one row per request, tokens per step": rf"\b(?:{COUNTED}) an? (?:{UNIT})\b",
    "a request is 'it' or 'the request'": r"\b(?:whom|nobody|somebody|everybody|anybody|whoever)\b",
    "a request is 'it'; 'who' is for people": (
        r"(?<!people )(?<!reader )(?<!readers )(?<!student )(?<!students )(?<!teacher )"
        r"(?<!engineer )(?<!user )(?<!users )(?<!client )(?<!person )(?<!anyone )\bwho\b"
    ),
    "say it directly": (
        r"\b(?:what (?:it|they|this|that) comes? to|foretell\w*|foretold|is told|are told|"
        r"wound up|winds up|no word for|let in whom|goes through whom|so that none|the very same|"
        r"whereof|thereof|therein)\b"
    ),
}


def texts() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    kept = [name for name in listed if not name.startswith(LEFT_OUT) and not name.endswith(LOCKS)]
    return [ROOT / name for name in kept if Path(name).suffix in READ or name == "Makefile"]


@pytest.mark.parametrize("advice", PATTERNS)
def test_plain_english(advice: str) -> None:
    pattern = re.compile(PATTERNS[advice], re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:90]}"
        for path in texts()
        if path.is_file()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, f"{advice}\n" + "\n".join(found)


@pytest.mark.parametrize(
    "sentence",
    [
        "Write one row a request.",
        "tokens a step",
        "nobody is ever paused",
        "the first who waits",
        "print what it comes to",
    ],
)
def test_the_patterns_find_what_they_are_for(sentence: str) -> None:
    assert any(re.search(pattern, sentence, re.IGNORECASE) for pattern in PATTERNS.values())


@pytest.mark.parametrize(
    "sentence",
    ["Write one row per request.", "a student who waits", "the request that waits", "a GPU a lot"],
)
def test_the_patterns_leave_plain_sentences_alone(sentence: str) -> None:
    assert not any(re.search(pattern, sentence, re.IGNORECASE) for pattern in PATTERNS.values())

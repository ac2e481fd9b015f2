"""What the repository cites can be found: a paper by its name, never a document that is absent."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
_ABSENT = re.compile(r"\bspec\s+C?\d|\b(?:design|facts|style|gate|spec|tui)\.md\b")


def _texts():
    names = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "*.py", "*.toml", "*.md"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    for name in names:
        path = ROOT / name
        if path.is_file() and path != Path(__file__):
            yield name, path.read_text(encoding="utf-8")


def test_no_text_cites_a_document_that_is_not_in_the_repository():
    found = [
        f"{name}: {match[0]!r}"
        for name, text in _texts()
        for match in _ABSENT.finditer(text)
        if not (ROOT / match[0]).is_file()
    ]
    assert not found

"""Figures of the README's recorded tables are what its own commands print from the kept files."""

import re
import shlex
from itertools import zip_longest
from pathlib import Path

import pytest
from typer.testing import CliRunner

from workbench.cli.main import app

ROOT = Path(__file__).parents[1]
COMMAND = re.compile(r"`workbench (bench [\w ]+ --from\s+(tests/recorded/[\w./]+))`")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def tables():
    """(command, the rows of the table below it), for each command with a table before the next."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE):
        found = list(COMMAND.finditer(section))
        for one, later in zip_longest(found, found[1:]):
            end = later.start() if later else len(section)
            lines = section[one.end() : end].splitlines()
            rows = [line for line in lines if line.startswith("| ")][1:]
            if rows:
                yield pytest.param(" ".join(one[1].split()), rows, id=Path(one[2]).stem)


def numbers(text):
    return set(NUMBER.findall(text))


def test_each_recorded_table_is_checked():
    assert {case.id for case in tables()} == {
        *("noise_h200", "offline_h200", "offline_h200_third", "experts_h200", "search_h200"),
        "roundtrip_h200",
        "ablation_h200",
        "ablation_cpu",
    }


@pytest.mark.parametrize(("command", "rows"), tables())
def test_every_number_of_a_table_is_printed_by_its_command(command, rows, monkeypatch):
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(app, shlex.split(command))
    assert done.exit_code in {0, 1}, done.output
    printed = done.stdout.splitlines()
    for row in rows:
        name, *cells = (cell.strip() for cell in row.strip("|").split("|"))
        own = " ".join(line for line in printed if re.match(rf"{re.escape(name)}\b", line))
        assert numbers(" ".join(cells)) <= numbers(own), f"{row} is not what is printed: {own}"

"""The same kernel, cards and history give the same plan, byte for byte, wherever that is asked."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.paths import shipped
from workbench.problems.load import shipped_problems

WORKER = Path(__file__).with_name("plans_worker.py")


def plans(cards: Path, **environment: str) -> bytes:
    """What a process of its own prints under other settings."""
    done = subprocess.run(
        [sys.executable, str(WORKER), str(cards)],
        env={**os.environ, "PYTHONHASHSEED": "0", **environment},
        capture_output=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def plain() -> bytes:
    return plans(shipped("skills"))


@pytest.fixture
def backwards(tmp_path) -> Path:
    """The same cards, whose files sort the other way round and were written in that order."""
    cards = sorted(shipped("skills").glob("*.toml"))
    for place, card in enumerate(reversed(cards)):
        shutil.copyfile(card, tmp_path / f"{place:04}-{card.name}")
    return tmp_path


def test_every_seed_has_a_plan_with_its_trail(plain):
    lines = [json.loads(line) for line in plain.splitlines()]
    assert {line["problem"] for line in lines} == set(shipped_problems())
    planned = {line["problem"] for line in lines if "plan" in line}
    assert planned == set(shipped_problems())
    assert all(line["plan"]["policy"] for line in lines if "plan" in line)


def test_plans_do_not_depend_on_the_seed_of_hashes_the_locale_or_the_zone(plain):
    other = {"PYTHONHASHSEED": "4711", "LC_ALL": "C", "LANG": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu"}
    assert plans(shipped("skills"), **other) == plain


def test_plans_do_not_depend_on_the_names_and_the_order_of_the_cards_files(plain, backwards):
    assert plans(backwards, PYTHONHASHSEED="1") == plain

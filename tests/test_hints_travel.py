"""A person's hints are the session's: git holds them with their step, and a bundle carries them."""

from pathlib import Path

import pytest
from engine_parts import ScriptedWorkplace, new_session
from test_agents_steering import workbench

from workbench.agents.ledger import hints_of, read_lines
from workbench.engine import events as ev
from workbench.engine.serve import serve_session
from workbench.engine.sessions import export, import_file
from workbench.engine.submitting import hint_alone
from workbench.engine.telling import tell
from workbench.session.reader import SessionReader
from workbench.session.records import Answer, Budget


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A session of cards with one step, hinted at before it and after it."""
    path = new_session(tmp_path / "softmax-1", budget=Budget(steps=1)).folder
    hint_alone(path, "two rows a program")
    serve_session(path, open_workplace=lambda *given: ScriptedWorkplace(*given, steps=1))
    hint_alone(path, "no shared memory")
    return path


def test_a_hint_to_a_session_of_cards_is_in_the_version_that_it_led_to(folder):
    lines = SessionReader(folder).record_of(0).exchange
    assert [line["text"] for line in lines if line["line"] == "hint"] == ["two rows a program"]


def test_an_imported_session_has_the_hints_of_its_versions(tmp_path, folder):
    export(folder, tmp_path / "one.bundle")
    there = import_file(tmp_path / "one.bundle", tmp_path / "elsewhere", "")
    assert hints_of(read_lines(SessionReader(there).state), 9) == ("two rows a program",)
    export(there, tmp_path / "two.bundle")
    again = import_file(tmp_path / "two.bundle", tmp_path / "elsewhere", "again")
    assert hints_of(read_lines(SessionReader(again).state), 9) == ("two rows a program",)


def test_export_says_which_hints_no_version_holds_yet(tmp_path, folder):
    done = workbench("export", "softmax-1", str(tmp_path / "one.bundle"), sessions=folder.parent)
    assert done.returncode == 0
    assert "left out: 1 hint for the next step" in done.stderr


def test_what_could_not_be_judged_is_not_told_as_rejected():
    taken = {
        "seq": 1,
        "at": "2026-01-01T00:00:00+00:00",
        "number": 3,
        "answer": Answer.REJECTED,
        "by": "gate",
        "reason": "no GPU",
    }
    assert tell(ev.DecisionTaken(**taken)).says == "v3 rejected by gate: no GPU"
    unproven = tell(ev.DecisionTaken(**taken, unproven=True))
    assert unproven.says == "v3 unproven, so not kept: no GPU"

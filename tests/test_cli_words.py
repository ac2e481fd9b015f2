"""How sessions and versions are named on a command line, and how every command refuses."""

import json
import os
import subprocess
import sys

import pytest
from msgspec import structs
from typed_kit import saved, shell

from workbench.agents.ledger import read_lines
from workbench.cli.run import tell_idle_limits
from workbench.engine.create import request_run
from workbench.engine.telling import evidence_line
from workbench.gate.records import Finding
from workbench.session.records import Budget

__all__ = ["saved", "shell"]


@pytest.fixture
def two(saved):
    """The saved session and a newer copy of it; the older one is `softmax-1`."""
    saved("export", "softmax-1", "one.bundle")
    saved("import", "one.bundle", "--session", "newer")
    return saved


@pytest.mark.parametrize(
    ("command", "versions"),
    [
        ("status", ()),
        ("log", ()),
        ("review", ()),
        ("card", ()),
        ("card", ("v3",)),
        ("diff", ("v5",)),
        ("diff", ("v1", "best")),
        ("code", ("v2",)),
    ],
)
def test_a_session_stands_first_or_behind_session(two, command, versions):
    first = two(command, "softmax-1", *versions)
    assert two(command, *versions, "--session", "softmax-1") == first
    path = str(two.sessions / "softmax-1")
    assert two(command, path, *versions) == first


def test_without_a_session_the_one_that_changed_last_is_meant(two):
    assert two("status").startswith("session   newer ")
    log = two.sessions / "softmax-1" / ".git" / "workbench" / "events.jsonl"
    newer = two.sessions / "newer" / ".git" / "workbench"
    os.utime(log, ns=(newer.stat().st_mtime_ns + 1_000_000_000,) * 2)
    assert two("status").startswith("session   softmax-1 ")


def test_a_refused_wish_does_not_make_a_session_the_newest(two):
    assert "did not pass the gate" in two.refused("branch", "softmax-1", "v3")
    assert two("status").startswith("session   newer ")


def test_deciding_and_moving_take_a_session_either_way(two):
    assert "softmax-1" in two.refused("accept", "softmax-1", "v1")
    assert "softmax-1" in two.refused("accept", "v1", "--session", "softmax-1")
    two("branch", "softmax-1", "v1", "--reason", "again from there")
    two("branch", "v2", "--session", "softmax-1")
    two("undo", "--session", "softmax-1")
    assert json.loads(two("status", "softmax-1", "--json"))["incumbent"] == 1
    assert json.loads(two("status", "newer", "--json"))["incumbent"] == 5


def test_two_sessions_in_one_command_are_refused(two):
    told = two.refused("status", "newer", "--session", "softmax-1")
    assert "two sessions are named" in told
    assert two("status", "newer", "--session", "newer")


def test_a_session_called_like_a_version_is_reached_by_the_word_before(two):
    two("import", "one.bundle", "--session", "3")
    assert two("card", "3", "v5").startswith("v5 ")
    assert two("card", "3").startswith("v3 ")
    assert two("diff", "3", "v1", "v2") == two("diff", "softmax-1", "v1", "v2")


@pytest.mark.parametrize(
    "words",
    [
        ("status", "nowhere"),
        ("card", "v99"),
        ("diff",),
        ("accept",),
        ("export",),
        ("run", "softmaxx", "--headless"),
        ("run", "softmax", "--steps", "-1"),
        ("veto", "v1"),
        ("skills", "show", "more-warp"),
        ("bench", "nothing"),
        ("code", "v1", "--level", "llvm"),
    ],
)
def test_a_fault_is_the_same_three_parts_for_people_and_machines(saved, words):
    code, out, _ = saved.raw(*words, "--json")
    assert code == 2
    error = json.loads(out.splitlines()[-1])["error"]
    assert error["what"]
    assert error["todo"]
    told = saved.refused(*words)
    assert told.startswith(f"workbench: {error['what']}\n")
    assert f"  to do: {error['todo']}" in told
    assert ("  where: " in told) == bool(error["where"])


def test_a_folder_that_cannot_be_written_is_told_with_what_to_do(shell, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", "/dev/null")
    told = shell.refused("skills", "pin", "more-warps")
    assert "where: /dev/null" in told
    assert "to do: " in told


def test_help_is_asked_for_as_people_ask(shell):
    assert shell("status", "-h") == shell("status", "--help") == shell("help", "status")
    assert shell("-h") == shell("--help") == shell("help")


def test_hints_plans_and_candidates_take_a_session_either_way(two):
    def hints(name: str) -> int:
        return len(read_lines(two.sessions / name / ".git" / "workbench"))

    for words in (("softmax-1", "no atomics"), ("no atomics", "--session", "softmax-1")):
        assert "kept for the prompts from v" in two("hint", *words)
    assert (hints("softmax-1"), hints("newer")) == (2, 0)
    two("hint", "no atomics")
    assert (hints("softmax-1"), hints("newer")) == (2, 1)
    for words in (("softmax-1", "none.py"), ("none.py", "--session", "softmax-1"), ("none.py",)):
        assert "no such candidate" in two.refused("submit", *words)
    assert "there is no session 'lost'" in two.refused("plan", "--session", "lost")
    assert "there is no session 'lost'" in two.refused("submit", "lost", "none.py")
    assert "there is no session 'lost'" in two.refused("choose", "lost", "--drop")


def test_a_limit_that_can_end_nothing_is_told_of(saved, capsys):
    path = saved.sessions / "softmax-1"
    tell_idle_limits(path)
    assert capsys.readouterr().err == ""
    request_run(path, mode=None, budget=Budget(gpu_seconds=5, usd=1))
    tell_idle_limits(path)
    err = capsys.readouterr().err
    assert "--gpu-seconds has no effect here: no GPU is used" in err
    assert "--usd has no effect here: no model is asked" in err


def test_a_misspelt_session_is_answered_with_the_nearest_one(two):
    assert "did you mean softmax-1? sessions here: newer, softmax-1;" in two.refused(
        "status", "sotfmax-1"
    )
    assert "did you mean" not in two.refused("status", "gemm")


def test_choosing_with_a_session_alone_asks_for_the_skill(two):
    told = two.refused("choose", "softmax-1")
    assert "name a skill" in told
    assert "workbench choose softmax-1 online-softmax" in told


def test_the_package_is_the_command_too():
    asked = [sys.executable, "-m", "workbench", "--version"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stdout.split()[0]) == (0, "workbench")


def test_a_refusal_says_once_what_is_wrong_and_what_to_do():
    finding = Finding(
        code="policy.torch-compute",
        says="`torch.softmax` computes outside a kernel",
        evidence={"name": "torch.softmax", "share": 0.25, "todo": "use a Triton kernel"},
    )
    assert evidence_line(finding) == "share=0.25; to do: use a Triton kernel"
    assert evidence_line(structs.replace(finding, says="it computes")).startswith("name=torch.")
    assert evidence_line(structs.replace(finding, evidence={})) == ""

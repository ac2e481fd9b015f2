"""What commands tell: no number without its unit, no command that does nothing in silence."""

import json

import pytest
from session_kit import transition
from typed_kit import saved, shell

from workbench.cli.report import card_text, ratio_words, version_line, widths
from workbench.engine.view import Version
from workbench.gate.records import Stage, Verdict
from workbench.measure.records import Kind, Speed, Time
from workbench.session.complaints import explained
from workbench.session.records import Answer
from workbench.skills.records import Check, Truth

__all__ = ["saved", "shell"]


def test_every_ratio_says_that_it_is_one():
    modeled = Speed(ratio=1.3321, kind=Kind.MODELED)
    measured = Speed(ratio=1.32, low=1.31, high=1.33, kind=Kind.MEASURED)
    assert ratio_words(modeled) == "1.332x modeled"
    assert ratio_words(measured) == "1.320x [1.310, 1.330] measured"


def test_a_list_of_versions_stands_in_columns_whatever_is_in_them():
    versions = [
        Version(
            number=number,
            parent=None,
            commit="0" * 40,
            title=title,
            verdict=Verdict.ACCEPTED,
            stage=Stage.PROFILE,
            code="",
            answer=Answer.ACCEPTED,
            speed_vs_seed=None,
            speed_vs_parent=None,
            time=Time(kind=Kind.MEASURED, microseconds=microseconds, device="H200"),
        )
        for number, title, microseconds in (
            (7, "one", 4.2),
            (
                8,
                "Keep a part of the row on the chip: part 4, 16384, num_warps 32, back True",
                790.3,
            ),
            (1200, "Size the tile of an fp32 product", 14790.3),
        )
    ]
    rows = [version_line(version, widths(versions)) for version in versions]
    assert len({row.index("accepted") for row in rows}) == 1
    assert len({row.index(v.title) for row, v in zip(rows, versions, strict=True)}) == 1


def test_what_speaks_against_a_step_stands_in_capitals():
    record = transition(2, 1, Answer.ACCEPTED)
    risky = Check(says="a risk that is there", when="a", truth=Truth.YES, because="a -> yes")
    safe = Check(says="a risk that is not", when="b", truth=Truth.NO, because="b -> no")
    needed = Check(says="a need that is not", when="c", truth=Truth.NO, because="c -> no")
    plan = type(record.plan)(
        card="more-warps",
        title="More warps a program",
        intent="Spread a block.",
        kernel="k",
        checks=(needed,),
        risks=(risky, safe),
    )
    said = card_text(type(record)(**{**_fields(record), "plan": plan}))
    assert "condition NO  a need that is not" in said
    assert "risk      YES a risk that is there" in said
    assert "risk      no  a risk that is not" in said
    assert "card      more-warps: workbench skills show more-warps" in said


def _fields(record):
    return {name: getattr(record, name) for name in record.__struct_fields__}


def test_the_log_says_what_its_speeds_are_against(saved):
    code, out, err = saved.raw("log")
    assert (code, len(out.splitlines())) == (0, 7)
    assert err == "speeds are against v0, where the session began\n"


def test_the_first_version_is_shown_as_a_new_file(saved):
    assert saved("diff", "v0").startswith("--- /dev/null\n+++ v0/kernel.py\n")


def test_cards_are_linted_by_id_or_file(shell):
    shell("skills", "new", "my-trick", "--edit", "num-warps")
    assert shell("skills", "lint", "my-trick") == "1 card can be used\n"
    assert json.loads(shell("skills", "lint", "more-warps", "--json")) == {"cards": 1, "faults": 0}
    assert "there is no card `nowhere`" in shell.refused("skills", "lint", "nowhere")


def test_a_fault_in_a_card_has_the_shape_of_every_fault(shell, tmp_path):
    (tmp_path / "bad.toml").write_text("id = 3\n")
    said = shell("skills", "lint", "bad.toml", "--json", code=1).splitlines()
    assert set(json.loads(said[0])["error"]) == {"what", "where", "todo"}
    assert json.loads(said[1]) == {"cards": 1, "faults": 1}


def test_evidence_of_a_card_that_is_not_there_is_refused(saved):
    assert "there is no card" in saved.refused("skills", "evidence", "softmax-1", "--card", "none")
    said = saved("skills", "evidence", "softmax-1", "--card", "online-softmax")
    assert "no gated step of softmax-1 speaks for or against the card online-softmax" in said


def test_an_editor_without_a_terminal_is_not_started(shell, monkeypatch):
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.delenv("VISUAL", raising=False)
    assert "my-trick" in shell("skills", "new", "my-trick")
    assert "no terminal for an editor" in shell.refused("skills", "edit", "my-trick")


def test_the_models_table_is_of_the_problems_that_were_named(shell):
    rows = shell("bench", "model", "rmsnorm", "--json", code=1).splitlines()
    assert [json.loads(row)["judgement"]["problem"] for row in rows] == ["rmsnorm"]
    assert "there are " in shell.refused("bench", "model", "nothing")


@pytest.mark.parametrize("bench", ["experts", "offline", "roundtrip", "noise", "search", "model"])
def test_a_kept_file_that_is_not_there_is_told_in_words(shell, bench):
    told = shell.refused("bench", bench, "--from", "nothing.jsonl")
    assert "No such file or directory\n  where: nothing.jsonl\n  to do: " in told
    assert "Errno" not in told


@pytest.mark.parametrize("bench", ["noise", "experts", "roundtrip"])
def test_a_file_without_a_kept_line_is_no_empty_table(shell, tmp_path, bench):
    other = tmp_path / "other.jsonl"
    other.touch()
    told = shell.refused("bench", bench, "--from", str(other))
    assert "the file holds nothing that was kept" in told
    assert f"workbench bench {bench} --keep" in told


@pytest.mark.parametrize("word", ["inf", "nan", "-1"])
def test_a_limit_is_a_number_that_can_be_reached(shell, word):
    for option in ("--usd", "--wall-seconds", "--gpu-seconds"):
        told = shell.refused("run", "softmax", "--headless", f"{option}={word}")
        assert f"Invalid value for '{option}'" in told


def test_doctor_says_when_there_is_nothing_to_measure():
    from workbench.cli import doctor
    from workbench.measure.gpus import list_gpus

    if list_gpus():
        pytest.skip("there is a GPU to measure")
    (line,) = doctor._ceilings(measure=True)
    assert "nothing is measured" in line.found


def test_a_bundle_that_finds_the_disk_full_does_not_call_the_session_damaged(tmp_path):
    complaint = (
        "fatal: sha1 file '<stdout>' write error. Out of diskspace\nerror: pack-objects died"
    )
    fault = explained("bundle", complaint, tmp_path)
    assert fault.what == "the disk is full; the session was not changed"
    assert fault.todo

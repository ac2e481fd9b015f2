"""The cards' life by commands: list, show, new, edit, lint, disable, pin, evidence, facts."""

import json
import tomllib
from pathlib import Path

import pytest
from session_kit import kernel, new_store, transition
from typer.testing import CliRunner

from workbench.cli.main import app
from workbench.engine.evidence import evidence_of
from workbench.errors import WorkbenchError
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.facts_catalogue import CATALOGUE
from workbench.paths import shipped
from workbench.problems.load import load_problem
from workbench.session.records import Answer
from workbench.skills.card import parse_card, read_card
from workbench.skills.library import load_library
from workbench.skills.preferences import Preferences, load_preferences
from workbench.skills.records import Admission, EvidenceRow
from workbench.skills.writing import add_evidence, file_for_trials, skeleton

BUNDLES = shipped("sessions")


class Person:
    """Types commands, with settings of their own."""

    def __init__(self, settings: Path) -> None:
        self.cards = settings / "workbench" / "skills"

    def __call__(self, *words: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["skills", *words])
        if isinstance(done.exception, WorkbenchError):
            raise done.exception
        assert done.exit_code == code, done.output
        return done.output


@pytest.fixture
def person(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    return Person(tmp_path / "settings")


def test_a_new_card_can_be_used_as_it_stands_and_is_a_draft(person):
    person("new", "my-trick", "--edit", "num-warps")
    assert person("lint").endswith("cards can be used\n")
    skill = load_library().skill("my-trick")
    assert (skill.origin, skill.standing) == ("user", "draft")
    with pytest.raises(WorkbenchError, match="already a card"):
        person("new", "my-trick")


@pytest.mark.parametrize("edit", ["", *sorted(EDITS)])
def test_every_edits_skeleton_is_a_card(edit, tmp_path):
    card = parse_card(skeleton("a-card", edit), tmp_path / "a-card.toml").card
    assert card.carrier.edit == edit
    assert set(card.carrier.grid) == {p.name for p in EDITS[edit].parameters} if edit else True


def test_a_wrong_id_or_edit_is_told(person):
    with pytest.raises(WorkbenchError, match="is not an id"):
        person("new", "My Trick")
    with pytest.raises(WorkbenchError, match="no edit 'warp'"):
        person("new", "my-trick", "--edit", "warp")


def test_lint_names_file_key_value_and_the_nearest_word_and_leaves_with_no(person):
    person("new", "my-trick", "--edit", "num-warps")
    path = person.cards / "my-trick.toml"
    path.write_text(path.read_text().replace("code.loop_count", "code.loop_cuont"))
    said = person("lint", code=1)
    for part in (str(path), "precondition[0].when", "code.loop_cuont", "`code.loop_count`"):
        assert part in said
    told = json.loads(person("lint", "--json", code=1).splitlines()[0])
    assert told["error"]["where"] == str(path)
    assert "code.loop_cuont" in person("lint", str(path), code=1)


def test_editing_a_shipped_card_makes_a_copy_that_stands_in_for_it(person, monkeypatch):
    monkeypatch.setenv("EDITOR", "sed -i s/Fewer/Fewest/")
    before = (shipped("skills") / "fewer-warps.toml").read_bytes()
    assert "can be used" in person("edit", "fewer-warps")
    assert (shipped("skills") / "fewer-warps.toml").read_bytes() == before
    row = next(ln for ln in person("list").splitlines() if ln.startswith("fewer-warps"))
    assert "user, for the shipped one" in row
    assert "Fewest warps" in row


def test_an_edit_that_breaks_a_card_is_told_at_once(person, monkeypatch):
    monkeypatch.setenv("EDITOR", "sed -i s/title/titel/")
    with pytest.raises(WorkbenchError, match="`titel`"):
        person("edit", "fewer-warps")


def test_a_broken_card_of_ones_own_can_be_opened_and_mended(person, monkeypatch):
    person("new", "my-trick")
    path = person.cards / "my-trick.toml"
    path.write_text(path.read_text().replace("title", "titel"))
    with pytest.raises(WorkbenchError, match="`titel`"):
        person("list")
    monkeypatch.setenv("EDITOR", "sed -i s/titel/title/")
    assert "can be used" in person("edit", "my-trick")
    assert "my-trick" in person("list")


def test_a_missing_editor_is_told(person, monkeypatch):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "no-such-editor")
    with pytest.raises(WorkbenchError, match="cannot be started"):
        person("edit", "fewer-warps")


def test_what_a_person_decides_is_kept_and_shown(person):
    person("disable", "more-warps")
    person("pin", "dot-tf32x3")
    assert load_preferences() == Preferences(disabled=("more-warps",), pinned=("dot-tf32x3",))
    rows = {ln.split()[0]: ln for ln in person("list").splitlines()}
    assert "disabled" in rows["more-warps"]
    assert "pinned" in rows["dot-tf32x3"]
    person("pin", "more-warps")
    assert load_preferences().disabled == ()
    person("unpin", "more-warps")
    person("unpin", "dot-tf32x3")
    person("disable", "more-warps")
    person("enable", "more-warps")
    assert load_preferences() == Preferences()
    library = load_library()
    assert (library.disabled, library.pinned) == (frozenset(), frozenset())


def test_a_card_that_is_not_there_cannot_be_pinned(person):
    with pytest.raises(WorkbenchError, match="no card `more-wraps`"):
        person("pin", "more-wraps")


def test_decisions_that_cannot_be_read_are_told_with_their_file(person):
    file = person.cards.parent / "skills.toml"
    file.parent.mkdir(parents=True)
    for wrong in ("pinned = 3", "pined = []", "= x"):
        file.write_text(wrong)
        with pytest.raises(WorkbenchError, match="cannot be read") as caught:
            person("list")
        assert caught.value.where == str(file)
    file.unlink()
    file.mkdir()
    with pytest.raises(WorkbenchError, match="cannot be read: Is a directory"):
        person("list")


def test_the_lists_json_says_standing_origin_and_decision(person):
    person("disable", "more-warps")
    rows = [json.loads(line) for line in person("list", "--json").splitlines()]
    row = next(r for r in rows if r["card"]["id"] == "more-warps")
    assert (row["from"], row["decided"]) == ("shipped", "disabled")
    assert row["standing"] in {"draft", "tried", "admitted"}


def test_words_choose_cards_and_the_last_line_says_of_how_many(person):
    every = load_library().skills
    wanted = {n for n, s in every.items() if s.card.carrier.edit == "cache-modifier"}
    out = person("list", "SHIPPED", "cache-modifier").splitlines()
    assert {line.split()[0] for line in out[1:-3]} == wanted
    assert out[-1].startswith(f"{len(wanted)} of {len(every)} cards")
    assert person("list").splitlines()[-1].startswith(f"{len(every)} cards")
    with pytest.raises(WorkbenchError, match="no card has 'no-such-word'"):
        person("list", "no-such-word")


def test_cards_of_a_folder_are_listed_and_shown_beside_the_shipped_ones(person, tmp_path):
    drafts = shipped("skills") / "learned"
    there = ("--cards", str(drafts))
    assert str(drafts / "learned-warps.toml") in person("show", "learned-warps", *there)
    listed = person("list", "learned-", *there, "--json").splitlines()
    assert len(listed) == len(list(drafts.glob("*.toml")))
    with pytest.raises(WorkbenchError, match="no card `learned-warps`"):
        person("show", "learned-warps")
    with pytest.raises(WorkbenchError, match="no cards in this folder"):
        person("show", "more-warps", "--cards", str(tmp_path / "none"))


def test_the_policy_is_shown_with_the_source_of_its_thresholds(person):
    said = person("policy")
    assert "gemm.tf32x3" in said
    assert "KernelSkill: DRAM < 60 %" in said
    assert json.loads(person("policy", "--json"))["format"] == 1


# Evidence.


def row(**changes):
    values = {
        "session": "s-1",
        "commit": "0" * 40,
        "device": "NVIDIA H200",
        "kind": "measured",
        "before_us": 30.0,
        "after_us": 20.0,
        "verdict": "accepted",
    }
    return EvidenceRow(**{**values, **changes})


def test_evidence_is_appended_without_touching_a_byte_and_once(tmp_path):
    path = tmp_path / "card.toml"
    before = "# mine \r\n" + skeleton("a-card", "num-warps").rstrip("\n")
    path.write_bytes(before.encode())
    added = add_evidence(path, [row(), row(commit="1" * 40, verdict="rejected", says='"\\ x')])
    assert (added.evidence, added.known) == (2, 0)
    assert path.read_bytes().startswith(before.encode())
    skill = read_card(path)
    assert skill.card.evidence == (row(), row(commit="1" * 40, verdict="rejected", says='"\\ x'))
    assert skill.standing == "tried"
    after = path.read_bytes()
    assert add_evidence(path, [row()]).known == 1
    assert path.read_bytes() == after


def test_only_a_kept_step_ends_a_draft_and_only_a_held_out_trial_admits(tmp_path):
    path = tmp_path / "card.toml"
    path.write_text(skeleton("a-card", "num-warps"))
    add_evidence(path, [row(verdict="rejected")])
    assert read_card(path).standing == "draft"
    trial = {"target": "softmax", "session": "s", "accepted": True, "effect_observed": True}
    add_evidence(path, [], [Admission(held_out=False, commit="2", **trial)])
    assert read_card(path).standing == "draft"
    add_evidence(path, [], [Admission(held_out=True, commit="3", **trial)])
    assert read_card(path).standing == "admitted"


def test_evidence_written_inline_is_refused_and_the_file_is_left(tmp_path):
    path = tmp_path / "card.toml"
    text = "evidence = []\n" + skeleton("a-card", "num-warps")
    path.write_text(text)
    with pytest.raises(WorkbenchError):
        add_evidence(path, [row()])
    assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


def test_a_recorded_session_tells_for_and_against_its_cards(person):
    said = person("evidence", str(BUNDLES / "rmsnorm-h200.bundle"))
    assert "loop-to-tile" in said
    assert "1.443x measured" in said
    assert "profile.slower" in said
    rows = [
        json.loads(ln)
        for ln in person("evidence", str(BUNDLES / "rmsnorm-h200.bundle"), "--json").splitlines()
    ]
    assert {r["evidence"]["problem"] for r in rows} == {"rmsnorm"}
    assert {r["evidence"]["family"] for r in rows} == {"normalization"}
    assert all(len(r["evidence"]["commit"]) == 40 for r in rows)


def test_a_sessions_evidence_is_written_into_the_cards_it_used(person, monkeypatch):
    monkeypatch.setenv("EDITOR", "true")
    person("edit", "loop-to-tile")
    path = person.cards / "loop-to-tile.toml"
    path.write_text(skeleton("loop-to-tile", "loop-to-tile"))
    bundle = str(BUNDLES / "rmsnorm-h200.bundle")
    said = person("evidence", bundle, "--write", "--held-out", "--card", "loop-to-tile")
    assert f"1 row, 1 trial added to {path}" in said
    card = tomllib.loads(path.read_text())
    assert card["evidence"][0]["verdict"] == "accepted"
    assert card["admission"][0]["held_out"] is True
    again = person("evidence", bundle, "--write", "--card", "loop-to-tile")
    assert "nothing to add: it had" in again
    assert "evidence   accepted 1.443x measured" in person("show", "loop-to-tile")


def test_a_row_says_what_the_pairs_say_and_not_two_medians():
    """Between the two medians the GPU drifts; a step may look like a gain that was a loss."""
    lineage = read_card(shipped("skills") / "learned" / "learned-square-tiles.toml").card
    (row,) = lineage.evidence
    assert row.before_us > row.after_us
    assert row.ratio == row.paired == 0.9766
    steps = {one.row.commit: one.row for one in evidence_of(BUNDLES / "rmsnorm-h200.bundle")}
    assert all(abs(row.ratio * row.after_us / row.before_us - 1) < 0.01 for row in steps.values())
    assert all(row.paired for row in steps.values() if row.verdict == "accepted")


def test_a_veto_and_a_refusal_speak_against_a_card_and_what_waits_says_nothing(tmp_path):
    store = new_store(tmp_path)
    store.record(transition(0, None), kernel(0))
    store.record(transition(1, 0, Answer.VETOED), kernel(1))
    store.record(transition(2, 0, Answer.REJECTED), kernel(2))
    store.record(transition(3, 0), kernel(3))
    store.record_pending(transition(4, 3, Answer.PENDING), kernel(4))
    found = evidence_of(tmp_path / "softmax-1")
    assert [one.row.verdict for one in found] == ["rejected", "rejected", "accepted"]
    assert found[0].row.says.startswith("vetoed")
    assert "46 times" in found[1].row.says
    assert {one.card for one in found} == {"row-on-chip"}
    assert not any(one.trial.effect_observed for one in found), "none of them was timed"


def test_a_file_that_is_no_session_is_told(person, tmp_path):
    (tmp_path / "x.bundle").write_text("no")
    with pytest.raises(WorkbenchError, match="not a session's bundle"):
        person("evidence", str(tmp_path / "x.bundle"))


# Facts.


def test_the_catalogue_lists_every_fact_with_type_unit_source_and_meaning():
    said = CliRunner().invoke(app, ["facts", "--catalogue"]).output
    for name, spec in CATALOGUE.items():
        line = next(ln for ln in said.splitlines() if ln.startswith(f"{name} "))
        assert spec.type in line
        assert spec.source in line
        assert spec.says in line


def test_a_kernel_whose_text_is_not_found_is_told_and_not_passed_over(person, tmp_path):
    text = load_problem("gelu").seed.read_text()
    text = text.replace("@triton.jit\ndef gelu_kernel", "def plain")
    text = text.replace("class ModelNew", "gelu_kernel = triton.jit(plain)\n\n\nclass ModelNew")
    (tmp_path / "k.py").write_text(text)
    with pytest.raises(WorkbenchError, match="no text of a kernel is found in the file; plain ran"):
        person("check", str(tmp_path / "k.py"), "--problem", "gelu")


def test_facts_without_a_kernel_say_what_to_type():
    done = CliRunner().invoke(app, ["facts"])
    assert "workbench facts kernel.py --problem softmax" in str(done.exception)


def test_a_persons_own_trials_leave_the_shipped_cards_as_they_are(person):
    shipped_card = shipped("skills") / "loop-to-tile.toml"
    before = shipped_card.read_bytes()
    bundle = str(BUNDLES / "rmsnorm-h200.bundle")
    said = person("evidence", bundle, "--write", "--held-out", "--card", "loop-to-tile")
    mine = person.cards / "loop-to-tile.toml"
    assert f"1 trial added to {mine}" in said
    assert shipped_card.read_bytes() == before
    assert mine.read_bytes().startswith(before)
    skill = load_library().skill("loop-to-tile")
    assert (skill.path, skill.replaces) == (mine, shipped_card)
    assert len(skill.card.admission) == len(read_card(shipped_card).card.admission) + 1
    again = mine.read_bytes()
    person("evidence", bundle, "--write", "--held-out", "--card", "loop-to-tile")
    assert mine.read_bytes() == again


def test_no_copy_is_made_of_a_card_that_learns_nothing(person):
    # The card was given the rows of this session when it was recorded.
    said = person("evidence", str(BUNDLES / "rmsnorm-h200.bundle"), "--write")
    assert "nothing to add: it had" in said
    assert "added to" not in said
    assert not person.cards.exists()


def test_trials_never_go_into_a_file_that_holds_another_card(person):
    person("new", "mine")
    person.cards.joinpath("mine.toml").rename(person.cards / "loop-to-tile.toml")
    with pytest.raises(WorkbenchError, match="the file holds the card `mine`"):
        file_for_trials(load_library().skill("loop-to-tile"))


def test_shipped_cards_are_written_where_that_is_asked_for(person):
    skill = load_library().skill("loop-to-tile")
    assert file_for_trials(skill, shipped=True) == shipped("skills") / "loop-to-tile.toml"
    assert not person.cards.exists()

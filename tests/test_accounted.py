"""Induction accounts for every recorded step: it is in a card, or left out with a reason."""

import json
from pathlib import Path

import pytest
from msgspec import structs
from session_kit import kernel, new_store, transition
from typer.testing import CliRunner
from walk_parts import ScriptedBench
from walk_parts import walked as walk_of

from workbench.cli.main import app
from workbench.engine.inducing import induced_from, rows
from workbench.engine.walks import write_chain
from workbench.gate.records import Verdict
from workbench.kernels.edits.registry import EDITS
from workbench.lineage.instances import Instance, accounted, leaps
from workbench.measure.records import Kind, Speed
from workbench.session.bundle import import_bundle
from workbench.session.reader import SessionReader
from workbench.session.records import PUT_ASIDE, Answer
from workbench.session.store import SessionStore

SESSIONS = Path(__file__).parent.parent / "sessions"


def gated(step, **gate):
    return structs.replace(step, gate=structs.replace(step.gate, **gate))


def planned(step, **plan):
    return structs.replace(step, plan=structs.replace(step.plan, **plan))


def said(places, beside=()):
    found = induced_from(places, beside)
    return {one.number: one.says for one in found.left_out}, found


@pytest.fixture
def run(tmp_path):
    """A run with a step of every kind that no card is lifted from."""
    store = new_store(tmp_path)
    edit = min(EDITS)
    kept = transition(1, 0)
    steps = [
        transition(0, None),
        planned(kept, card="", edit=""),
        planned(structs.replace(kept, number=2), edit=edit, first=("other-card",)),
        planned(structs.replace(kept, number=3), card="a-sketch", edit=""),
        planned(
            gated(structs.replace(kept, number=4), verdict=Verdict.UNPROVEN, says="no GPU"),
            edit=edit,
        ),
        planned(gated(transition(5, 0, Answer.REJECTED), code=PUT_ASIDE, says="later"), edit=edit),
        planned(transition(6, 0, Answer.VETOED), edit=edit),
        structs.replace(kept, number=7, plan=None),
    ]
    for step in steps:
        store.record(step, kernel(step.number))
    return store


def test_a_step_of_a_run_that_is_in_no_card_is_told_with_its_reason(run):
    why, found = said([run.folder])
    assert not found.cards
    assert why.keys() == {1, 2, 3, 4, 5, 6, 7}
    for number, words in {
        1: "of no card",
        2: "several cards shows none of them alone (other-card first)",
        3: "a-sketch is a candidate of its own",
        4: "the gate could not judge it: no GPU",
        5: "put aside before its gate ended: later",
        6: "was kept and faster: vetoed: ",
        7: "it has no plan",
    }.items():
        assert words in why[number], (number, why[number])


def test_the_command_prints_and_writes_what_became_of_every_step(run, tmp_path):
    out = tmp_path / "drafts"
    done = CliRunner().invoke(app, ["skills", "induce", str(run.folder), "--out", str(out)])
    assert done.exit_code == 1
    assert "left out: v7 of softmax-1: it has no plan" in done.output
    told = [json.loads(line) for line in (out / "induced.jsonl").read_text().splitlines()]
    assert [row["number"] for row in told] == [1, 2, 3, 4, 5, 6, 7]
    assert all(row["says"] in done.output for row in told)
    done = CliRunner().invoke(app, ["skills", "induce", str(run.folder), "--json"])
    assert json.loads(done.output)["steps"] == told


@pytest.mark.parametrize(
    ("ratio", "low", "helped"),
    [(1.1, 1.05, True), (1.1, 1.005, False), (1.1, None, True), (1.005, None, False)],
)
def test_a_step_of_a_run_is_for_its_card_where_the_lower_end_is_a_gain(
    tmp_path, ratio, low, helped
):
    store = new_store(tmp_path)
    store.record(transition(0, None), kernel(0))
    high = None if low is None else 2 * ratio
    speed = Speed(kind=Kind.MEASURED, ratio=ratio, low=low, high=high)
    store.record(gated(planned(transition(1, 0), edit="num-warps"), speed=speed), kernel(1))
    assert [made.helped for made in induced_from([store.folder]).cards] == [1] * helped


def broken(folder, *numbers):
    """A recorded lineage without the references of these versions."""
    store = import_bundle(SESSIONS / "conv2d-lineage.bundle", folder)
    for number in numbers:
        store.git.run("update-ref", "-d", f"refs/attempts/{number:04d}")
    return SessionStore.open(store.folder)


def test_a_step_above_a_missing_reference_is_told_and_not_lost(tmp_path):
    whole, found = said([SESSIONS / "conv2d-lineage.bundle"])
    assert whole == {}
    lost = broken(tmp_path, 2)
    why, fewer = said([lost.folder])
    assert why.keys() == {2, 3}
    assert "cannot be read" in why[2]
    assert why[3] == "v2, which it was made from, cannot be read"
    every = {row.number for row in rows(found)}
    assert every == {row.number for row in rows(fewer)} == {1, 2, 3, 4, 5}


def test_no_step_pays_with_one_from_which_a_missing_one_parts_it(tmp_path):
    lost = broken(tmp_path, 2)
    steps = [one for one in accounted([SessionReader(lost.folder)]) if isinstance(one, Instance)]
    whole = {one.number: one for one in recorded_steps()}
    assert [one.number for one in steps] == [1, 4, 5]
    assert whole[5].requires
    above = {whole[4].feature, whole[5].feature}
    assert all(set(one.requires) <= above for one in steps)
    assert all(0 < one.position <= 1 for one in steps)
    apart = [structs.replace(one, requires=()) for n, one in whole.items() if n not in {3, 4}]
    assert not any(one.requires for one in leaps(apart) if one.number == 5)


def recorded_steps():
    bundle = induced_from([SESSIONS / "conv2d-lineage.bundle"])
    return [one for made in bundle.cards for one in made.group]


def test_what_the_gate_could_not_judge_warns_of_nothing(tmp_path):
    store = new_store(tmp_path)
    _, walk, _ = walk_of(ScriptedBench(wrong_without="num_programs"))
    lines = [
        structs.replace(
            line,
            predecessor=structs.replace(line.predecessor, verdict=Verdict.UNPROVEN, says="busy"),
        )
        if getattr(line, "accepted", True) is False
        else line
        for line in walk.lines
    ]
    write_chain(store, lines)
    why, found = said([store.folder])
    assert any(says == "the gate could not judge it: busy" for says in why.values())
    assert not any(card.card.risk for card in found.cards)


def test_steps_beside_that_are_in_no_card_are_told_too():
    lineage, beside = (SESSIONS / f"{n}.bundle" for n in ("gemm-lineage", "rmsnorm-h200"))
    _, found = said([lineage], [beside])
    told = [one for one in found.left_out if one.session == "rmsnorm-h200"]
    assert told
    assert any("is in none of the sessions that cards are lifted from" in one.says for one in told)
    numbers = {row.number for row in rows(found) if row.session == "rmsnorm-h200"}
    assert numbers == set(range(1, max(numbers) + 1))

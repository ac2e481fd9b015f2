"""A model in a backward walk: its removals are gated as any other, and kept with the talk."""

import json

import pytest
from idea_parts import NONE, about, change, named, new_store, plain_end, removal, walked
from model_server import Answer, ModelServer
from msgspec import structs
from walk_parts import GEMM, STEPS, ScriptedBench

from workbench.agents.ledger import read_lines
from workbench.engine.suggesting import Suggesting
from workbench.engine.walks import write_chain
from workbench.errors import WorkbenchError
from workbench.gate.records import Verdict
from workbench.lineage.records import Termination, WalkLimits
from workbench.lineage.walk import Walk
from workbench.session.records import Answer as Decided
from workbench.session.records import Budget


@pytest.fixture(autouse=True)
def asked(own_home, monkeypatch):
    named(own_home, monkeypatch)


@pytest.fixture(scope="module")
def plain():
    return plain_end()


def test_a_removal_by_a_model_is_gated_both_ways_and_kept_with_the_talk(
    tmp_path, monkeypatch, plain
):
    _, line = plain
    slower = f"{line} + 0.0"
    answers = [removal("one-product", line, slower), change(slower, line), NONE]
    store = new_store(tmp_path / "walk")
    with ModelServer(answers) as server:
        ended, walk = walked(store, server, monkeypatch)
    assert ended.how is Termination.COMPLETE
    assert "the model finds nothing either" in ended.says
    last = walk.attempts[-1]
    assert (last.category, last.locus, last.by) == ("one-product", "the loop", "scripted-1")
    assert last.accepted
    assert last.same_text, "its way back is the kernel that there was"
    assert last.cost.usd > 0
    # The restorer is not shown the expert, and the remover is told what was tried.
    first, back, _ = server.requests
    assert "loop-flatten" in first.prompt
    assert f"{line}\n" not in back.prompt
    assert f"{slower}\n" in back.prompt

    write_chain(store, walk.lines)
    step = store.transition(1)
    assert (step.origin, step.plan.title) == ("model scripted-1", "one-product at the loop")
    assert step.plan.edit == ""
    assert step.decision.answer is Decided.ACCEPTED
    talk = json.dumps(store.record_of(1).exchange)
    assert "mechanism: one-product" in talk
    assert not store.record_of(2).exchange


@pytest.mark.parametrize(
    "code", ["correctness.error-above-bound", "profile.slower", "lineage.no-way-back"]
)
def test_an_idea_that_does_not_hold_is_refused_with_its_reason(tmp_path, monkeypatch, plain, code):
    _, line = plain
    slower = f"{line} + 0.0"
    replies = [removal("one-product", line, slower)]
    if code == "profile.slower":
        replies.append(change(slower, f"{line} * 1.0"))
    elif code == "lineage.no-way-back":
        replies += [Answer(text="I cannot."), Answer(text="I still cannot.")]
    store = new_store(tmp_path / "walk")
    judge = ScriptedBench()
    if code == "correctness.error-above-bound":
        judge = _WrongFor(slower)
    if code == "profile.slower":
        judge = _SlowFor("* 1.0")
    with ModelServer([*replies, NONE]) as server:
        _, walk = walked(store, server, monkeypatch, bench=judge)
    last = walk.attempts[-1]
    assert (last.by, last.accepted, last.code) == ("scripted-1", False, code)
    assert last.why


class _SlowFor(ScriptedBench):
    """Finds every kernel that has some words slower than what it is held against."""

    def __init__(self, words):
        super().__init__()
        self._words = words

    def beside(self, source, floor):
        self.slow_back = self._words in source
        return super().beside(source, floor)


class _WrongFor(ScriptedBench):
    """Refuses every kernel that has some words."""

    def __init__(self, words):
        super().__init__()
        self._words = words

    def judge(self, source):
        said = super().judge(source)
        bad = self._words in source
        code = "correctness.error-above-bound" if bad else ""
        verdict = Verdict.REJECTED if bad else said.verdict
        return structs.replace(said, verdict=verdict, code=code)


def test_what_was_answered_is_not_asked_again_after_a_kill(tmp_path, monkeypatch, plain):
    _, line = plain
    slower = f"{line} + 0.0"
    store = new_store(tmp_path / "walk")

    class Dies(ScriptedBench):
        def look(self, source, state, before, floor):
            if slower in source:
                raise WorkbenchError("the machine went away")
            return super().look(source, state, before, floor)

    with ModelServer([removal("one-product", line, slower)]) as server:
        lines = []
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        ideas = Suggesting(store.state, Budget(), about, (), pytest.fail)
        walk = Walk(Dies(), WalkLimits(), lines.append, (), ideas)
        with pytest.raises(WorkbenchError, match="went away"):
            walk.run(GEMM, "expert.py")
        ideas.close()
    assert len(walk.attempts) == STEPS
    with ModelServer([change(slower, line), NONE]) as server:
        ended, walk = walked(store, server, monkeypatch, lines=lines)
    assert len(server.requests) == 2
    assert walk.attempts[-1].category == "one-product"
    assert ended.how is Termination.COMPLETE


def test_dollars_end_the_asking_and_are_told_as_a_limit(tmp_path, monkeypatch):
    store = new_store(tmp_path / "walk")
    with ModelServer([NONE]) as server:
        ended, _ = walked(store, server, monkeypatch, usd=1e-9)
    assert ended.how is Termination.BUDGET
    assert "a model is not asked" in ended.says
    assert not server.requests
    assert not read_lines(store.state)


def test_after_enough_ideas_that_fail_a_model_is_asked_no_more(tmp_path, monkeypatch, plain):
    _, line = plain
    ideas = [removal(f"idea-{n}", line, f"{line} + {n}.5") for n in range(2)]
    store = new_store(tmp_path / "walk")
    with ModelServer(ideas) as server:
        ended, _ = walked(
            store,
            server,
            monkeypatch,
            bench=_WrongFor(".5\n"),
            limits=WalkLimits(ideas=2),
        )
    assert ended.how is Termination.REJECTION_LIMIT
    assert "2 removals by a model failed" in ended.says


def test_a_model_is_shown_an_expert_in_which_no_inverse_finds_anything(
    tmp_path, monkeypatch, plain
):
    source, line = plain
    slower = f"{line} + 0.0"
    store = new_store(tmp_path / "walk")
    answers = [removal("one-product", line, slower), change(slower, line), NONE]
    with ModelServer(answers) as server:
        ended, walk = walked(store, server, monkeypatch, source=source)
    assert ended.how is Termination.COMPLETE
    assert [one.category for one in walk.attempts] == ["one-product"]

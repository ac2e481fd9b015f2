"""A person picks the next step: a card, or a plan in their own words for a model."""

import random

import pytest
from agents_kit import BETTER, situation, transition
from engine_parts import ScriptedWorkplace, new_session, plan
from model_server import Answer, ModelServer
from msgspec import structs

from workbench.cli.main import main
from workbench.engine import events as ev
from workbench.engine.choosing import CHOICES, Choice, Chooser, choose_alone, keep, open_choice
from workbench.engine.client import SessionClient
from workbench.engine.history import History
from workbench.engine.serve import serve_session
from workbench.engine.talks import Talks
from workbench.engine.wishes import Choose
from workbench.errors import WorkbenchError
from workbench.search.proposer import propose
from workbench.search.records import Proposal
from workbench.session.records import Budget
from workbench.session.store import SessionStore

KERNEL = "softmax_kernel"
SEEDED = History(transitions=(transition(0),), main=0)


class Maker:
    """What a session's workplace gives a chooser."""

    talks = None

    def __init__(self, now) -> None:
        self._now = now

    def situation(self, _history: History, hints: tuple[str, ...] = ()):
        return structs.replace(self._now, hints=hints)


@pytest.fixture
def store(tmp_path) -> SessionStore:
    return new_session(tmp_path / "softmax-1")


def chooser(store: SessionStore, maker: Maker, proposer: str = "both"):
    told: list[ev.AnyEvent] = []
    settings = structs.replace(store.settings(), proposer=proposer)
    return Chooser(store.state, settings, maker, told.append), told


def test_a_card_that_fits_is_the_next_step_once(store, tmp_path):
    now = situation(tmp_path)
    ranked = [r.choice.skill.card.id for one in now.considered for r in one.ranked]
    able = [card for card in ranked if isinstance(propose(now.state, (card, KERNEL)), Proposal)]
    own = propose(now.state)
    assert able[-1] != own.plan.card
    made, told = chooser(store, Maker(now))
    assert made.next(SEEDED) is None
    made.choose(Choose(skill=able[-1]))
    step = made.next(SEEDED)
    assert isinstance(step, Proposal)
    assert (step.plan.card, step.plan.asked) == (able[-1], 1)
    assert step.source != now.state.source
    # Another engine after a crash makes it as well, and nobody makes it twice.
    assert chooser(store, Maker(now))[0].next(SEEDED) == step
    done = structs.replace(transition(1, parent=0), plan=step.plan)
    assert made.next(structs.replace(SEEDED, transitions=(*SEEDED.transitions, done))) is None
    assert told == []


def test_a_choice_that_is_made_while_another_is_gated_is_not_lost(store):
    keep(store.state, Choice(skill="num-warps"))
    keep(store.state, Choice(skill="block-size"))
    first = structs.replace(transition(1, parent=0), plan=structs.replace(plan(1), asked=1))
    history = structs.replace(SEEDED, transitions=(*SEEDED.transitions, first))
    assert open_choice(store.state, history)[1].skill == "block-size"


def test_what_cannot_be_made_is_told_with_the_reason_and_taken_back(store, tmp_path):
    made, told = chooser(store, Maker(situation(tmp_path)))
    made.choose(Choose(skill="row-on-chip", kernel="softmax_kernel"))
    assert made.next(SEEDED) is None
    (note,) = told
    assert note.level == "warning"
    assert note.says.startswith(
        "row-on-chip, which you chose, could not be made: the row in fp32 fits"
    )
    assert made.next(SEEDED) is None
    assert len(told) == 1


def test_a_plan_in_a_persons_words_goes_to_the_model_that_writes(store, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_MODEL", "scripted-1")
    now = situation(tmp_path)
    words = "read the row once and keep it in registers"
    with ModelServer([Answer(text=f"```python\n{BETTER}```\n")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        maker = Maker(now)
        maker.talks = Talks(store.state, Budget(), lambda _event: None)
        maker.talks.begin(SEEDED)
        maker.talks.hint(1, "no more than 64 registers")
        made, _ = chooser(store, maker)
        made.choose(Choose(skill=now.allowed[0].id, change=words))
        step = made.next(SEEDED)
        maker.talks.close()
    assert step.source == BETTER
    assert (step.plan.intent, step.plan.method) == (words, now.allowed[0].id)
    assert step.plan.asked == 1
    # No planner was asked: the plan is the person's.
    (request,) = server.requests
    assert words in request.prompt
    assert "no more than 64 registers" in request.prompt


@pytest.mark.parametrize(
    ("wish", "what"),
    [
        (Choose(skill="online-sofmax"), "no skill 'online-sofmax'"),
        (Choose(skill="online-softmax", change="one pass"), "nobody could carry out your words"),
    ],
)
def test_a_wish_that_nobody_could_carry_out_is_refused_and_not_kept(store, wish, what):
    with pytest.raises(WorkbenchError, match=what):
        choose_alone(store.folder, wish)
    assert not (store.state / CHOICES).exists()


def test_the_command_takes_a_choice_down_and_back(store, monkeypatch, capsys):
    def workbench(*words: str) -> str:
        monkeypatch.setattr("sys.argv", ["workbench", *words, "--session", str(store.folder)])
        with pytest.raises(SystemExit) as left:
            main()
        assert left.value.code in {0, None}
        return capsys.readouterr().out

    assert "online-softmax is the next step" in workbench("choose", "online-softmax")
    assert open_choice(store.state, SEEDED)[1].skill == "online-softmax"
    assert "withdrawn" in workbench("choose", "--drop")
    assert open_choice(store.state, SEEDED) is None


def test_a_running_engine_makes_the_chosen_step_before_its_own(store):
    chosen = structs.replace(plan(77), title="the chosen one", asked=1)

    class Chosen:
        def choose(self, wish: Choose) -> str:
            keep(store.state, Choice(skill=wish.skill))
            return "next"

        def next(self, history: History) -> Proposal | None:
            if open_choice(store.state, history) is None:
                return None
            return Proposal(plan=chosen, source=f"# chosen {random.Random(1).random()}\n")

    class Workplace(ScriptedWorkplace):
        chooser = Chosen()

    keep(store.state, Choice(skill="num-warps"))
    serve_session(store.folder, open_workplace=lambda *given: Workplace(*given, steps=2))
    titles = [v.title for v in SessionClient(store.folder).snapshot().versions]
    assert titles[1].startswith("the chosen one")
    assert sum(title.startswith("the chosen one") for title in titles) == 1

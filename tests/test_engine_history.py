"""What a history says of the next step: incumbent, best, costs, and what is remembered of a try."""

import pytest
from msgspec import structs
from session_kit import SPEED, step, transition
from test_engine_beam import LADDER, aside, kept, measured

from workbench.engine.held import HELD, comes_back
from workbench.engine.history import History
from workbench.engine.memory import Memory
from workbench.engine.stopping import Stopping, behind
from workbench.gate.records import Verdict
from workbench.kernels.source import normalized_sha256
from workbench.measure.baselines import Baseline, Baselines, Outcome
from workbench.measure.records import Kind, Speed, Time
from workbench.search.rungs import Ladder
from workbench.session.moves import Move
from workbench.session.records import Answer, Cost, Decision, Transition
from workbench.session.spends import Spend


def version(
    number: int,
    parent: int | None,
    us: float | None = None,
    answer: Answer = Answer.ACCEPTED,
    kind: Kind = Kind.MEASURED,
) -> Transition:
    made = transition(number, parent, answer)
    time = None if us is None else Time(kind=kind, microseconds=us)
    return structs.replace(made, gate=structs.replace(made.gate, time=time))


def history(*versions: Transition) -> History:
    made = History()
    for one in versions:
        made = made.plus(one)
    return made


LINE = history(version(0, None, 100.0), version(1, 0, 80.0), version(2, 1, 70.0))


def test_main_is_at_the_newest_kept_and_a_refused_one_leaves_it_there() -> None:
    assert LINE.main == 2
    later = LINE.plus(version(3, 2, 60.0, Answer.REJECTED))
    assert (later.main, later.incumbent.number, later.best.number) == (2, 2, 2)
    assert (later.steps, later.next_number, later.kept) == (3, 4, (0, 1, 2))


def test_a_number_that_is_in_use_is_never_given_again() -> None:
    """Though the version that has it cannot be read."""
    assert structs.replace(LINE, taken=7).next_number == 8


def test_the_best_is_by_measured_times_where_there_are_some() -> None:
    modeled = version(3, 2, 5.0, kind=Kind.MODELED)
    assert LINE.plus(modeled).best.number == 2
    alone = history(version(0, None, 9.0, kind=Kind.MODELED), modeled)
    assert alone.best.number == 3


def test_times_of_one_gpu_compare_though_the_session_has_two() -> None:
    def on(gpu: str, made: Transition) -> Transition:
        return structs.replace(made, gate=structs.replace(made.gate, gpu=gpu))

    first = [on("cuda:0", version(0, None, 100.0)), on("cuda:1", version(1, 0, 95.0))]
    line = [on("cuda:0", version(2, 0, 90.0)), on("cuda:0", version(3, 2, 90.5))]
    assert history(*first, *line).best.number == 2


def test_what_was_taken_back_and_restored_counts_again() -> None:
    at = "2026-01-01T00:00:00.000+00:00"
    undone = LINE.moved(Move(kind="undo", before=2, to=1, best=1, undone=(2,), at=at), ())
    assert (undone.main, undone.undone, undone.best.number) == (1, {2}, 1)
    back = Move(kind="branch", before=1, to=2, best=2, restored=(2,), at=at)
    again = undone.moved(back, [LINE.get(2)])
    assert (again.main, again.undone, again.best.number) == (2, frozenset(), 2)


def test_costs_beside_the_versions_count_and_only_answers_are_looks() -> None:
    cost = Cost(gpu_seconds=11.0)
    told = LINE
    for verdict in (Verdict.UNPROVEN, Verdict.REJECTED, None):
        spend = Spend(purpose="last look", version=2, verdict=verdict, cost=cost)
        told = told.spent(spend)
    assert told.cost.gpu_seconds == LINE.cost.gpu_seconds + 33.0
    assert [one.verdict for one in told.looks] == [Verdict.REJECTED]
    assert told.looked_at(2)
    assert not told.looked_at(1)


def test_the_seed_is_no_round_of_a_run() -> None:
    refused = [version(number, 0, answer=Answer.REJECTED) for number in range(1, 10)]
    assert Stopping(0).says(history(version(0, None), *refused)) == ""
    tenth = version(10, 0, answer=Answer.REJECTED)
    assert "10 rounds in a row" in Stopping(0).says(history(version(0, None), *refused, tenth))


@pytest.mark.parametrize(("kind", "told"), [(Kind.MEASURED, True), (Kind.MODELED, False)])
def test_pytorchs_time_is_a_bar_for_times_of_its_kind_alone(kind: Kind, told: bool) -> None:
    eager = Baseline(outcome=Outcome.MEASURED, time=Time(kind=Kind.MEASURED, microseconds=90.0))
    known = Baselines(
        problem="p", shape="full", gpu="g", versions={}, measured="2026-11-30", eager=eager
    )
    seed = version(0, None, 100.0, kind=kind)
    seed = structs.replace(seed, gate=structs.replace(seed.gate, baselines=known))
    assert behind(history(seed)) is told


# What is remembered of a try


class Sources:
    """Texts by number."""

    def source(self, number: int) -> str:
        return f"x = {number}\n"


def tried(made: Transition, drafts: dict[int, str] | None = None):
    return Memory(Sources()).tried(made, drafts or {})


def test_a_refused_try_by_hand_says_nothing_of_a_cards_edit() -> None:
    by_hand = structs.replace(
        transition(1, 0, Answer.REJECTED), plan=step(card="c", edit="", first=("d",))
    )
    by_edit = structs.replace(by_hand, plan=step(card="c", edit="block", first=("d",)))
    kept = structs.replace(by_hand, decision=Decision(answer=Answer.ACCEPTED, by="gate"))
    assert (tried(by_hand).card, tried(by_hand).first) == ("", ())
    assert (tried(by_edit).card, tried(by_edit).first) == ("c", ("d",))
    assert (tried(kept).card, tried(kept).accepted) == ("c", True)


def test_one_put_aside_speaks_against_no_card() -> None:
    refused = structs.replace(transition(1, 0, Answer.REJECTED), plan=step(card="c", edit="block"))
    aside = structs.replace(refused, gate=structs.replace(refused.gate, code=HELD))
    assert tried(refused).card == "c"
    assert tried(aside).card == ""


def test_a_text_that_git_does_not_hold_is_known_by_its_draft() -> None:
    """And its number may be another text's later."""
    memory, made = Memory(Sources()), transition(1, 0)
    draft = memory.tried(made, {1: "draft = 1\n"})
    assert draft.sha256 == normalized_sha256("draft = 1\n")
    assert memory.tried(made, {}).sha256 == normalized_sha256("x = 1\n") != draft.sha256
    assert draft.speed == SPEED.ratio


# Who comes back of those that were put aside


def back(*versions: Transition, ladder: Ladder = LADDER, trusted: bool = True) -> int | None:
    found = comes_back(history(*versions), ladder, trusted=trusted)
    return None if found is None else found[0].number


def modeled(ratio: float) -> Speed:
    return Speed(kind=Kind.MODELED, ratio=ratio)


def test_of_two_with_the_same_to_be_said_for_them_the_earlier_comes_back() -> None:
    assert back(kept(0, None), aside(1, 0, measured(1.05)), aside(2, 0, measured(1.05))) == 1


def test_what_pairs_left_open_comes_back_and_what_is_modeled_only_as_a_gain() -> None:
    """Pairs that are taken again may say something else, the model never does."""
    assert back(kept(0, None), aside(1, 0, measured(0.995))) == 1
    assert back(kept(0, None), aside(1, 0, measured(0.9))) is None
    model = LADDER.without_gpu()
    for ratio, number in ((0.995, None), (1.2, 1)):
        told = back(kept(0, None), aside(1, 0, modeled(ratio)), ladder=model, trusted=False)
        assert told == number


def test_a_step_of_another_kind_between_leaves_nobody_to_tell() -> None:
    seed, one = kept(0, None), aside(1, 0, measured(1.5))
    assert back(seed, one, kept(2, 0, measured(1.1))) == 1
    assert back(seed, one, kept(2, 0, modeled(1.1))) is None

"""Which limit of a run is reached, what the next step is priced at, and what is left."""

import pytest
from msgspec import structs
from session_kit import transition

from workbench.engine.books import Books
from workbench.engine.budget import PRICED, exhausted, left, price, room, too_little
from workbench.engine.history import History
from workbench.session.records import Answer, Budget, Cost


def taking(number: int, seconds: float, answer: Answer = Answer.REJECTED):
    cost = Cost(gpu_seconds=seconds, wall_seconds=2 * seconds)
    return structs.replace(transition(number, 0, answer), cost=cost)


def test_a_limit_is_reached_by_its_last_step_and_its_last_cent() -> None:
    assert exhausted(Budget(steps=3), 2, Cost()) == ""
    assert exhausted(Budget(steps=3), 3, Cost()) == "3 of 3 steps are done"
    assert exhausted(Budget(usd=0.5), 9, Cost(usd=0.49)) == ""
    assert exhausted(Budget(usd=0.5), 9, Cost(usd=0.5)) == "$0.50 of $0.50 are spent"
    assert exhausted(Budget(wall_seconds=60), 9, Cost(wall_seconds=60.0))


def test_only_the_newest_steps_price_the_next() -> None:
    """A session's kernels grow faster, and so do its steps."""
    old = [taking(number, 100.0) for number in range(1, 30)]
    new = [taking(number, 2.0) for number in range(30, 30 + PRICED)]
    assert price([*old, *new]) == Cost(gpu_seconds=2.0, wall_seconds=4.0)


def test_two_steps_price_nothing_and_two_refused_ones_not_alone() -> None:
    assert price([taking(1, 9.0), taking(2, 9.0)]) == Cost()
    kept = [taking(number, 8.0, Answer.ACCEPTED) for number in range(1, 4)]
    refused = [taking(4, 2.0), taking(5, 2.0)]
    assert price([*kept, *refused]).gpu_seconds == 2.0, "the lower quartile of all"
    dear = [*refused, taking(6, 50.0)]
    assert price([*kept, *dear]).gpu_seconds == 2.0, "the middle of the refused"


@pytest.mark.parametrize("steps", [4, 5, 9])
def test_there_is_never_less_than_no_room(steps: int) -> None:
    assert room(Budget(steps=4), steps, Cost(), Cost()) == 0
    over = Cost(gpu_seconds=50.0)
    assert room(Budget(gpu_seconds=10.0), 0, over, Cost(gpu_seconds=1.0)) == 0


def test_what_is_kept_back_is_no_room_for_steps() -> None:
    budget, step, kept = Budget(gpu_seconds=10.0), Cost(gpu_seconds=2.0), Cost(gpu_seconds=5.0)
    assert room(budget, 0, Cost(), step, kept) == 2
    assert too_little(budget, Cost(gpu_seconds=4.0), step, kept).startswith("6.0 of 10 GPU-seconds")
    assert too_little(budget, Cost(gpu_seconds=4.0), step) == ""


def test_what_is_left_of_every_limit_is_told() -> None:
    budget = Budget(steps=4, usd=1.0, gpu_seconds=10.0, wall_seconds=60.0)
    spent = Cost(usd=0.25, gpu_seconds=12.0, wall_seconds=20.0)
    assert left(budget, 3, spent) == "1 step, $0.75, 0 GPU-s, 40 s"
    assert left(Budget(), 3, spent) == "no limit"


@pytest.mark.parametrize(
    ("budget", "last"),
    [
        (Budget(gpu_seconds=25.0), True),
        (Budget(gpu_seconds=60.0), False),
        (Budget(wall_seconds=1.0, steps=1), False),
    ],
)
def test_who_waits_has_the_last_turns_that_gpu_seconds_leave(budget: Budget, last: bool) -> None:
    """Other limits end a run, and hurry nobody."""
    history = History()
    for made in (transition(0, None), *(taking(number, 2.0) for number in range(1, 4))):
        history = history.plus(made)
    books = Books(None, None, history, budget, lambda _event: None)
    assert books.cost.gpu_seconds == 12.5 + 3 * 2.0
    assert books.last_turns(3) is last

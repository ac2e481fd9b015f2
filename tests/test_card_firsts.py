"""Trials that come first in `bench cards`: each can be made by its card from its kernel."""

import pytest
from msgspec import structs

from workbench.bench.card_firsts import First, firsts, firsts_of, pinned
from workbench.bench.card_states import states_of
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.source import read_source
from workbench.problems.load import load_problem
from workbench.skills.library import load_library

LIBRARY = load_library()


@pytest.mark.parametrize("first", firsts(), ids=lambda first: f"{first.card} {first.state}")
def test_a_first_trial_makes_a_kernel_of_its_own(first):
    states = {state.name: state.source for state in states_of(load_problem(first.problem))}
    source = states[first.state]
    edit = EDITS[LIBRARY.skill(first.card).card.carrier.edit]
    made = set()
    for kernel in read_source(source).launched:
        if not edit.refusal(source, kernel):
            for anchor in edit.anchors(source, kernel):
                parameters = {**anchor.parameters, **first.parameters}
                made.add(edit.apply(source, kernel, parameters).source)
    assert made - {source}


def test_a_pinned_card_offers_only_the_values_of_its_trial():
    first = next(one for one in firsts() if one.card == "shrink-tile")
    skill = LIBRARY.skill("shrink-tile")
    grid = pinned(skill, first).card.carrier.grid
    assert {name: values for name, values in grid.items() if name in first.parameters} == {
        name: (value,) for name, value in first.parameters.items()
    }
    open_ones = structs.replace(first, parameters={"num_warps": 8})
    assert pinned(skill, open_ones).card.carrier.grid["tile"] == skill.card.carrier.grid["tile"]


def test_firsts_keep_their_order_among_some_cards():
    wanted = firsts_of({"rows-per-program", "shrink-tile"})
    assert [isinstance(one, First) for one in wanted].count(False) == 0
    assert [one.card for one in wanted] == [
        one.card for one in firsts() if one.card in {"rows-per-program", "shrink-tile"}
    ]

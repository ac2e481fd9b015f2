"""Cards that pay only together: carried out in one step, told as one, and neither tried alone."""

from pathlib import Path

import pytest
from msgspec import structs

from workbench.kernels.source import normalized_sha256
from workbench.kernels.target import target
from workbench.lineage.removals import removable
from workbench.problems.load import load_problem
from workbench.search.line import line_of
from workbench.search.proposer import propose
from workbench.search.records import NoProposal, ProposerState, Tried
from workbench.search.together import prepares
from workbench.skills.card import parse_card
from workbench.skills.library import Library

EXPERT = load_problem("conv2d").expert.read_text()


def without(source, *categories):
    """The text of a kernel with these mechanisms taken out, in this order."""
    for category in categories:
        source = next(f.source for i, _, f in removable(source) if i.category == category)
    return source


PLAIN = without(EXPERT, "pipelined-loads", "fused-loops")


def card(name, edit, effect, more, grid=""):
    return parse_card(
        f"""
id = "{name}"
title = "{name}"
intent = "Faster."
anchor = "where the edit fits"
order = 50
{more}
effect = [{{ metric = "time", direction = "{effect}", low = 1.2, high = 1.2 }}]
[scope]
families = ["convolution"]
[carrier]
edit = "{edit}"
{grid}
""",
        Path(f"{name}.toml"),
    )


FUSED = card("fused", "fuse-loops", "up", 'provides = ["fused-loops"]')
PIPED = card("piped", "num-stages", "down", 'requires = ["fused-loops"]', "grid.value = [3]")


def state(*skills, pinned=None, history=(), source=PLAIN, number=0, family="convolution"):
    ids = {skill.card.id for skill in skills}
    first = Tried(number=0, parent=None, sha256=normalized_sha256(PLAIN), accepted=True)
    return ProposerState(
        source=source,
        number=number,
        library=Library(
            {s.card.id: s for s in skills}, pinned=frozenset(ids if pinned is None else pinned)
        ),
        target=target("sm90"),
        family=family,
        history=(first, *history),
    )


def test_a_card_is_carried_out_with_what_it_requires_and_leads_to_the_expert():
    made = propose(state(FUSED, PIPED))
    assert (made.plan.card, made.plan.first) == ("piped", ("fused",))
    assert normalized_sha256(made.source) == normalized_sha256(EXPERT)
    assert "with fused, which it requires" in made.plan.reason
    assert any("fused on conv_kernel: pays only with piped" in line for line in made.plan.trail)


def test_what_was_accepted_in_one_step_is_there_for_the_next():
    step = Tried(
        number=1,
        parent=0,
        sha256=normalized_sha256(EXPERT),
        accepted=True,
        card="piped",
        first=("fused",),
    )
    after = state(FUSED, PIPED, history=(step,), source=EXPERT, number=1)
    line = line_of(after.history, 1)
    assert line.cards == ("fused", "piped")
    assert line.features(after.library) == {"fused-loops"}
    assert isinstance(propose(after), NoProposal)


def test_what_nobody_here_provides_keeps_a_card_out():
    for here in (state(PIPED), state(FUSED, PIPED, family="gemm")):
        nothing = propose(here)
        assert isinstance(nothing, NoProposal)
        assert not any("chosen" in line for line in nothing.trail)


def test_what_a_person_asked_for_alone_is_tried_alone():
    here = state(FUSED, PIPED, pinned={"fused"})
    line = line_of(here.history, 0)
    assert prepares(FUSED, here, line) == ""
    assert prepares(FUSED, state(FUSED, PIPED), line) == "piped"
    assert propose(here).plan.card == "fused"


@pytest.mark.parametrize("direction", ["up", "same"])
def test_a_card_that_gains_by_itself_never_waits_for_another(direction):
    here = state(FUSED, PIPED)
    line = line_of(here.history, 0)
    (effect,) = FUSED.card.effect
    gains = structs.replace(effect, direction="down")
    quick = structs.replace(FUSED, card=structs.replace(FUSED.card, effect=(gains,)))
    slow = structs.replace(effect, direction=direction)
    waits = structs.replace(FUSED, card=structs.replace(FUSED.card, effect=(slow,)))
    assert prepares(quick, here, line) == ""
    assert prepares(waits, here, line) == "piped"


# Who may be carried out with another


def disabled(here, *names):
    return structs.replace(here, library=structs.replace(here.library, disabled=frozenset(names)))


def test_a_card_that_a_person_disabled_is_not_carried_out_with_another():
    assert isinstance(propose(disabled(state(FUSED, PIPED), "fused")), NoProposal)


def test_a_card_waits_for_none_that_a_person_disabled():
    here = disabled(state(FUSED, PIPED), "piped")
    assert prepares(FUSED, here, line_of(here.history, 0)) == ""


def test_a_card_of_another_family_is_not_carried_out_with_another():
    scope = structs.replace(FUSED.card.scope, families=("gemm",))
    elsewhere = structs.replace(FUSED, card=structs.replace(FUSED.card, scope=scope))
    assert isinstance(propose(state(elsewhere, PIPED)), NoProposal)


def test_half_of_what_a_card_requires_is_not_enough():
    more = structs.replace(PIPED.card, requires=("fused-loops", "split-rows"))
    assert isinstance(propose(state(FUSED, structs.replace(PIPED, card=more))), NoProposal)


def test_of_two_that_provide_the_same_the_earlier_technique_is_carried_out():
    early = structs.replace(FUSED, card=structs.replace(FUSED.card, id="z-early", order=10))
    made = propose(state(FUSED, early, PIPED))
    assert made.plan.first == ("z-early",)

"""Steps that a model made become cards: what they share is a sketch, and a model carries it out."""

from pathlib import Path

import pytest
from idea_parts import NONE, change, named, new_store, plain_end, removal, walked
from model_server import Answer, ModelServer
from walk_parts import ScriptedBench
from walk_parts import walked as walk_of

from workbench.engine.admitting import held_out
from workbench.engine.chances import Finder
from workbench.engine.grounds import Ground
from workbench.engine.roundtrips import roundtrips
from workbench.engine.trials import Where
from workbench.engine.walks import write_chain
from workbench.lineage.induce import card_text, induce
from workbench.lineage.instances import by_mechanism, instances
from workbench.lineage.sketch import added, carried_out, generalized, needed
from workbench.session.reader import SessionReader
from workbench.skills.card import parse_card

HEAD = """
import torch
import triton
import triton.language as tl
from torch import nn


"""


def kernel(body, name="scale_kernel", x="x", count="n", block="BLOCK"):
    """A pointwise kernel in names of its own."""
    return f"""{HEAD}@triton.jit
def {name}({x}_ptr, out_ptr, {count}, {block}: tl.constexpr):
    places = tl.program_id(0) * {block} + tl.arange(0, {block})
{body}


class ModelNew(nn.Module):
    def forward(self, {x}):
        out = torch.empty_like({x})
        {count} = {x}.numel()
        {name}[(triton.cdiv({count}, 64),)]({x}, out, {count}, {block}=64)
        return out
"""


def masked(x, count):
    return f"""    inside = places < {count}
    {x} = tl.load({x}_ptr + places, mask=inside)
    tl.store(out_ptr + places, {x} * 2.0, mask=inside)"""


def cached(x, count, factor="2.0"):
    return f"""    inside = places < {count}
    {x} = tl.load({x}_ptr + places, mask=inside, eviction_policy="evict_first")
    tl.store(out_ptr + places, {x} * {factor}, mask=inside)"""


ONE = (kernel(masked("x", "n")), kernel(cached("x", "n")))
NAMES = {"name": "gelu_kernel", "x": "values", "count": "numel", "block": "B"}
OTHER = tuple(kernel(part("values", "numel"), **NAMES) for part in (masked, cached))


def test_names_are_told_by_their_role_and_operations_by_name():
    made = generalized([ONE])
    plus = [line for line in made.text.splitlines() if line.startswith("+")]
    assert plus == [
        "+ x3 = tl.load(ptr1 + x2, mask=x1, eviction_policy='evict_first')",
    ]
    assert "ptr1, ..: a pointer parameter" in made.text
    assert (set(added(made.text)), made.of) == ({"eviction_policy"}, 1)
    assert {"load", "mask"} <= set(needed(made.text))


def test_the_same_change_in_other_names_is_the_same_sketch():
    assert generalized([ONE]).text == generalized([OTHER]).text
    both = generalized([ONE, OTHER])
    assert (both.text, both.of) == (generalized([ONE]).text, 2)


def test_what_differs_between_instances_is_left_open():
    slower = (ONE[0], kernel(cached("x", "n", factor="4.0")))
    faster = (ONE[0], kernel(cached("x", "n", factor="8.0")))
    both = generalized([slower, faster])
    assert "N1" in both.text
    assert "a number" in both.text
    assert "8.0" not in both.text
    lone = (ONE[0], ONE[1].replace("mask=inside, evict", "mask=places < n, evict"))
    mixed = generalized([ONE, lone])
    assert mixed.of == 2
    assert "..." in mixed.text


def test_an_instance_that_shares_nothing_is_left_out_and_counted():
    other = (ONE[0], ONE[0].replace("cdiv(n, 64)", "cdiv(n, 32)").replace("BLOCK=64", "BLOCK=32"))
    made = generalized([ONE, other])
    assert (made.text, made.of) == (generalized([ONE]).text, 1)


def test_a_kernel_has_a_mechanism_when_it_got_what_the_sketch_puts_in():
    text = generalized([ONE]).text
    assert carried_out(text, *OTHER)
    assert not carried_out(text, *reversed(OTHER))
    assert not carried_out(text, OTHER[0], OTHER[0])


def test_what_only_takes_lines_away_is_carried_out_where_they_are_gone():
    longer = ONE[0].replace("    inside =", "    places = places + 0\n    inside =")
    text = generalized([(longer, ONE[0])]).text
    assert not added(text)
    assert carried_out(text, longer, ONE[0])
    assert not carried_out(text, longer, longer)


def test_a_change_of_nothing_has_no_sketch():
    with pytest.raises(ValueError, match="nothing was changed"):
        generalized([(ONE[0], f"# another comment\n{ONE[0]}")])


@pytest.fixture
def lineage(own_home, monkeypatch, tmp_path):
    """A lineage whose first step a model took out and put back, with the line that it is about."""
    named(own_home, monkeypatch)
    _, line = plain_end()
    slower = f"{line} + 0.0"
    store = new_store(tmp_path / "model-lineage")
    with ModelServer([removal("one-product", line, slower), change(slower, line), NONE]) as server:
        _, walk = walked(store, server, monkeypatch)
    write_chain(store, walk.lines)
    return store, line, slower


def lifted(store):
    groups = by_mechanism(list(instances([SessionReader(store.folder)])))
    card = induce("", groups["sketch one-product"]).card
    return parse_card(card_text(card), Path("learned.toml"))


def test_a_step_by_a_model_makes_a_draft_whose_carrier_is_a_sketch(lineage):
    store, _, _ = lineage
    skill = lifted(store)
    card = skill.card
    assert (card.id, card.provides) == ("learned-one-product-sketch", ("one-product",))
    assert (card.carrier.edit, skill.edit, skill.admitted) == ("", None, False)
    assert [line[0] for line in card.carrier.sketch.splitlines() if line[0] in "+-"] == ["-", "+"]
    assert "`dot`" in card.anchor
    assert "the loop of gemm" in card.anchor
    (row,) = card.evidence
    assert (row.session, row.verdict) == ("model-lineage", "accepted")
    assert row.commit == SessionReader(store.folder).overview().versions[1].commit


def test_what_a_walk_tried_in_vain_warns_and_speaks_neither_for_nor_against(tmp_path):
    stores = []
    for name, wrong in (("good-lineage", ""), ("bad-lineage", "num_programs")):
        store = new_store(tmp_path / name)
        write_chain(store, walk_of(ScriptedBench(wrong_without=wrong))[1].lines)
        stores.append(SessionReader(store.folder))
    groups = by_mechanism(list(instances(stores)))
    card = induce("persistent", groups["persistent"]).card
    assert [row.session for row in card.evidence] == ["good-lineage"]
    (risk,) = card.risk
    assert risk.says.startswith("taken out of gemm_kernel again: ")
    assert risk.says.endswith("[correctness.error-above-bound]")
    assert risk.seen.startswith("bad-lineage@")


def test_a_way_back_that_failed_speaks_against_its_mechanism(tmp_path):
    store = new_store(tmp_path / "slow-lineage")
    _, walk, _ = walk_of(ScriptedBench(slow_back=True))
    slow = [one for one in walk.attempts if one.roundtrip is not None]
    write_chain(store, walk.lines)
    found = list(instances([SessionReader(store.folder)]))
    against = [one for one in found if not one.helped and not one.removal]
    assert {one.category for one in against} == {one.category for one in slow}
    assert against
    assert all(one.code == "profile.slower" for one in against)


@pytest.mark.parametrize("reply", ["the kernel", "nonsense"])
def test_a_roundtrip_of_a_sketch_asks_a_model_with_predecessor_and_card_alone(
    lineage, monkeypatch, reply
):
    store, line, slower = lineage
    skill = lifted(store)
    answers = [change(slower, line)] if reply == "the kernel" else [Answer(text="No.")] * 2
    with ModelServer(answers) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        (trial,) = roundtrips(skill, store.folder, print)
    prompt = server.requests[0].prompt
    assert all(one in prompt for one in skill.card.carrier.sketch.splitlines())
    assert slower in prompt
    assert f"{line}\n" not in prompt
    one = trial.admission
    if reply == "the kernel":
        assert (one.held_out, one.accepted, one.effect_observed) == (False, True, True), trial.says
        assert trial.says == "the very kernel again"
    else:
        assert not trial.applied
        assert trial.says.startswith("by a model: ")


def test_a_sketch_has_a_place_in_kernels_with_the_operations_that_it_begins_with(lineage):
    store, _, _ = lineage
    names = {one.ground.name for one in Finder().chances(lifted(store)).found}
    assert "linear_relu_div" in names
    assert not any(name.startswith(("gemm", "gelu")) for name in names)


PROBLEM = """
import torch
from torch import nn

N = 262144


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
"""


def test_a_sketch_is_tried_by_a_model_where_it_was_not_learned(lineage, monkeypatch, tmp_path):
    store, _, _ = lineage
    skill = lifted(store)
    problem = tmp_path / "scale.py"
    problem.write_text(PROBLEM)
    small = ONE[0].replace("64", "32")
    larger = small.replace("32", "1024")
    with ModelServer([Answer(text=f"```python\n{larger}\n```")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        trial = held_out(
            skill,
            Ground(problem=str(problem), form="seed", source=small),
            Where(device="cpu", target="sm90", sessions=tmp_path / "sessions"),
            lambda _event: None,
        )
    (request,) = server.requests
    assert all(one in request.prompt for one in skill.card.carrier.sketch.splitlines())
    one = trial.admission
    # It is faster by a model's step, and not by what the card says.
    assert (one.held_out, one.accepted, one.effect_observed) == (True, True, False), trial.says
    assert "what the sketch puts in" in trial.says
    session = SessionReader(tmp_path / "sessions" / one.session)
    assert session.transition(1).plan.card == skill.card.id
    assert session.source(1) == larger

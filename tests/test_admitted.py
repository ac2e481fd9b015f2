"""A card from a lineage's step to `admitted`, on the CPU path: a real gate, modeled times."""

from pathlib import Path

import pytest
from msgspec import structs

from workbench.engine.admitting import Ask, admissions, held_out
from workbench.engine.grounds import Ground
from workbench.engine.trials import Where
from workbench.errors import WorkbenchError
from workbench.gate.records import Verdict
from workbench.kernels.facts import read_facts
from workbench.lineage.induce import card_text, induce
from workbench.lineage.instances import Instance
from workbench.measure.records import Kind, Speed
from workbench.session.reader import SessionReader
from workbench.skills.card import Skill, parse_card, read_card
from workbench.skills.records import Admission
from workbench.skills.writing import add_evidence

PROBLEM = """
import torch
from torch import nn

N = 262144


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
"""

KERNEL = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0) * 2, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        relu_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n, BLOCK=32)
        return out
"""


def learned() -> Instance:
    """A lineage's step that made blocks larger, as `lineage.instances` reads it."""
    facts = read_facts("", "")
    return Instance(
        category="tile-size",
        locus="BLOCK",
        edit="block-size",
        kernel="other_kernel",
        parameters={"block": "BLOCK", "value": 1024},
        helped=True,
        says="12.0 us",
        ratio=2.0,
        speed=Speed(kind=Kind.MODELED, ratio=2.0),
        before=facts,
        after=facts,
        session="other-lineage",
        commit="c" * 40,
        device="sm90",
        problem="other",
        family="elementwise",
        target="sm90",
        accepted=True,
        position=1.0,
    )


def test_an_induced_card_passes_where_it_was_not_learned_and_a_gpu_admits_it(tmp_path):
    problem = tmp_path / "relu.py"
    problem.write_text(PROBLEM)
    file = tmp_path / "card.toml"
    file.write_text(card_text(induce("block-size", [learned()]).card))
    skill = read_card(file)
    assert skill.standing == "tried"
    trial = held_out(
        skill,
        Ground(problem=str(problem), form="seed", source=KERNEL),
        Where(device="cpu", target="sm90", sessions=tmp_path / "sessions"),
        lambda _event: None,
    )
    one = trial.admission
    assert (one.held_out, one.accepted, one.effect_observed) == (True, True, True), trial.says
    assert one.kind == "modeled"
    add_evidence(file, [], [one])
    again = read_card(file)
    assert again.standing == "tried", "modeled times prove no gain"
    assert again.card.admission == (one,)
    add_evidence(file, [], [structs.replace(one, kind="measured", commit="d" * 40)])
    assert read_card(file).standing == "admitted"
    session = SessionReader(Path(tmp_path / "sessions") / one.session)
    assert "BLOCK=1024" in session.source(1)


def test_a_step_that_could_not_be_judged_is_no_trial(tmp_path):
    """A busy machine, or a model that cannot tell, says nothing against a card."""
    problem = tmp_path / "relu.py"
    problem.write_text(PROBLEM)
    problem.with_suffix(".toml").write_text('family = "normalization"\n')
    step = structs.replace(learned(), parameters={"block": "BLOCK", "value": 512})
    skill = parse_card(card_text(induce("block-size", [step]).card), tmp_path / "card.toml")
    trial = held_out(
        skill,
        Ground(problem=str(problem), form="seed", source=KERNEL.replace("=32)", "=256)")),
        Where(device="cpu", target="sm90", sessions=tmp_path / "sessions"),
        lambda _event: None,
    )
    assert not trial.applied
    session = SessionReader(tmp_path / "sessions" / trial.admission.session)
    assert session.transition(1).gate.verdict is Verdict.UNPROVEN, trial.says


def tuned(name: str, edit: str, grid: str, more: str) -> Skill:
    text = f"""
id = "{name}"
title = "{name}"
intent = "Faster."
{more}
[carrier]
edit = "{edit}"
grid = {grid}
"""
    return parse_card(text, Path(f"{name}.toml"))


def test_a_card_that_pays_only_with_another_is_tried_as_a_part_of_its_step(tmp_path):
    problem = tmp_path / "relu.py"
    problem.write_text(PROBLEM)
    first = tuned(
        "warps",
        "num-warps",
        "{ value = [2] }",
        "effect = [{ metric = 'time', direction = 'up' }]\nprovides = ['warps']",
    )
    then = tuned("blocks", "block-size", "{ value = [1024] }", "requires = ['warps']")
    trial = held_out(
        first,
        Ground(problem=str(problem), form="seed", source=KERNEL),
        Where(device="cpu", target="sm90", sessions=tmp_path / "sessions", providers=(first, then)),
        lambda _event: None,
        together="blocks",
    )
    one = trial.admission
    assert (one.held_out, one.accepted, one.effect_observed) == (True, True, True), trial.says
    assert one.together == "blocks"
    assert trial.says.startswith("as a part of blocks: ")
    session = SessionReader(Path(tmp_path / "sessions") / one.session)
    assert session.transition(1).plan.first == ("warps",)

    def standing(admission: Admission) -> str:
        card = structs.replace(first.card, admission=(admission,))
        return structs.replace(first, card=card).standing

    assert standing(one) == "draft", "a gain that was modeled admits neither of the two"
    assert standing(structs.replace(one, kind="measured")) == "admitted"


def test_one_trial_answers_for_a_named_card_and_for_what_its_step_needed(tmp_path):
    claim = "effect = [{ metric = 'time', direction = 'up' }]\n"
    first = tuned("warps", "num-warps", "{ value = [2] }", f"{claim}provides = ['warps']")
    other = tuned("stages", "num-stages", "{ value = [2] }", f"{claim}provides = ['stages']")
    then = tuned("blocks", "block-size", "{ value = [1024] }", "requires = ['warps']")
    cards = (first, other, then)
    ask = Ask(
        skills=cards,
        problems=("blocks@gelu",),
        lineages=(),
        jobs=1,
        seconds=None,
        where=Where(device="cpu", target="sm90", sessions=tmp_path / "sessions", providers=cards),
    )
    found = list(admissions(ask, lambda _event: None))
    assert [skill.card.id for skill, _trial in found] == ["blocks", "warps"]
    own, prepared = (trial.admission for _skill, trial in found)
    assert (own.session, own.together) == (prepared.session, "")
    assert prepared.together == "blocks"
    assert len(list((tmp_path / "sessions").iterdir())) == 1
    late = structs.replace(ask, seconds=0.0)
    (untried,) = admissions(late, lambda _event: None)
    assert untried.reasons == ("gelu: the seconds were over before its trial began",)
    wrong = structs.replace(ask, problems=("block@gelu",))
    with pytest.raises(WorkbenchError, match="block is none of the cards to try"):
        list(admissions(wrong, lambda _event: None))

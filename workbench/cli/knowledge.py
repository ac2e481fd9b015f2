"""`facts` and `skills`: what is known of a kernel, and which cards would apply to it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.kernels.records import Fact
from workbench.skills.records import Check, Truth

if TYPE_CHECKING:
    from workbench.engine.knowing import Known
    from workbench.skills.card import Skill

Kernel = Annotated[Path, typer.Argument(help="A file that defines ModelNew.")]
Problem = Annotated[
    str, typer.Option(help="A shipped problem's name, or a KernelBench-form Python file.")
]

skills = typer.Typer(
    name="skills", help="The cards: what the workbench knows how to do.", no_args_is_help=True
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: workbench facts kernel.py --problem softmax")(facts)
    skills.command("list", epilog="Example: workbench skills list")(list_cards)
    skills.command("show", epilog="Example: workbench skills show num-warps")(show_card)
    skills.command("check", epilog="Example: workbench skills check kernel.py --problem softmax")(
        check_cards
    )
    app.add_typer(skills)


def facts(
    kernel: Kernel,
    problem: Problem,
    target: options.Target = "",
    json: options.Json = False,
) -> None:
    """Print every fact about a candidate's kernels; what is unknown says so."""
    for name, found in _known(kernel, problem, target).facts.items():
        for fact in found.values():
            if json:
                emit.json({"kernel": name, **_fields(fact)})
            else:
                emit.text(_fact_line(name, fact))


def _fields(fact: Fact) -> dict[str, object]:
    return {
        "name": fact.name,
        "value": fact.value,
        "unit": fact.unit,
        "source": fact.source,
        "says": fact.says,
        "evidence": fact.evidence,
    }


def _fact_line(kernel: str, fact: Fact) -> str:
    value = "unknown" if fact.value is None else str(fact.value)
    unit = f" {fact.unit}" if fact.unit and fact.value is not None else ""
    where = f"  [{fact.evidence}]" if fact.evidence else ""
    return f"{kernel}  {fact.name:<30} {value + unit:<24} {fact.says}{where}"


def _known(kernel: Path, problem: str, target: str) -> "Known":
    from workbench.engine.devices import choose_place
    from workbench.engine.knowing import know

    return know(kernel, problem, choose_place("cpu", target).target)


def list_cards(json: options.Json = False) -> None:
    """List the cards, in the order in which they are tried."""
    from workbench.skills.library import load_library

    found = load_library().skills.values()
    if json:
        for skill in found:
            emit.json(skill.card)
        return
    rows = [
        (s.card.id, s.card.carrier.edit or "sketch", _standing(s), s.origin, s.card.title)
        for s in found
    ]
    emit.text(emit.table(("id", "edit", "standing", "from", "title"), rows))


def _standing(skill: "Skill") -> str:
    return "admitted" if skill.admitted else "draft"


def show_card(
    card: Annotated[str, typer.Argument(help="Id of a card.")], json: options.Json = False
) -> None:
    """Show one card."""
    from workbench.skills.library import load_library

    skill = load_library().skill(card)
    if json:
        emit.json(skill.card)
    else:
        emit.text("\n".join(_card_lines(skill)))


def _card_lines(skill: "Skill") -> Iterator[str]:
    card = skill.card
    yield f"{card.id}: {card.title}  ({_standing(skill)}, {skill.origin}, {skill.path})"
    yield f"  intent     {card.intent}"
    yield f"  scope      {', '.join(card.scope.families)} on {', '.join(card.scope.platforms)}"
    if card.carrier.edit:
        grid = ", ".join(f"{k} in {list(v)}" for k, v in card.carrier.grid.items())
        yield f"  edit       {card.carrier.edit} {grid}"
    for one in card.precondition:
        yield f"  needs      {one.says}  [{one.when}]"
    for effect in card.effect:
        yield f"  effect     {effect.metric} {effect.direction}"
    for risk in card.risk:
        yield f"  risk       {risk.says}  [{risk.when or 'always'}] {risk.seen}".rstrip()


def check_cards(
    kernel: Kernel,
    problem: Problem,
    target: options.Target = "",
    json: options.Json = False,
) -> None:
    """Check every card's conditions on a candidate, each with the values it was judged by."""
    known = _known(kernel, problem, target)
    for name in known.facts:
        for checked in known.checked(name):
            if json:
                emit.json({"kernel": name, "card": checked.card, "checks": checked.checks})
                continue
            emit.text(f"{checked.card} on {name}: {checked.says}")
            for check in checked.checks:
                emit.text(_check_line(check))


def _check_line(check: Check) -> str:
    mark = {Truth.YES: "yes", Truth.NO: "NO ", Truth.UNKNOWN: "?  "}[check.truth]
    return f"  {mark} {check.says}  [{check.because}]"

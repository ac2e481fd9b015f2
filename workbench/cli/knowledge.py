"""`facts`: what is known of a kernel, and every fact there is."""

from pathlib import Path
from typing import Annotated

import typer

from workbench.cli import (
    assessing,
    emit,
    options,
    skills_admit,
    skills_cards,
    skills_check,
    skills_evidence,
    skills_induce,
)
from workbench.errors import WorkbenchError
from workbench.kernels.records import Fact

skills = typer.Typer(
    name="skills", help="The cards: what the workbench knows how to do.", no_args_is_help=True
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: workbench facts kernel.py --problem softmax")(facts)
    for module in (skills_cards, skills_check, skills_evidence, skills_induce, skills_admit):
        module.register(skills)
    app.add_typer(skills)


def facts(
    kernel: Annotated[
        Path | None, typer.Argument(metavar="KERNEL", help="A file that defines ModelNew.")
    ] = None,
    problem: Annotated[
        str, typer.Option(help="A shipped problem's name, or a KernelBench-form Python file.")
    ] = "",
    target: options.Target = "",
    profile: assessing.Profile = None,
    catalogue: Annotated[
        bool, typer.Option("--catalogue", help="List every fact there is, without a kernel.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Print every fact about a candidate's kernels; what is unknown says so."""
    if catalogue:
        _catalogue(json=json)
        return
    if kernel is None or not problem:
        raise WorkbenchError(
            "facts are about a kernel and its problem",
            where="workbench facts",
            todo="workbench facts kernel.py --problem softmax, or workbench facts --catalogue",
        )
    for name, found in assessing.assessed(kernel, problem, target, profile).facts.items():
        for fact in found.values():
            if json:
                emit.json({"kernel": name, **_fields(fact)})
            else:
                emit.text(_fact_line(name, fact))


def _catalogue(*, json: bool) -> None:
    from workbench.kernels.facts_catalogue import CATALOGUE

    if json:
        for spec in CATALOGUE.values():
            emit.json(spec)
        return
    rows = [(s.name, s.type, s.unit or "-", s.source, s.says) for s in CATALOGUE.values()]
    emit.text(emit.table(("fact", "type", "unit", "from", "meaning"), rows))


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

"""`skills check` and `skills policy`: which cards apply to a kernel, and how the choice is made."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import assessing, emit, options
from workbench.skills.records import Check, Truth

if TYPE_CHECKING:
    from workbench.engine.assessment import Checked
    from workbench.search.retrieval import Way

_MARK = {Truth.YES: "yes", Truth.NO: "NO ", Truth.UNKNOWN: "?  "}
_RISK = {Truth.YES: "YES", Truth.NO: "no", Truth.UNKNOWN: "?"}


def register(skills: typer.Typer) -> None:
    """Add the commands."""
    skills.command(epilog="Example: workbench skills check kernel.py --problem softmax")(check)
    skills.command(epilog="Example: workbench skills policy")(policy)
    skills.command(
        epilog="Example: workbench skills path seed.py --problem softmax --of softmax-1"
    )(path)


def check(
    kernel: Annotated[Path, typer.Argument(metavar="KERNEL", help="A file that defines ModelNew.")],
    problem: Annotated[
        str, typer.Option(help="A shipped problem's name, or a KernelBench-form Python file.")
    ],
    target: options.Target = "",
    profile: assessing.Profile = None,
    json: options.Json = False,
) -> None:
    """Check every card's conditions on a candidate, each with the values it was judged by."""
    from workbench.skills.policy import told

    found = assessing.assessed(kernel, problem, target, profile)
    for name in found.facts:
        record = found.policy(name)
        if json:
            emit.json({"kernel": name, "policy": record})
        else:
            emit.text(f"policy on {name}")
            for line in told(record):
                emit.text(f"  {line}")
        for checked in found.checked(name):
            if json:
                emit.json({"kernel": name, "card": checked.card, **_fields(checked)})
            else:
                emit.text("\n".join(_lines(name, checked)))


def _fields(checked: "Checked") -> dict[str, object]:
    return {
        "says": checked.says,
        "standing": checked.standing,
        "policy": checked.policy,
        "checks": checked.checks,
        "risks": checked.risks,
        "places": checked.places,
    }


def _lines(kernel: str, checked: "Checked") -> Iterator[str]:
    yield f"{checked.card} on {kernel}: {checked.says}  ({checked.standing})"
    for place in checked.places:
        yield f"  at  {place.says}, {_place(place.lines)}"
    for one in checked.checks:
        yield check_line(one)
    for risk in checked.risks:
        if risk.truth is not Truth.NO:
            yield f"  risk {_RISK[risk.truth]} {risk.says}  [{_because(risk)}]"
    yield f"  policy {checked.policy}"


def _place(lines: tuple[int, ...]) -> str:
    if not lines:
        return "in the whole kernel"
    if len(lines) == 1:
        return f"line {lines[0]}"
    return f"lines {', '.join(map(str, lines))}"


def check_line(one: Check) -> str:
    """`  yes words  [expression: values]`."""
    return f"  {_MARK[one.truth]} {one.says}  [{_because(one)}]"


def _because(one: Check) -> str:
    """The values, behind the expression unless they repeat it."""
    return one.because if one.because.startswith(one.when) else f"{one.when}: {one.because}"


def policy(json: options.Json = False) -> None:
    """Show the decision policy: bottlenecks, cases, methods, and the source of each threshold."""
    from workbench.skills.policy_table import PATH, shipped_policy

    file = shipped_policy().file
    if json:
        emit.json(file)
        return
    emit.text(f"the policy of {PATH}")
    for title, rules in (
        ("structures", file.structure),
        ("predicates", file.predicate),
        ("bottlenecks, in order", file.bottleneck),
    ):
        emit.text(f"\n{title}")
        for rule in rules:
            emit.text(f"  {rule.id}: {rule.says}\n    when {rule.when}  [{rule.source}]")
    emit.text("\ncases, in order")
    for case in file.case:
        emit.text(f"  {case.bottleneck} > {case.id} ({case.size}): {case.says}  [{case.source}]")
        emit.text(f"    when {case.when}\n    allows {', '.join(case.allow)}")
        if case.forbid:
            emit.text(f"    forbids {', '.join(case.forbid)}")
    emit.text("\nmethods")
    for method in file.method:
        emit.text(f"  {method.id}: {method.says}  [{', '.join(method.edits) or 'no edit'}]")
    default = file.default
    emit.text("\nwhere nothing is known")
    for says in (
        default.headroom_says,
        default.bottleneck_says,
        default.case_says,
        default.gain_says,
    ):
        emit.text(f"  {says}")


def path(
    kernel: Annotated[Path, typer.Argument(metavar="KERNEL", help="A file that defines ModelNew.")],
    problem: Annotated[
        str, typer.Option(help="A shipped problem's name, or a KernelBench-form Python file.")
    ],
    of: Annotated[
        list[str], typer.Option("--of", help="A session or bundle to learn from; may be repeated.")
    ],
    target: options.Target = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Show which recorded lineage has the longest path that this kernel can still follow."""
    from workbench.engine.lineages import lineage_of
    from workbench.engine.sessions import find_session, sessions_folder
    from workbench.problems.load import load_problem
    from workbench.search.retrieval import Place, inputs_of, retrieve, unlike

    state = assessing.assessed(kernel, problem, target).state
    place = Place(
        family=state.family,
        platform=state.target.name,
        inputs=inputs_of(state.launches),
        statement=load_problem(problem).source,
    )
    folder = sessions_folder(sessions)
    files = [Path(one) if Path(one).is_file() else find_session(one, folder) for one in of]
    recorded = [lineage_of(file, state.library) for file in files]
    ways = retrieve(recorded, place)
    if json:
        emit.json({"ways": ways})
        return
    for one in recorded:
        refusal = unlike(one.place, place)
        if refusal:
            emit.text(f"{one.name} says nothing about it: {refusal}")
    _show_ways(ways)


def _show_ways(ways: "Sequence[Way]") -> None:
    for way in ways:
        gain = "not timed as a whole" if way.gain is None else f"{way.gain:.3f}x as recorded"
        emit.text(f"{way.lineage} from step {way.first + 1}: {', '.join(way.cards)}  ({gain})")
        if way.present:
            emit.text(f"  there already: {', '.join(way.present)}")
        if way.stopped:
            emit.text(f"  stops: {way.stopped}")

"""`skills admit`: try a card alone, where it was learned and where it was not."""

from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.say import Exit, note
from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.engine.admitting import Trial


def register(skills: typer.Typer) -> None:
    """Add the command."""
    skills.command(epilog="Example: workbench skills admit learned-warps --on gelu --device cpu")(
        admit
    )


def admit(
    card: Annotated[str, typer.Argument(help="Id of a card.")],
    on: Annotated[
        list[str] | None,
        typer.Option("--on", help="A problem to try it on; may be given again."),
    ] = None,
    lineage: Annotated[
        list[str] | None,
        typer.Option(help="A lineage session to make its steps again in; may be given again."),
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Append the trials to the card.")] = False,
    device: options.Device = "auto",
    target: options.Target = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Try a card alone: held out on problems, and as a roundtrip in lineages.

    A problem that the card has evidence from is tried, but admits nothing. Leaves with 0 when a
    held-out trial passed the gate and showed the card's effects, else with 1.
    """
    from workbench.engine import admitting
    from workbench.engine.events import AnyEvent
    from workbench.engine.sessions import find_session, sessions_folder
    from workbench.engine.telling import tell
    from workbench.skills.library import load_library
    from workbench.skills.writing import add_evidence

    if not on and not lineage:
        raise WorkbenchError(
            "a card is tried somewhere",
            where="--on, --lineage",
            todo="workbench skills admit ID --on softmax --on gelu",
        )
    skill = load_library().skill(card)
    folder = sessions_folder(sessions)

    def hear(event: AnyEvent) -> None:
        line = tell(event)
        if line is not None and not json:
            note(line.says)

    trials: list[Trial] = []
    for name in lineage or []:
        trials += admitting.roundtrips(skill, find_session(name, folder), hear)
    for problem in on or []:
        trials.append(
            admitting.held_out(
                skill, problem, device=device, target=target, sessions=folder, tell=hear
            )
        )
    for trial in trials:
        if json:
            emit.json(trial)
        else:
            emit.text(_line(trial))
    if write:
        kept = [trial.admission for trial in trials if trial.applied]
        added = add_evidence(skill.path, [], kept)
        note(f"{added.admission} trials added to {added.path}")
    if not any(
        t.admission.held_out and t.admission.accepted and t.admission.effect_observed
        for t in trials
    ):
        raise typer.Exit(Exit.NO)


def _line(trial: "Trial") -> str:
    one = trial.admission
    where = "held out" if one.held_out else "roundtrip"
    passed = "passed" if one.effect_observed else "failed" if trial.applied else "not tried"
    return f"{passed:<10} {where:<10} {one.target:<36} {trial.says}"

"""`skills admit`: try cards alone, where they were learned and where they were not."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.say import Exit, note
from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.engine.admitting import Ask
    from workbench.engine.events import AnyEvent
    from workbench.engine.trials import Trial
    from workbench.skills.card import Skill


def register(skills: typer.Typer) -> None:
    """Add the command."""
    skills.command(epilog="Example: workbench skills admit learned-warps --on gelu --device cpu")(
        admit
    )


def admit(
    card: Annotated[
        list[str] | None, typer.Argument(help="Ids of cards; none: every card of `--cards`.")
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option(
            "--on",
            help="A problem, or PROBLEM/FORM of a shipped kernel, to try it on; CARD@PROBLEM/FORM "
            "for one card; may be given again, in the order of the trials. `auto`: where a look "
            "on the CPU finds most to do, for cards that are not named.",
        ),
    ] = None,
    lineage: Annotated[
        list[str] | None,
        typer.Option(help="A lineage session whose steps are repeated; may be given again."),
    ] = None,
    cards: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the cards are, if not among yours.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Append the trials to the card.")] = False,
    most: Annotated[int, typer.Option(min=1, help="Grounds of a card that `auto` finds.")] = 2,
    jobs: Annotated[int, typer.Option(min=1, help="Trials to run in parallel.")] = 1,
    wall_seconds: Annotated[
        float | None, typer.Option(min=0, help="Seconds after which no trial starts.")
    ] = None,
    usd: options.Usd = None,
    device: options.Device = "auto",
    target: options.Target = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Try cards alone: held out on problems, and as a roundtrip in lineages.

    A problem that a card has evidence from is tried, but admits nothing. A card that is a sketch is
    carried out by the model of `config.toml`, for at most `--usd` a trial. Exits with 0 when for
    every card a held-out trial passed the gate and showed the card's effects, on a GPU where those
    are of speed; else with 1.
    """
    from workbench.engine.admitting import Ask, Untried, admissions
    from workbench.engine.sessions import find_session, sessions_folder
    from workbench.engine.telling import tell
    from workbench.engine.trials import Where
    from workbench.skills.writing import add_evidence, file_for_trials

    if not on and not lineage:
        raise WorkbenchError(
            "there is nothing to try the card on",
            where="--on, --lineage",
            todo="workbench skills admit ID --on softmax --on gelu",
        )
    folder = sessions_folder(sessions)

    def hear(event: "AnyEvent") -> None:
        if not json and (line := tell(event)) is not None:
            note(line.says)

    every = _every(card or [], cards)
    chosen = [skill for skill in every if not card or skill.card.id in card]
    ask = Ask(
        skills=tuple(chosen),
        problems=tuple(on or ()),
        lineages=tuple(find_session(name, folder) for name in lineage or ()),
        jobs=jobs,
        seconds=wall_seconds,
        most=most,
        where=Where(
            device=device,
            target=target,
            sessions=folder,
            providers=tuple(every),
            usd=usd,
        ),
    )
    trials: dict[str, list[Trial]] = {skill.card.id: [] for skill in chosen}
    untried: dict[str, list[str]] = {}
    for found in admissions(ask, hear):
        if isinstance(found, Untried):
            untried.setdefault(found.skill.card.id, []).extend(found.reasons)
            if json:
                emit.json({"card": found.skill.card.id, "not_tried": found.reasons})
            continue
        skill, trial = found
        emit.json(trial) if json else emit.text(f"{skill.card.id:<32} {_line(trial)}")
        trials[skill.card.id].append(trial)
        if write and trial.applied:
            add_evidence(skill.path, [], [trial.admission], into=file_for_trials(skill))
    admitted = [one for one in chosen if _with(one, trials[one.card.id]).admitted]
    if not json:
        _foot(trials, untried, ask, len(admitted))
    if len(admitted) < len(chosen):
        raise typer.Exit(Exit.NO)


def _with(skill: "Skill", trials: "list[Trial]") -> "Skill":
    """The card with these trials and no others."""
    from msgspec import structs

    made = tuple(one.admission for one in trials if one.applied)
    return structs.replace(skill, card=structs.replace(skill.card, admission=made))


def _every(asked: list[str], folder: Path | None) -> "list[Skill]":
    """The cards of a folder; without one, the installed ones with the cards that are asked
    about."""
    from workbench.skills.library import load_library

    if asked:
        library = load_library(folder)
        for card in asked:
            library.skill(card)
        return list(library.skills.values())
    if folder is None:
        raise WorkbenchError("a card is needed", todo="its id, or --cards DIR for all of a folder")
    theirs = load_library(folder, shipped_folder=folder / "no-shipped-ones")
    if not theirs.skills:
        raise WorkbenchError(
            "there are no cards in this folder",
            where=str(folder),
            todo="name a folder of .toml files; `workbench skills induce` writes one",
        )
    return list(theirs.skills.values())


def _foot(
    trials: "dict[str, list[Trial]]", untried: dict[str, list[str]], ask: "Ask", admitted: int
) -> None:
    for card, made in trials.items():
        reasons = untried.get(card, [])
        if not reasons and (not ask.problems or any(one.admission.held_out for one in made)):
            continue
        emit.text(f"{card:<32} {'not tried':<10}{'' if made else ' anywhere'}".rstrip())
        for why in reasons or ["no trial of it was held out"]:
            emit.text(f"{'':<4}{why}")
    emit.text(f"{admitted} of {len(trials)} cards admitted")
    passed = sum(
        any(one.admission.held_out and one.admission.effect_observed for one in made)
        for made in trials.values()
    )
    if passed > admitted:
        emit.text(
            f"{passed - admitted} more passed, by modeled times: the gate judged the kernels "
            "right, and no GPU has said that they gain, which admits no card that claims a gain"
        )


def _line(trial: "Trial") -> str:
    one = trial.admission
    where = "held out" if one.held_out else "roundtrip"
    passed = "passed" if one.effect_observed else "failed" if trial.applied else "not tried"
    return f"{passed:<10} {where:<10} {one.target:<36} {trial.says}"

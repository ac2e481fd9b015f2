"""`bench cards`: try every card where it fits, and write the results into the cards."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.say import note
from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.bench.card_choice import Chosen
    from workbench.bench.card_trials import Trial
    from workbench.bench.cards import CardsAsk
    from workbench.engine.devices import Place


def register(app: typer.Typer) -> None:
    """Add the command to `bench`."""
    app.command(epilog="Example: workbench bench cards gemm --card tile-descriptors")(cards)


def cards(
    problems: Annotated[
        list[str] | None,
        typer.Argument(help="Shipped problems [default: all].", metavar="PROBLEM"),
    ] = None,
    card: Annotated[
        list[str] | None, typer.Option(help="Only this card; may be given again.")
    ] = None,
    session: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Folder or bundle whose kernels are tried on too."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--every", help="Also cards that have their evidence already.")
    ] = False,
    each: Annotated[int, typer.Option(min=1, help="Problems that a card is tried on.")] = 2,
    again: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Repeat here the trials of FILE that were right."),
    ] = None,
    wall: Annotated[
        float | None,
        typer.Option(
            "--wall-seconds", "--wall", min=0, help="Seconds after which nothing more is tried."
        ),
    ] = None,
    timers: Annotated[
        int, typer.Option(min=1, help="Timings that are set up in parallel; 4 keep a GPU busy.")
    ] = 1,
    part: Annotated[
        str, typer.Option(metavar="I/N", help="Only the I-th of N shares: one for each GPU.")
    ] = "1/1",
    plan: Annotated[
        bool, typer.Option("--list", help="Only say what would be tried where; judge nothing.")
    ] = False,
    jsonl: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append every trial as it ends.")
    ] = None,
    kept: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Run nothing: read kept trials.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Add what the trials say to the cards.")
    ] = False,
    shipped: options.Shipped = False,
    device: options.Device = "auto",
    target: options.Target = "",
    json: options.Json = False,
) -> None:
    """Try cards that lack evidence where conditions hold and edits fit, through the whole gate.

    Recording, compiling and comparing go side by side, as far as the GPU's memory allows; only
    the pairs have it alone. Where seconds are limited, cards without any evidence come first.
    A trial that says nothing of a card is not evidence: one that is unproven or short of memory, or
    a modeled time where the model does not see the change or was not shown to rank such kernels.
    """
    from workbench.bench.card_trials import read_trials, speed_kind
    from workbench.bench.cards import CardsAsk, list_cards
    from workbench.engine.devices import choose_place

    if kept is not None:
        trials = [one for one in read_trials(kept) if not card or one.card in card]
    else:
        ask = CardsAsk(
            problems=tuple(problems or ()),
            cards=tuple(card or ()),
            sessions=tuple(session or ()),
            again=tuple(read_trials(again)) if again is not None else (),
            every=every,
            problems_each=each,
            wall_seconds=wall,
            part=_share(part),
            timers=timers,
        )
        place = choose_place(device, target)
        if plan:
            _list(list_cards(ask, place, note), json=json)
            return
        trials = _tried(ask, place, jsonl, json=json)
    _show(trials, json=json)
    if write:
        for line in _written(trials, shipped=shipped):
            note(line)
    if not json:
        emit.text(speed_kind(trials))


def _tried(ask: "CardsAsk", place: "Place", jsonl: Path | None, *, json: bool) -> "list[Trial]":
    """The trials, each kept and told as it ends."""
    from workbench.bench.card_trials import keep
    from workbench.bench.cards import try_cards

    trials: list[Trial] = []
    for trial in try_cards(ask, place, note):
        trials.append(trial)
        if jsonl is not None:
            keep(jsonl, trial)
        if not json:
            note(f"{trial.card} on {trial.problem}, {trial.state}: {trial.says}")
    return trials


def _list(chosen: "Chosen", *, json: bool) -> None:
    """What would be tried, in that order, and what has nothing to do anywhere."""
    rows = []
    for number, one in enumerate(chosen.wanted, start=1):
        trial = one.trial
        values = ", ".join(f"{name} {value}" for name, value in trial.parameters.items())
        if json:
            said = {"card": trial.card, "problem": trial.problem, "state": trial.state}
            emit.json({**said, "kernel": trial.kernel, "parameters": trial.parameters})
        rows.append((str(number), trial.card, trial.problem, trial.state, values or "-"))
    if json:
        return
    if rows:
        emit.text(emit.table(("turn", "card", "problem", "kernel", "values"), rows))
    for card, why in chosen.nowhere.items():
        emit.text(f"{card}: nowhere to try it; {why}")


def _share(text: str) -> tuple[int, int]:
    """`2/4` as numbers. Raises WorkbenchError for what is not a share."""
    mine, slash, parts = text.partition("/")
    known = slash and mine.isascii() and mine.isdecimal() and parts.isascii() and parts.isdecimal()
    if not known or not 1 <= int(mine) <= int(parts):
        raise WorkbenchError(
            f"`--part {text}` is not a share", todo="name the share and how many, like 1/4"
        )
    return int(mine), int(parts)


def _show(trials: "list[Trial]", *, json: bool) -> None:
    from workbench.bench.card_trials import told

    if json:
        for trial in trials:
            emit.json(trial)
    else:
        for line in told(trials):
            emit.text(line)


def _written(trials: "list[Trial]", *, shipped: bool) -> "Iterator[str]":
    """Append evidence and risks to the cards, a line each for what was added and left out."""
    from workbench.bench.card_current import outdated
    from workbench.bench.card_risks import risks_of
    from workbench.bench.card_trials import evidence_of, proof_of
    from workbench.skills.library import load_library
    from workbench.skills.writing import add_evidence, add_proofs, add_risks, file_for_trials

    skills = load_library().skills
    for name in dict.fromkeys(trial.card for trial in trials):
        if name not in skills:
            raise WorkbenchError(f"there is no card `{name}` any more", todo="leave it out")
        ours = []
        for trial in (one for one in trials if one.card == name):
            if why := outdated(trial):
                yield f"{name} on {trial.problem}, {trial.state}: left out, {why}"
            else:
                ours.append(trial)
        rows = [row for trial in ours if (row := evidence_of(trial)) is not None]
        path = skills[name].path
        goal = file_for_trials(skills[name], shipped=shipped)
        added = add_evidence(path, rows, into=goal)
        proofs = [proof for trial in ours if (proof := proof_of(trial)) is not None]
        proven = add_proofs(path, proofs, into=goal)
        found = risks_of(ours)
        unseen = not any(risk.seen for risk in skills[name].card.risk) and not found.met
        risks = add_risks(path, found.met, found.new if unseen else (), into=goal)
        yield (
            f"{name}: written to {goal}: evidence {added.evidence}, risks {risks};"
            f" known already: {added.known}; newly found right on the CPU: {proven};"
            f" trials that say nothing: {len(ours) - len(rows) - len(proofs)}"
        )

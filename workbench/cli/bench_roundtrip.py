"""`bench roundtrip`: from naive to expert latency with learned cards alone."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.finding import kept
from workbench.cli.say import Exit, note
from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.bench.roundtrip import Key, Summary, Trial
    from workbench.bench.roundtrip_group import Ask


def register(app: typer.Typer) -> None:
    """Add the command to `bench`."""
    app.command(
        epilog="Example: workbench bench roundtrip gemm-lineage-1 --cards drafts --trials 10"
    )(roundtrip)


def roundtrip(  # every choice of one experiment
    lineages: Annotated[
        list[str] | None,
        typer.Argument(metavar="LINEAGE...", help="Lineage sessions, or bundles of them."),
    ] = None,
    cards: Annotated[Path | None, typer.Option(metavar="DIR", help="Learned cards.")] = None,
    trials: Annotated[int, typer.Option(min=1, help="Trials of each workload.")] = 10,
    steps: Annotated[int, typer.Option(min=1, help="Most transitions of a trial.")] = 15,
    without: Annotated[
        list[str] | None,
        typer.Option(help="Also with cards without: conditions, anchors, risks or all of them."),
    ] = None,
    whole: Annotated[
        bool, typer.Option(help="--no-whole: only with the cards of --without.")
    ] = True,
    leap: Annotated[
        bool, typer.Option("--leap", help="One verdict a trial, not one a step: saves the GPU.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Workloads to run in parallel.")] = 1,
    wall_seconds: Annotated[
        float | None,
        typer.Option(
            min=0, help="Seconds in all, verdicts too; a trial is judged as far as it came by then."
        ),
    ] = None,
    gpu_seconds: Annotated[
        float | None,
        typer.Option(min=0, help="GPU-seconds for each workload with each form of the cards."),
    ] = None,
    proposer: Annotated[
        str, typer.Option(help="both: a model for cards that are sketches; not with --leap.")
    ] = "skills",
    usd: options.Usd = None,
    recorded: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Print what was kept before.")
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep every trial, after those that the file has."),
    ] = None,
    device: options.Device = "auto",
    target: options.Target = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Run from the naive end of lineages with learned cards alone, and compare with the expert.

    Every trial that stays slower is explained. `--without all` is the ablation: what a plain list
    of tricks reaches. `--keep` has every trial after each of its steps, so that a run that is
    killed keeps what it has; several calls make one file, which `--from` prints as one table. Exits
    with 1 unless all reached it with whole cards.
    """
    from workbench.bench.roundtrip import WITHOUT, read_trials
    from workbench.bench.roundtrip_group import Ask
    from workbench.engine.sessions import find_session, sessions_folder

    _check(without or [], proposer, leap=leap, whole=whole)
    if recorded is not None:
        found = list(kept(read_trials(recorded), recorded, "workbench bench roundtrip --keep"))
        for trial in found:
            _show(trial, json=json)
    elif lineages and cards is not None:
        folder = sessions_folder(sessions)
        ask = Ask(
            lineages=tuple(
                path if (path := Path(name)).is_file() else find_session(name, folder)
                for name in lineages
            ),
            cards=cards,
            trials=trials,
            steps=steps,
            forms=(*(("whole",) if whole else ()), *(WITHOUT[name] for name in without or ())),
            leap=leap,
            jobs=jobs,
            seconds=wall_seconds,
            gpu_seconds=gpu_seconds,
            device=device,
            target=target,
            sessions=folder,
            proposer=proposer,
            usd=usd,
            kept=_judged(keep),
        )
        found = _tried(ask, keep, json=json)
    else:
        raise WorkbenchError(
            "lineages and cards are needed",
            todo="workbench bench roundtrip gemm-lineage-1 --cards DIR; or --from FILE",
        )
    if not json:
        _foot(found)
    if not all(trial.reached for trial in found if trial.cards == "whole"):
        raise typer.Exit(Exit.NO)


def _judged(keep: Path | None) -> "frozenset[Key]":
    """Trials that a file already has a verdict on."""
    from workbench.bench.roundtrip import read_trials

    if keep is None or not keep.exists():
        return frozenset()
    return frozenset(one.key for one in read_trials(keep) if one.state != "cut")


def _check(without: "list[str]", proposer: str, *, leap: bool, whole: bool) -> None:
    from workbench.bench.roundtrip import WITHOUT

    unknown = [name for name in without if name not in WITHOUT]
    if unknown:
        raise WorkbenchError(
            f"cards have no {unknown[0]}", where="--without", todo=f"one of {', '.join(WITHOUT)}"
        )
    if not whole and not without:
        raise WorkbenchError(
            "there are no cards to try", where="--no-whole", todo="say which, with --without"
        )
    if leap and proposer != "skills":
        raise WorkbenchError(
            "a leap is made of edits, and asks no model",
            where="--leap --proposer",
            todo="leave --leap out: every step is then asked for",
        )


def _tried(ask: "Ask", keep: Path | None, *, json: bool) -> "list[Trial]":
    """Every trial, shown at its end and kept after each step.

    Where a fault ends the run, what it has is shown before.
    """
    from workbench.bench import lines
    from workbench.bench.roundtrip import newest
    from workbench.bench.roundtrip_run import run_trials
    from workbench.engine.telling import tell

    every: list[Trial] = []
    try:
        for trial in run_trials(ask, lambda event: _hear(tell(event), json=json)):
            every.append(trial)
            if keep is not None:
                lines.append(keep, trial)
            if trial.state != "cut":
                _show(trial, json=json)
    except WorkbenchError:
        _cut(newest(every), json=json)
        if every and not json:
            _foot(newest(every))
        raise
    _cut(newest(every), json=json)
    return newest(every)


def _cut(found: "list[Trial]", *, json: bool) -> None:
    for trial in found:
        if trial.state == "cut":
            _show(trial, json=json)


def _hear(line: object, *, json: bool) -> None:
    says = getattr(line, "says", "")
    if says and not json:
        note(says)


def _show(trial: "Trial", *, json: bool) -> None:
    from workbench.bench.roundtrip_notes import outcome

    if json:
        emit.json(trial)
        return
    ratio = "not timed" if trial.ratio is None else f"{trial.ratio:.3f}x {trial.kind}"
    if trial.identical:
        ratio = "the very work"
    took = "" if trial.seconds is None else f", {trial.seconds:.0f} s"
    end = outcome(trial)
    emit.text(
        f"{trial.workload:<16} {trial.cards:<13} {trial.number:>3}  {end:<9} {ratio:<16} "
        f"{trial.steps} steps, {trial.gpu_seconds:.1f} GPU-s{took}  {trial.session}".rstrip()
    )
    if trial.why:
        emit.text(f"{'':<36}{trial.why}")


def _foot(found: "list[Trial]") -> None:
    from workbench.bench.roundtrip import KLINEAGE, summaries
    from workbench.bench.roundtrip_notes import notes
    from workbench.measure.records import Kind

    rows = summaries(found)
    emit.text(_HEAD)
    for one in rows:
        emit.text(_line(one))
    whole = [trial for trial in found if trial.cards == "whole" and trial.state != "cut"]
    reached = sum(trial.reached for trial in whole)
    reached_by = (one for one in whole if one.reached)
    ways = Counter("by identity" if one.identical else str(one.kind) for one in reached_by)
    how = ", ".join(f"{count} {way}" for way, count in sorted(ways.items())) or "none"
    emit.text(
        f"{reached} of {len(whole)} trials with whole cards reached the expert's latency, {how} "
        f"(KLineage: {KLINEAGE}, measured)"
    )
    if any(trial.kind is Kind.MODELED for trial in found):
        emit.text("modeled times say which steps were found, and nothing of a GPU's latency")
    if cut := sum(one.cut for one in rows):
        emit.text(
            f"{cut} cut before a verdict, which count for nothing; the rows above say how far"
        )
    for line in notes(found):
        emit.text(f"- {line}")


_HEAD = (
    f"{'workload':<16} {'cards':<13} {'reached':<9} {'identical':>9} {'of expert':>9} {'':<8} "
    f"{'edits':>6} {'GPU-s':>7} {'s':>6}  {'first reached after':<38} wrong slower refused cut"
)


def _line(one: "Summary") -> str:
    """A row of the table: medians over judged trials; of cut ones where none was judged."""
    ratio = "-" if one.ratio is None else f"{one.ratio:.3f}x"
    seconds = "-" if one.seconds is None else f"{one.seconds:.0f}"
    first = "-"
    if one.until is not None:
        trials, steps, gpu = one.until
        first = f"{trials} trials, {steps} edits, {gpu:.1f} GPU-s"
        if one.until_seconds is not None:
            first = f"{first}, {one.until_seconds:.0f} s"
    return (
        f"{one.workload:<16} {one.cards:<13} {f'{one.reached} of {one.trials}':<9} "
        f"{one.identical:>9} {ratio:>9} {one.kind or '':<8} "
        f"{one.steps:>6g} {one.gpu_seconds:>7.1f} {seconds:>6}  "
        f"{first:<38} {one.wrong:>5} {one.slower:>6} {one.refused:>7} {one.cut:>3}"
    )

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
    from workbench.bench.roundtrip import Summary, Trial
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
    leap: Annotated[
        bool, typer.Option("--leap", help="One verdict a trial, not one a step: saves the GPU.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Workloads to run in parallel.")] = 1,
    wall_seconds: Annotated[
        float | None,
        typer.Option(
            min=0, help="Seconds in all; a trial is then judged as far as it came, in some more."
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
    keep: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep every trial.")] = None,
    device: options.Device = "auto",
    target: options.Target = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Run from the naive end of lineages with learned cards alone, and compare with the expert.

    Every trial that stays slower is explained. `--without all` is the ablation: what a plain list
    of tricks reaches. `--keep` has every trial after each of its steps, so that a run that is
    killed keeps what it has. Exits with 1 unless all reached it with whole cards.
    """
    from workbench.bench.roundtrip import WITHOUT, read_trials
    from workbench.bench.roundtrip_group import Ask
    from workbench.engine.sessions import find_session, sessions_folder

    _check(without or [], proposer, leap=leap)
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
            forms=("whole", *(WITHOUT[name] for name in without or ())),
            leap=leap,
            jobs=jobs,
            seconds=wall_seconds,
            gpu_seconds=gpu_seconds,
            device=device,
            target=target,
            sessions=folder,
            proposer=proposer,
            usd=usd,
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


def _check(without: "list[str]", proposer: str, *, leap: bool) -> None:
    from workbench.bench.roundtrip import WITHOUT

    unknown = [name for name in without if name not in WITHOUT]
    if unknown:
        raise WorkbenchError(
            f"cards have no {unknown[0]}", where="--without", todo=f"one of {', '.join(WITHOUT)}"
        )
    if leap and proposer != "skills":
        raise WorkbenchError(
            "a leap is made of edits, and asks no model",
            where="--leap --proposer",
            todo="leave --leap out: every step is then asked for",
        )


def _tried(ask: "Ask", keep: Path | None, *, json: bool) -> "list[Trial]":
    """Every trial, shown at its end and kept after each step."""
    from workbench.bench.roundtrip import newest
    from workbench.bench.roundtrip_run import run_trials
    from workbench.engine.telling import tell

    every: list[Trial] = []
    for trial in run_trials(ask, lambda event: _hear(tell(event), json=json)):
        every.append(trial)
        _keep(keep, trial, first=len(every) == 1)
        if trial.state != "cut":
            _show(trial, json=json)
    found = newest(every)
    for trial in found:
        if trial.state == "cut":
            _show(trial, json=json)
    return found


def _hear(line: object, *, json: bool) -> None:
    says = getattr(line, "says", "")
    if says and not json:
        note(says)


def _keep(file: Path | None, trial: "Trial", *, first: bool) -> None:
    from workbench.bench import lines

    if file is None:
        return
    if first:
        file.unlink(missing_ok=True)
    lines.append(file, trial)


def _show(trial: "Trial", *, json: bool) -> None:
    if json:
        emit.json(trial)
        return
    ratio = "not timed" if trial.ratio is None else f"{trial.ratio:.3f}x {trial.kind}"
    if trial.identical:
        ratio = "the very work"
    word = "reached" if trial.reached else "cut" if trial.state == "cut" else "slower"
    emit.text(
        f"{trial.workload:<16} {trial.cards:<13} {trial.number:>3}  {word:<8} {ratio:<16} "
        f"{trial.steps} steps, {trial.gpu_seconds:.1f} GPU-s  {trial.session}"
    )
    if trial.why:
        emit.text(f"{'':<35}{trial.why}")


def _foot(found: "list[Trial]") -> None:
    from workbench.bench.roundtrip import KLINEAGE, summaries
    from workbench.measure.records import Kind

    for one in summaries(found):
        emit.text(_line(one))
    whole = [trial for trial in found if trial.cards == "whole" and trial.state != "cut"]
    reached = sum(trial.reached for trial in whole)
    reached_by = (one for one in whole if one.reached)
    ways = Counter("by identity" if one.identical else str(one.kind) for one in reached_by)
    how = ", ".join(f"{count} {way}" for way, count in sorted(ways.items())) or "none"
    emit.text(
        f"{reached} of {len(whole)} trials reached the expert's latency, {how} "
        f"(KLineage: {KLINEAGE}, measured)"
    )
    if any(trial.kind is Kind.MODELED for trial in found):
        emit.text("modeled times say which steps were found, and nothing of a GPU's latency")


def _line(one: "Summary") -> str:
    ratio = "-" if one.ratio is None else f"{one.ratio:.3f}x"
    first = "never reached"
    if one.until is not None:
        trials, steps, seconds = one.until
        first = f"first after {trials} trials, {steps} edits and {seconds:.1f} GPU-s"
    by = f" ({one.identical} by identity)" if one.identical else ""
    if one.cut:
        by = f"{by}, {one.cut} cut"
    return (
        f"{one.workload:<16} {one.cards:<13} {one.reached} of {one.trials} reached{by}, median "
        f"{ratio} of the expert's speed after {one.steps:g} edits and {one.gpu_seconds:.1f} GPU-s; "
        f"{first}; {one.wrong} wrong, {one.slower} slower, {one.refused} refused"
    )

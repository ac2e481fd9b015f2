"""`gate`: one verdict on one candidate, without a session."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.say import Exit, note
from workbench.engine.telling import stage_line
from workbench.errors import WorkbenchError
from workbench.gate.records import NO_CODE_RAN, GateReport, Outcome, Verdict

if TYPE_CHECKING:
    from workbench.gate.judge import Told

_EXIT = {
    Verdict.ACCEPTED: Exit.YES,
    Verdict.REJECTED: Exit.NO,
    Verdict.UNPROVEN: Exit.BAD,
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: workbench gate kernel.py --problem softmax --device cpu")(gate)


def gate(
    candidate: Annotated[
        Path | None, typer.Argument(metavar="CANDIDATE", help="A file that defines ModelNew.")
    ] = None,
    problem: Annotated[
        str, typer.Option(help="A shipped problem's name, or a KernelBench-form Python file.")
    ] = "",
    against: Annotated[
        Path | None, typer.Option(help="Also ask for a gain over this candidate.")
    ] = None,
    rung: Annotated[
        int,
        typer.Option(
            min=0,
            max=3,
            help="0: no correctness; 1: smallest shape; 2: more; 3: compute-sanitizer too.",
        ),
    ] = 2,
    seed: Annotated[str, typer.Option(help="Hex seed of a report, to repeat its inputs.")] = "",
    device: options.Device = "auto",
    target: options.Target = "",
    explain_policy: Annotated[
        bool, typer.Option("--explain-policy", help="Print what host code may do, and exit.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Judge a candidate: policy, compile, correctness, profile.

    Exits with 0 when accepted, 1 when rejected, 2 when it could not be judged.
    """
    if explain_policy:
        _explain(json=json)
        return
    if candidate is None or not problem:
        raise WorkbenchError(
            "a candidate and its problem are needed",
            where="workbench gate",
            todo="workbench gate kernel.py --problem softmax",
        )
    report = _judge(candidate, problem, against, rung, _seed(seed), device, target, json=json)
    if json:
        emit.json(report)
    else:
        emit.text(_text(report))
    raise typer.Exit(_EXIT[report.verdict])


def _seed(word: str) -> bytes:
    try:
        return bytes.fromhex(word)
    except ValueError as fault:
        raise WorkbenchError(
            f"{word!r} is not a hex seed", where="--seed", todo="copy it from a report's evidence"
        ) from fault


def _explain(*, json: bool) -> None:
    from workbench.gate.policy.names import explain_policy, policy_text

    if json:
        emit.json(explain_policy())
    else:
        emit.text(policy_text())


def _judge(
    candidate: Path,
    problem: str,
    against: Path | None,
    rung: int,
    seed: bytes,
    device: str,
    target: str,
    *,
    json: bool,
) -> GateReport:
    from workbench.engine.devices import choose_place
    from workbench.engine.single import gate_once

    def listen(told: "Told") -> None:
        if told.report is not None and told.report.outcome is not Outcome.SKIPPED and not json:
            note(stage_line(told.report))

    return gate_once(
        candidate,
        problem,
        against=against,
        rung=rung,
        seed=seed,
        place=choose_place(device, target),
        listen=listen,
    )


def _text(report: GateReport) -> str:
    from workbench.cli.report import ratio_words, time_words
    from workbench.engine.telling import evidence_line

    lines = [f"{report.verdict} at {report.stage}: {report.says}"]
    for stage in report.stages:
        for finding in stage.findings:
            where = f" line {finding.line}" if finding.line is not None else ""
            lines.append(f"  {finding.code}{where}: {finding.says}")
            if values := evidence_line(finding):
                lines.append(f"    {values}")
    if report.time is not None:
        lines.append(f"  time: {time_words(report.time)}")
    if report.time is not None and report.limit is not None:
        lines.append(f"  reached: {report.limit.words(report.time)}: {report.limit.says}")
    if report.speed is not None:
        lines.append(f"  against {ratio_words(report.speed)}")
    isolation = {s.isolation for s in report.stages if s.outcome is not Outcome.SKIPPED}
    if len(isolation) > 1:
        isolation.discard(NO_CODE_RAN)
    lines.append(f"  isolation: {', '.join(sorted(isolation))}; seed {report.replay_seed}")
    return "\n".join(lines)

"""Runs compute-sanitizer on a candidate that compares right: the last check of the top rung.

Only a kernel's own accesses to global memory count against it. Hazards in shared memory are
reported and decide nothing: a Triton kernel cannot address shared memory, and racecheck is known to
be wrong about asynchronous copies and WGMMA there.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from msgspec import structs

from workbench.gate.candidate import Candidate
from workbench.gate.correctness.cases import derive
from workbench.gate.records import Blame, Evidence, Finding, Outcome, StageReport
from workbench.gate.sanitizer.records import Report, Space, Tool, ToolRun
from workbench.gate.sanitizer.run import INSTALL, find_sanitizer, run_tool
from workbench.gate.tool_program import CallRequest, tool_program
from workbench.isolation.scratch import ScratchRoot
from workbench.kernels.records import Launch
from workbench.problems.records import Problem

SANITIZER = "compute-sanitizer"
"""The part of the stage's seconds that compute-sanitizer takes."""
_OTHERS = "correctness.sanitizer-note"


def sanitized(
    report: StageReport,
    candidate: Candidate,
    problem: Problem,
    launches: Sequence[Launch],
    *,
    seed: bytes,
    target: str,
    device_index: int | None,
) -> StageReport:
    """The correctness report with the findings of every tool at the smallest shape.

    A check that could not be made is reported and fails no candidate.
    """
    began = time.monotonic()
    if device_index is None or find_sanitizer() is None:
        needs = "a GPU" if device_index is None else INSTALL
        runs = [ToolRun(tool=tool, unchecked=f"it needs {needs}", needs=needs) for tool in Tool]
    else:
        # In parallel: most of a run is importing torch, and little of it needs the GPU.
        ask = partial(_ran, candidate, problem, seed, target, device_index)
        with ThreadPoolExecutor(len(Tool)) as pool:
            runs = list(pool.map(ask, Tool))
    told = judged(report, runs, {launch.kernel for launch in launches})
    took = time.monotonic() - began
    parts = {**report.parts, SANITIZER: round(took, 3)}
    return structs.replace(told, seconds=report.seconds + took, parts=parts)


def judged(report: StageReport, runs: Sequence[ToolRun], kernels: set[str]) -> StageReport:
    """The report with the runs' findings; `kernels` are the candidate's own. Pure."""
    found = [finding for run in runs for finding in _findings(run, kernels)]
    against = [finding for finding in found if finding.blame is Blame.CANDIDATE]
    notes = [finding for finding in found if finding.blame is not Blame.CANDIDATE]
    clean = [str(run.tool) for run in runs if not run.unchecked and not run.reports]
    if against:
        outcome, says = Outcome.FAILED, against[0].says
    else:
        outcome, says = report.outcome, f"{report.says}; {_words(clean, runs)}"
    return structs.replace(
        report, outcome=outcome, says=says, findings=(*against, *report.findings, *notes)
    )


def _words(clean: Sequence[str], runs: Sequence[ToolRun]) -> str:
    said = []
    if clean:
        said.append(f"{', '.join(clean)} clean")
    if unchecked := [str(run.tool) for run in runs if run.unchecked]:
        said.append(f"{', '.join(unchecked)} not checked")
    if notes := [str(run.tool) for run in runs if run.reports]:
        said.append(f"{', '.join(notes)} with notes")
    return "compute-sanitizer: " + "; ".join(said)


def _findings(run: ToolRun, kernels: set[str]) -> list[Finding]:
    if run.unchecked:
        return [
            Finding(
                code="correctness.sanitizer-unchecked",
                says=f"{run.tool} was not checked: {run.unchecked}",
                blame=Blame.MACHINE,
                evidence={"tool": str(run.tool), "needs": run.needs},
            )
        ]
    return [_finding(report, kernels) for report in run.reports]


def _finding(report: Report, kernels: set[str]) -> Finding:
    place = report.place
    own = place.kernel in kernels
    evidence: Evidence = {
        "tool": str(report.tool),
        "kernel": place.kernel,
        "access": report.access,
        "space": str(report.space),
        "address": report.address,
        "bytes": report.bytes,
        "times": report.times,
    }
    code, blame = _OTHERS, Blame.MACHINE
    if own and report.space is Space.GLOBAL and report.tool is Tool.MEMCHECK:
        code, blame = "correctness.out-of-bounds", Blame.CANDIDATE
    elif own and report.space is Space.GLOBAL and report.tool is Tool.INITCHECK:
        code, blame = "correctness.uninitialised-read", Blame.CANDIDATE
    return Finding(
        code=code,
        says=_says(report),
        line=place.line if own else None,
        blame=blame,
        evidence=evidence,
    )


def _says(report: Report) -> str:
    who = report.place.kernel or "a kernel"
    if report.tool is Tool.RACECHECK:
        return f"racecheck sees a race of {report.access} in the shared memory of {who}"
    if report.tool is Tool.INITCHECK:
        return f"initcheck: {who} reads {report.bytes} bytes of {report.space} memory never written"
    wrong = report.detail or "is wrong"
    return (
        f"memcheck: {who} has a {report.access} of {report.bytes} bytes in {report.space} memory "
        f"that {wrong}"
    )


def _ran(
    candidate: Candidate,
    problem: Problem,
    seed: bytes,
    target: str,
    device_index: int,
    tool: Tool,
) -> ToolRun:
    root = ScratchRoot()
    try:
        asked = CallRequest(
            candidate=candidate.source,
            problem=problem.source,
            values=problem.tiny.values,
            precision=problem.precision,
            seed=derive(seed, "sanitizer", tool),
            target=target,
        )
        calling = tool_program(root, asked, device_index, tool=find_sanitizer())
        return run_tool(tool, calling)
    finally:
        root.close()

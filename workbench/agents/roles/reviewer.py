"""The reviewer: the gate's report in words that a model can act on; deterministic, no model."""

import re
from collections.abc import Iterator

from workbench.agents.prompts import shortened
from workbench.agents.secrecy import masked
from workbench.gate.records import Finding, GateReport, Outcome, StageReport

_PATH = re.compile(r"(?<![\w/:.])(?:/[\w.+@-]+){2,}")
LOG_LIMIT = 4000
"""Characters; ours. KernelSkill keeps 1,000 of a log; our findings are sentences, not logs."""


def review(gate: GateReport) -> str:
    """Every stage with its findings; machine paths and what looks like a key are taken out."""
    lines = [f"verdict: {gate.verdict} at {gate.stage}: {gate.says} [{gate.code}]"]
    for stage in gate.stages:
        if stage.outcome is not Outcome.SKIPPED:
            lines += _stage(stage)
    if gate.speed is not None:
        lines.append(f"speed against its base: {gate.speed.says()}")
    return shortened(cleaned("\n".join(lines)), LOG_LIMIT)


def _stage(stage: StageReport) -> Iterator[str]:
    yield f"{stage.stage}: {stage.outcome}: {stage.says}"
    for finding in stage.findings:
        yield f"  {_finding(finding)}"
        for name, value in finding.evidence.items():
            yield f"    {name} = {value}"


def _finding(finding: Finding) -> str:
    line = f" (line {finding.line})" if finding.line is not None else ""
    return f"{finding.code}{line}: {finding.says}"


def cleaned(text: str) -> str:
    """Without folders of this machine and without keys: the model needs neither."""
    return masked(_PATH.sub(lambda path: path.group(0).rpartition("/")[2], text))

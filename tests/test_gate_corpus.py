"""The public corpus through the whole gate: no exploit is accepted, no honest kernel is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from workbench.gate.candidate import candidate_of
from workbench.gate.judge import JOB_MODULES, GateSettings, judge
from workbench.gate.problem.inspect import JOB_MODULES as INSPECTING
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.problem.records import ProblemReport
from workbench.gate.records import GateReport, Stage, Verdict
from workbench.isolation.workshop import Workshop
from workbench.problems.load import load_problem

CORPUS = Path(__file__).parent / "corpus"
LAST_STAGE = {
    "static": Stage.POLICY,
    "correctness": Stage.CORRECTNESS,
    # Caches, counters and dead workers already show in the calls of the correctness protocol.
    "timing": Stage.CORRECTNESS,
    "isolation": Stage.CORRECTNESS,
}
ORDER = list(Stage)


class Case(Struct, frozen=True):
    """One file with what its first line promises."""

    name: str
    source: str
    accept: bool
    layer: str
    problem: Path


def read_case(path: Path) -> Case:
    """A case without the two header lines, which would tell a reader of words what it is."""
    first, _, body = path.read_text().split("\n", 2)
    fields = dict(part.strip(" #").split(": ") for part in first.split(";"))
    return Case(
        name=path.stem,
        source=body,
        accept=fields["expect"] == "accept",
        layer=fields["layer"],
        problem=CORPUS / fields["ref"],
    )


CASES = [read_case(path) for path in sorted(CORPUS.rglob("*.py")) if path.parent.name != "refs"]


@pytest.fixture(scope="session")
def workshop() -> Iterator[Workshop]:
    """One pool of forkservers for all cases of a test process."""
    with Workshop(preload=[*JOB_MODULES, *INSPECTING]) as shop:
        yield shop


Facts = dict[Path, ProblemReport]


@pytest.fixture(scope="session")
def seen() -> Facts:
    """What is known of the problems that this process has met."""
    return {}


def judged(case: Case, workshop: Workshop, seen: Facts) -> GateReport:
    """The gate's whole answer on the CPU path."""
    problem = load_problem(str(case.problem))

    def facts() -> ProblemReport:
        if case.problem not in seen:
            seen[case.problem] = inspect_problem(problem, workshop)
        return seen[case.problem]

    return judge(candidate_of(case.source), problem, facts, GateSettings(target="sm90"), workshop)


@pytest.mark.parametrize("case", [c for c in CASES if c.accept], ids=lambda c: c.name)
def test_an_honest_kernel_is_accepted(case, workshop, seen):
    report = judged(case, workshop, seen)
    assert report.verdict is Verdict.ACCEPTED, report.says


@pytest.mark.parametrize("case", [c for c in CASES if not c.accept], ids=lambda c: c.name)
def test_an_exploit_is_rejected_at_its_layer_or_before(case, workshop, seen):
    report = judged(case, workshop, seen)
    assert report.verdict is Verdict.REJECTED, report.says
    assert ORDER.index(report.stage) <= ORDER.index(LAST_STAGE[case.layer]), report.code
    assert report.code.startswith(f"{report.stage}.")

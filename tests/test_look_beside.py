"""What the interpreter sees of a candidate beside the calls that a GPU makes."""

from pathlib import Path

import pytest
from gate_kit import shared

from workbench.gate.candidate import candidate_of
from workbench.gate.correctness.cases import Effort
from workbench.gate.correctness.judging import CorrectnessSettings, Findings, ShapeEffort
from workbench.gate.gpu_workers import REFERENCE
from workbench.isolation.records import Flavor, Limits
from workbench.problems.load import load_problem

CORPUS = Path(__file__).parent / "corpus"


def looked(case: Path) -> Findings:
    """The few calls that the interpreter makes while a GPU has the others."""
    problem = load_problem(str(CORPUS / "refs" / "relu_add.py"))
    shape = ShapeEffort(shape=problem.shapes[0].name, effort=Effort.ALL)
    settings = CorrectnessSettings(shapes=(shape,), seed=bytes(16))
    findings = Findings(candidate_of(case.read_text()), problem, settings)
    workers = shared().workers(REFERENCE, (Flavor.INTERPRET, Limits(wall_seconds=60)))
    with workers as (reference, tried):
        findings.look_for_bad_accesses(reference, tried)
    return findings


@pytest.mark.parametrize(
    "name",
    ["counts_in_a_cached_list", "counts_in_flags_of_modules", "counts_in_a_large_workspace"],
)
def test_a_counter_shows_in_a_few_calls_whatever_it_would_count_to(name):
    """A GPU's calls, timed ones too, may be fewer than the counter waits for."""
    found = looked(CORPUS / "own" / "exploits" / f"{name}.py").findings
    assert [finding.code for finding in found] == ["correctness.counts-calls"]


def test_a_kernel_that_remembers_nothing_is_not_said_to_count():
    findings = looked(CORPUS / "honest" / "ok_25_persistent_grid.py")
    assert not findings.findings
    assert findings.trials[0].calls < 12

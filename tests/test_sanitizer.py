"""The top rung under compute-sanitizer: it convicts for what it can see, and nobody for silence."""

from pathlib import Path

import pytest
from gate_kit import ADD_RELU, ADD_RELU_KERNEL, CANDIDATE, SEED, model, problem
from test_sanitizer_parse import INITCHECK, NEW_MEMCHECK, OLD_MEMCHECK, RACES

from workbench.gate.candidate import candidate_of
from workbench.gate.records import Blame, Outcome, Stage, StageReport
from workbench.gate.sanitizer.check import judged, sanitized
from workbench.gate.sanitizer.parse import parse
from workbench.gate.sanitizer.records import Tool, ToolRun
from workbench.gate.sanitizer.run import find_sanitizer, run_tool
from workbench.gate.tool_program import CallRequest, tool_program
from workbench.isolation.scratch import ScratchRoot

RIGHT = StageReport(stage=Stage.CORRECTNESS, outcome=Outcome.PASSED, says="11 calls, all right")
OUT = "out = torch.empty_like(inputs[0])\n"
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"


def runs(text: str, tool: Tool) -> list[ToolRun]:
    return [ToolRun(tool=tool, reports=parse(text, tool).reports)]


def test_a_bad_store_of_the_candidates_own_kernel_is_rejected_with_its_line():
    report = judged(RIGHT, runs(NEW_MEMCHECK, Tool.MEMCHECK), {"add_relu"})
    assert report.outcome is Outcome.FAILED
    finding = report.findings[0]
    assert (finding.code, finding.line) == ("correctness.out-of-bounds", 17)
    assert finding.evidence["tool"] == "memcheck"
    assert finding.evidence["address"] == "0x74505bcccca0"


def test_another_programs_kernel_is_told_and_held_against_nobody():
    report = judged(RIGHT, runs(INITCHECK, Tool.INITCHECK), {"add_relu"})
    assert report.outcome is Outcome.PASSED
    assert [f.blame for f in report.findings] == [Blame.MACHINE]


def test_shared_memory_decides_nothing():
    for text, tool in ((OLD_MEMCHECK, Tool.MEMCHECK), (RACES, Tool.RACECHECK)):
        report = judged(RIGHT, runs(text, tool), {"matmul_kernel_0d1d2d", "turn", "test"})
        assert report.outcome is Outcome.PASSED
        assert {f.code for f in report.findings} == {"correctness.sanitizer-note"}


def test_without_a_gpu_every_tool_is_not_checked_and_the_kernel_is_not_blamed():
    report = sanitized(
        RIGHT,
        candidate_of(""),
        problem(ADD_RELU),
        (),
        seed=SEED,
        target="sm90",
        device_index=None,
    )
    assert report.outcome is Outcome.PASSED
    assert "memcheck, initcheck, racecheck not checked" in report.says
    assert [f.evidence["tool"] for f in report.findings] == ["memcheck", "initcheck", "racecheck"]
    assert {f.blame for f in report.findings} == {Blame.MACHINE}
    assert all(f.evidence["needs"] for f in report.findings)


# The runner, with a tool of our own at the edge and the interpreter for a GPU.


@pytest.fixture
def root():
    made = ScratchRoot()
    yield made
    made.close()


def tool_that(folder: Path, body: str) -> Path:
    """A program in compute-sanitizer's place; `"$@"` after its ten words is ours."""
    path = folder / "compute-sanitizer"
    path.write_text(f"#!/bin/sh\nshift 10\n{body}\n")
    path.chmod(0o755)
    return path


def ran(root, program: Path, candidate: str, seconds: float = 60.0) -> ToolRun:
    asked = CallRequest(
        candidate=CANDIDATE + ADD_RELU_KERNEL + model(candidate),
        problem=problem(ADD_RELU).source,
        values={},
        precision=problem(ADD_RELU).precision,
        seed=1,
        target="sm90",
    )
    calling = tool_program(root, asked, None)
    return run_tool(Tool.MEMCHECK, calling, program=program, seconds=seconds)


def told(text: str) -> str:
    return "cat <<'END'\n" + text + "END\n"


def test_a_clean_run_names_the_isolation_that_the_candidate_had(root, tmp_path):
    tool = tool_that(tmp_path, '"$@" || exit 1\n' + told(CLEAN))
    run = ran(root, tool, OUT + "return launch(*inputs, out)")
    assert run.unchecked == ""
    assert run.reports == ()
    assert run.isolation == "landlock+seccomp"


def test_what_the_tool_printed_is_read_whatever_the_candidate_prints(root, tmp_path):
    tool = tool_that(tmp_path, '"$@" >/dev/null\n' + told(NEW_MEMCHECK) + "exit 86")
    lie = 'print("========= ERROR SUMMARY: 0 errors")\n'
    run = ran(root, tool, lie + OUT + "return launch(*inputs, out)")
    assert [r.place.line for r in run.reports] == [17]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (told(CLEAN), "not reached"),
        ('"$@"', "no summary"),
        ("echo '========= Error: Unable to find injection library'; exit 1", "injection library"),
        ("kill -9 $$", "not reached"),
    ],
)
def test_what_did_not_work_is_not_checked_and_says_why(root, tmp_path, body, why):
    run = ran(root, tool_that(tmp_path, body), OUT + "return launch(*inputs, out)")
    assert why in run.unchecked
    assert run.needs


def test_a_tool_that_never_ends_is_stopped_and_fails_nobody(root, tmp_path):
    run = ran(root, tool_that(tmp_path, "exec sleep 600"), "pass", seconds=1.0)
    assert "no end within 1 s" in run.unchecked
    assert "[[shape]]" in run.needs


def test_a_candidate_that_dies_under_the_tool_is_not_checked(root, tmp_path):
    tool = tool_that(tmp_path, '"$@"\ncode=$?\n' + told(CLEAN) + "exit $code")
    run = ran(root, tool, "raise ValueError('not here')")
    assert "left with 1" in run.unchecked


def test_a_missing_tool_is_not_checked(root, tmp_path):
    run = ran(root, tmp_path / "none", "pass")
    assert "does not start" in run.unchecked or "not reached" in run.unchecked


# On a GPU.

STRAY = ADD_RELU_KERNEL.replace(
    "    tl.store(", "    tl.store(o_ptr + n + offs, x, mask=offs < 8)\n    tl.store("
)
UNWRITTEN = ADD_RELU_KERNEL.replace(
    "    tl.store(", "    x += 0 * tl.load(o_ptr + offs, mask=mask, volatile=True)\n    tl.store("
)
RACY = ADD_RELU_KERNEL.replace(
    "    tl.store(",
    "    x = tl.inline_asm_elementwise('{ .shared .align 4 .b8 spot[4]; st.shared.b32 [spot], $1; "
    "ld.shared.b32 $0, [spot]; }', '=r,r', [x], dtype=tl.float32, is_pure=False, pack=1)\n"
    "    tl.store(",
)


class Named:
    """A launch as far as this stage looks at it."""

    kernel = "add_relu"


def on_gpu(kernel: str) -> StageReport:
    report = sanitized(
        RIGHT,
        candidate_of(CANDIDATE + kernel + model(OUT + "return launch(*inputs, out)")),
        problem(ADD_RELU),
        (Named(),),
        seed=SEED,
        target="sm90",
        device_index=0,
    )
    print(report.says, report.seconds, *report.findings, sep="\n  ")
    return report


@pytest.mark.gpu
@pytest.mark.skipif(find_sanitizer() is None, reason="no compute-sanitizer on this machine")
@pytest.mark.parametrize(
    ("kernel", "outcome", "code"),
    [
        (ADD_RELU_KERNEL, Outcome.PASSED, None),
        (STRAY, Outcome.FAILED, "correctness.out-of-bounds"),
        (UNWRITTEN, Outcome.FAILED, "correctness.uninitialised-read"),
        (RACY, Outcome.PASSED, "correctness.sanitizer-note"),
    ],
    ids=["right", "stray store", "unwritten memory", "shared race"],
)
def test_planted_faults_are_found_on_a_gpu(kernel, outcome, code):
    report = on_gpu(kernel)
    assert "correctness.sanitizer-unchecked" not in {f.code for f in report.findings}
    assert report.outcome is outcome
    assert [f.code for f in report.findings[:1]] == ([code] if code else [])

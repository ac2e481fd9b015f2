"""The backward walk: what it accepts, what it refuses and why, how it ends, and that it resumes."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs
from walk_parts import GEMM, OUT, STEPS, ScriptedBench, small_problem, walked

from workbench.cli.learned import report as told
from workbench.cli.report import card_text
from workbench.errors import WorkbenchError
from workbench.gate.records import (
    Blame,
    Finding,
    Outcome,
    Stage,
    StageReport,
    Verdict,
)
from workbench.kernels.source import normalized_sha256
from workbench.lineage.chain import transitions
from workbench.lineage.outlook import outlook
from workbench.lineage.records import Attempt, Termination, WalkLimits, bottom
from workbench.lineage.removals import removable
from workbench.lineage.removing import not_taken_out
from workbench.lineage.restored import Made, generated, operations, restored, same_code
from workbench.lineage.walk import Walk
from workbench.measure.records import Kind, PairSamples
from workbench.problems.load import load_problem
from workbench.session.reader import SessionReader
from workbench.session.records import Answer
from workbench.session.trailers import title

HERE = Path(__file__).parent
NOW = "2026-01-01T00:00:00+00:00"


def test_a_walk_ends_where_nothing_is_left_to_take_out():
    ended, walk, written = walked(ScriptedBench())
    assert ended.how is Termination.COMPLETE
    assert len([a for a in walk.attempts if a.accepted]) == STEPS
    assert written == walk.lines
    assert not list(removable(walk.attempts[-1].source))


def test_a_chain_begins_naive_only_where_nothing_was_left_to_take_out():
    for limits, begins in (
        (WalkLimits(), "naive: walked back from expert.py"),
        (WalkLimits(steps=2), "start: 2 mechanisms out of expert.py, "),
    ):
        _, walk, _ = walked(ScriptedBench(), limits)
        seed = next(transitions(walk.lines, NOW))[0]
        assert seed.origin.startswith(begins)
        assert bottom(title(seed)) == begins.partition(":")[0]


def test_a_removal_that_breaks_the_kernel_is_kept_as_rejected_and_the_walk_goes_on():
    ended, walk, _ = walked(ScriptedBench(wrong_without="num_programs"))
    bad = {a.category: a.code for a in walk.attempts if not a.accepted}
    # What runs through the wave of programs cannot be put back while that is there.
    assert bad == {
        "persistent-programs": "correctness.error-above-bound",
        "grouped-tiles": "lineage.forward-refused",
    }
    assert ended.how is Termination.COMPLETE
    assert any(a.accepted and a.category == "warps" for a in walk.attempts)


def test_a_limit_is_never_called_complete():
    ended, walk, _ = walked(ScriptedBench(), WalkLimits(steps=3))
    assert ended.how is Termination.STEP_LIMIT
    assert len(walk.attempts) == 3
    ended, walk, _ = walked(ScriptedBench(wrong_without="evict_last"), WalkLimits(rejections=2))
    assert ended.how is Termination.REJECTION_LIMIT
    assert len([a for a in walk.attempts if not a.accepted]) == 2


def test_a_way_back_that_is_slower_than_what_there_was_is_no_step():
    _, walk, _ = walked(ScriptedBench(slow_back=True))
    rejected = {a.category: a for a in walk.attempts if not a.accepted}
    # Its forward edit writes other text than the expert's.
    assert rejected["persistent-programs"].code == "profile.slower"
    assert rejected["persistent-programs"].ratio == 0.5
    assert all(a.ratio == 1.0 for a in walk.attempts if a.accepted)


def test_what_the_compiler_puts_back_is_not_taken_out():
    _, walk, _ = walked(ScriptedBench(alike=True))
    assert {a.code for a in walk.attempts} == {"lineage.same-code"}


def test_an_expert_that_fails_its_own_gate_is_refused_and_nothing_is_kept():
    written = []
    bench = ScriptedBench(wrong_without="no such word")
    with pytest.raises(WorkbenchError, match=r"the expert is rejected at correctness"):
        Walk(bench, WalkLimits(), written.append).run(GEMM, "expert.py")
    assert written == []


def test_an_expert_with_nothing_to_take_out_is_refused_by_what_the_walk_knows():
    naive = walked(ScriptedBench())[1].attempts[-1].source
    with pytest.raises(WorkbenchError, match="nothing in the expert can be taken out") as met:
        Walk(ScriptedBench(), WalkLimits(), [].append).run(naive, "expert.py")
    assert "grouped-tiles" in met.value.todo
    assert "--proposer both" in met.value.todo


def test_an_interrupted_walk_goes_on_and_judges_nothing_twice():
    whole = walked(ScriptedBench())[1].lines
    for cut in range(1, len(whole)):
        bench = ScriptedBench()
        _, walk, written = walked(bench, lines=whole[:cut])
        assert [getattr(line, "category", "") for line in walk.lines] == [
            getattr(line, "category", "") for line in whole
        ]
        assert len(written) == len(whole) - cut
        known = {line.source for line in whole[:cut] if isinstance(line, Attempt)} | {GEMM}
        assert not known & set(bench.judged)


def test_the_chain_reads_from_naive_to_expert_and_the_rejected_hang_off_their_state():
    _, walk, _ = walked(ScriptedBench(wrong_without="num_programs"))
    made = list(transitions(walk.lines, NOW))
    chain = [(t, s) for t, s in made if t.decision.answer is Answer.ACCEPTED]
    assert [t.parent for t, _ in chain] == [None, *range(len(chain) - 1)]
    assert chain[-1][1] == GEMM
    by_number = {t.number: s for t, s in made}
    for transition, source in made:
        if transition.decision.answer is Answer.REJECTED:
            parent = by_number[transition.parent]
            assert normalized_sha256(source) == transition.backward.before
            assert normalized_sha256(parent) == transition.backward.after
    assert [t.backward.category for t, _ in chain[1:]] == [
        a.category for a in reversed(walk.attempts) if a.accepted
    ]


class MeasuringBench(ScriptedBench):
    kind = Kind.MEASURED


def test_a_measured_step_has_the_ratio_of_the_pairs_in_which_it_was_taken_out():
    ended, walk, _ = walked(MeasuringBench())
    made = [t for t, _ in transitions(walk.lines, NOW)]
    steps = [t for t in made if t.backward is not None]
    assert {round(t.gate.speed.ratio, 6) for t in steps} == {round(1 / OUT, 6)}
    assert all(t.gate.speed.low < 1 / OUT < t.gate.speed.high for t in steps)
    # No product of steps: the expert was timed against the naive kernel once more.
    assert ended.speed.kind is Kind.MEASURED
    assert made[-1].gate.versus_seed == ended.speed
    # The seed has no parent, although it was timed against the kernel above it.
    assert (made[0].parent, made[0].gate.speed, made[0].gate.against) == (None, None, None)
    assert all(t.gate.versus_seed is None for t in made[:-1])


def test_a_way_back_must_hold_in_every_run_of_pairs():
    bench = MeasuringBench()
    bench.second_run = 0.98
    _, walk, _ = walked(bench)
    slow = [a for a in walk.attempts if a.code == "lineage.block-slower"]
    assert slow
    assert all(a.blocks == pytest.approx((1.0, 0.98)) for a in slow)
    assert "0.980x of what there was in one run" in slow[0].why


LEARN = [sys.executable, "-m", "workbench.cli.main", "learn"]
EXPERT = load_problem("gemm").seed.read_text().replace("BLOCK_K=32", "BLOCK_K=16")
"""Three mechanisms, as few as a kill in the middle needs: each is a whole verdict."""


def test_an_expert_is_walked_back_by_the_real_gate_through_a_kill(tmp_path):
    """The process dies in the middle; the second call goes on, and the session is whole."""
    steps = outlook(EXPERT).mechanisms
    assert steps == 3
    where = ["--session", "walk", "--sessions", str(tmp_path), "--json"]
    problem, expert = str(small_problem(tmp_path)), tmp_path / "expert.py"
    expert.write_text(EXPERT)
    begin = [*LEARN, str(expert), "--problem", problem, "--device", "cpu", *where]
    seen = []
    with subprocess.Popen(begin, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            seen.append(json.loads(line))
            if len(seen) == 3:
                os.kill(process.pid, signal.SIGKILL)
                break
    again = subprocess.run([*LEARN, *where], capture_output=True, text=True, check=True)
    new = [json.loads(line) for line in again.stdout.splitlines()]
    assert new[-1]["how"] == "complete"
    done, now = (
        {(a["category"], a["locus"]) for a in lines if a["type"] == "attempt"}
        for lines in (seen, new)
    )
    assert len(done) == 2
    assert now
    assert done.isdisjoint(now)

    store = SessionReader(tmp_path / "walk")
    chain = [v for v in store.overview().versions if v.answer is Answer.ACCEPTED]
    assert len(chain) == steps + 1
    assert store.source(chain[-1].number) == EXPERT
    last = store.transition(chain[-1].number)
    assert last.gate.time.kind is Kind.MODELED
    assert last.backward.category == "pipelined-loads"
    assert "put back  the same text (the very text, 1.000x" in card_text(last)
    assert "; complete: no inverse finds" in store.transition(0).decision.reason
    assert "v0   naive" in told(tmp_path / "walk")


class Costly(ScriptedBench):
    """Ten GPU-seconds a verdict."""

    def judge(self, source):
        return structs.replace(super().judge(source), gpu_seconds=10.0)


def test_a_walk_begins_no_attempt_whose_price_does_not_fit_its_budget():
    limits = WalkLimits(gpu_seconds=25.0)
    ended, walk, _ = walked(Costly(), limits)
    assert ended.how is Termination.BUDGET
    assert ended.says.startswith(
        "20 of 25 GPU-seconds are spent, and what comes next takes about 10"
    )
    assert len(walk.attempts) == 1
    # What another process has spent counts on.
    ended, again, _ = walked(Costly(), limits, walk.lines[:-1])
    assert ended.how is Termination.BUDGET
    assert len(again.attempts) == 1


def test_a_removal_with_another_text_on_its_way_back_is_two_verdicts_to_a_budget():
    _, whole, _ = walked(Costly())
    two = next(at for at, a in enumerate(whole.attempts) if a.roundtrip is not None)
    before = 10.0 * (1 + two)
    for room, judged in ((19.0, two), (20.0, two + 1)):
        ended, walk, _ = walked(Costly(), WalkLimits(gpu_seconds=before + room))
        assert ended.how is Termination.BUDGET
        assert len(walk.attempts) == judged


def test_a_budget_leaves_room_for_the_pairs_at_the_end():
    stage = StageReport(stage=Stage.PROFILE, outcome=Outcome.PASSED, says="timed", seconds=4.0)
    run = PairSamples(run="beside", us={"candidate": (10.0,)}, gpu_seconds=3.0)

    class Timed(Costly):
        kind = Kind.MEASURED

        def judge(self, source):
            said = super().judge(source)
            return structs.replace(said, stages=(*said.stages, stage), samples=(run,))

        def beside(self, source, floor):
            return structs.replace(super().beside(source, floor), samples=(run,))

    for budget, judged in ((22.9, 0), (23.0, 1)):
        ended, walk, _ = walked(bench := Timed(), WalkLimits(gpu_seconds=budget))
        assert ended.how is Termination.BUDGET
        assert len(walk.attempts) == judged
    assert bench.timed == (GEMM, walk.attempts[-1].source)


def test_what_text_and_compiler_tell_costs_no_verdict():
    _, walk, _ = walked(bench := ScriptedBench(alike=True))
    assert {a.code for a in walk.attempts} == {"lineage.same-code"}
    assert bench.judged == [GEMM]


def test_a_way_back_that_does_the_same_work_is_compared_and_not_timed():
    bench = ScriptedBench(slow_back=True)
    bench.work = lambda source: "w" if "num_programs" in source else normalized_sha256(source)
    _, walk, _ = walked(bench)
    alike = [a for a in walk.attempts if a.same_work]
    assert [a.category for a in alike] == ["persistent-programs"]
    assert bench.proven == [alike[0].forward]
    assert alike[0].accepted
    assert alike[0].ratio == 1.0
    step = next(
        t for t, _ in transitions(walk.lines, NOW) if t.backward and t.plan.edit == "persistent"
    )
    assert "same machine code" in step.decision.reason


def busy(said):
    """The machine kept a verdict open."""
    finding = Finding(code="profile.noisy", says="clocks", blame=Blame.MACHINE)
    stage = StageReport(
        stage=Stage.PROFILE, outcome=Outcome.UNPROVEN, says="clocks", findings=(finding,)
    )
    return structs.replace(said, verdict=Verdict.UNPROVEN, code="profile.noisy", stages=(stage,))


def test_a_verdict_that_the_machine_kept_open_is_asked_once_more():
    class Busy(ScriptedBench):
        def __init__(self):
            super().__init__()
            self.asked = set()

        def judge(self, source):
            said = super().judge(source)
            first = source not in self.asked
            self.asked.add(source)
            return busy(said) if first else said

        def beside(self, source, floor):
            said = super().beside(source, floor)
            return busy(said) if self.judged.count(source) == 1 else said

    ended, walk, _ = walked(Busy())
    assert ended.how is Termination.COMPLETE
    assert not [a for a in walk.attempts if not a.accepted]


def test_what_the_compiler_made_is_compared_with_and_without():
    def with_mix(said, mix):
        (launch,) = said.launches
        static = structs.replace(launch.static, mix=mix)
        return structs.replace(said, launches=(structs.replace(launch, static=static),))

    before = with_mix(ScriptedBench().judge(GEMM), {"UTMALDG": 4, "HGMMA": 8})
    gone = with_mix(before, {"LDGSTS": 6, "HGMMA": 8})
    had = Made(before)
    assert restored("tensor-descriptors", had, had).endswith("(SASS UTMALDG 4 to 4)")
    assert restored("tensor-descriptors", had, Made(gone)) == ""
    assert restored("warps", had, had) == ""
    assert generated(had, Made(gone)) == {"SASS LDGSTS": (0, 6), "SASS UTMALDG": (4, 0)}


TTGIR = """
#blocked = #ttg.blocked<{sizePerThread = [1, 8]}>
module attributes {"ttg.num-warps" = 8 : i32, ttg.target = "cuda:90"} {
  tt.func public @k(%arg0: !tt.ptr<bf16> {tt.divisibility = 16 : i32}) {
    %0 = tt.get_program_id x : i32
    %1:2 = scf.for %i = %0 to %0 step %0 iter_args(%a = %0) -> (i32) : i32 {
      %2 = ttg.async_copy_global_to_local %p, %m : tensor<64x!tt.ptr<bf16>, #blocked>
      %3 = ttg.async_wait %2 {num = 0 : i32}
      %4 = ttg.convert_layout %5 : tensor<8xf32, #blocked> -> tensor<8xf32, #mma>
      scf.yield %0 : i32
    }
    tt.store %x, %4 : tensor<8x!tt.ptr<f32>, #blocked>
    tt.return
  }
}
"""


def test_the_operations_of_ttgir_are_counted_and_not_its_types():
    assert operations(TTGIR) == {
        "tt.get_program_id": 1,
        "scf.for": 1,
        "ttg.async_copy_global_to_local": 1,
        "ttg.async_wait": 1,
        "ttg.convert_layout": 1,
        "tt.store": 1,
    }


def test_what_the_compiler_restores_is_told_by_level_with_counts():
    before = ScriptedBench().judge(GEMM)
    copies = {"ttg.async_copy_global_to_local": 6, "tt.store": 1}
    one, other = Made(before, copies), Made(before, {"tt.load": 2, "tt.store": 1})
    assert restored("pipelined-loads", one, one).endswith(
        "(TTGIR ttg.async_copy_global_to_local 6 to 6)"
    )
    assert restored("pipelined-loads", one, other) == ""
    # Other machine code, but as many copies: the mechanism was not taken out.
    moved = Made(ScriptedBench().judge(f"{GEMM}\nMOVED = 1\n"), copies)
    assert not_taken_out("pipelined-loads", one, moved)[0] == "lineage.restored"
    assert not_taken_out("pipelined-loads", one, one)[0] == "lineage.same-code"
    assert not_taken_out("warps", one, moved) is None
    # What only chose among kernels leaves the one that was chosen.
    assert not_taken_out("autotuned-options", one, one) is None
    assert same_code(one, one).endswith("the same operations in TTGIR already")
    assert "from another TTGIR (tt.load 0 to 2, ttg.async" in same_code(one, other)
    assert "TTGIR" not in same_code(one, Made(before))
    assert generated(one, other) == {
        "TTGIR tt.load": (0, 2),
        "TTGIR ttg.async_copy_global_to_local": (6, 0),
    }
    # Where a text was not kept, nothing is said of it.
    assert generated(one, Made(before)) == {}


def test_what_a_walk_will_ask_is_counted_before_it_asks():
    _, walk, _ = walked(bench := ScriptedBench())
    ahead = outlook(GEMM)
    assert ahead.mechanisms == len([a for a in walk.attempts if a.accepted])
    assert ahead.verdicts == len(bench.judged) - 1  # the expert's own
    assert ahead.gpu_seconds(2.0) == 2.0 * ahead.verdicts

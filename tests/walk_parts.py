"""A backward walk without a gate: a bench that judges kernels by the words they still have."""

import re
from pathlib import Path

from engine_parts import report
from msgspec import structs

from workbench.gate.records import GateReport, Verdict
from workbench.kernels.records import Launch, StaticProfile
from workbench.kernels.source import normalized_sha256
from workbench.lineage.records import WalkLimits
from workbench.lineage.walk import Walk
from workbench.measure.records import Kind, PairSamples, Speed
from workbench.problems.load import load_problem

HERE = Path(__file__).parent
SMALL = "M = N = 128\nK = 256\n"
"""Sizes of a product whose full shape costs a real gate little more than its tiny one."""
GEMM = (HERE / "experts" / "gemm_persistent.py").read_text()
STEPS = 9
OUT = 0.8
"""Ratio of every predecessor against its state."""


def launched(source: str) -> tuple[Launch, ...]:
    """A launch whose compiled code differs where the text does."""
    static = StaticProfile(
        registers=32,
        spill_store_bytes=0,
        spill_load_bytes=0,
        stack_bytes=0,
        shared_bytes=0,
        threads=128,
        programs_per_sm=4,
        occupancy=0.5,
        limiter="registers",
        code_bytes=int(normalized_sha256(source)[:8], 16),
    )
    return (
        Launch(
            kernel="gemm_kernel",
            grid=(1, 1, 1),
            arguments={},
            constexprs={},
            num_warps=4,
            num_stages=1,
            num_ctas=1,
            line=1,
            cubin_sha256="",
            static=static,
            compile_seconds=0.0,
        ),
    )


class ScriptedBench:
    """Judges by the words that a kernel still has."""

    kind = Kind.MODELED
    second_run = 1.0
    """Ratio of a way back in its second run of pairs."""
    work = None
    """Digest of what a text makes a GPU do; None: the gate does not know."""

    def __init__(self, *, wrong_without: str = "", slow_back: bool = False, alike: bool = False):
        self.wrong_without = wrong_without
        self.slow_back = slow_back
        self.alike = alike
        self.judged = []
        self.proven = []
        """Kernels that were compared and not timed."""

    def judge(self, source: str) -> GateReport:
        self.judged.append(source)
        wrong = self.wrong_without and self.wrong_without not in source
        verdict = Verdict.REJECTED if wrong else Verdict.ACCEPTED
        said = report(microseconds=1e6 / len(source), verdict=verdict)
        launches = launched("" if self.alike else source)
        time = structs.replace(said.time, kind=self.kind) if said.time is not None else None
        return structs.replace(
            said,
            launches=launches,
            speed=None,
            time=time,
            work=self.work(source) if self.work else "",
        )

    def look(self, source: str, state: str, before: GateReport, floor: float | None):
        del state, before
        return ScriptedLook(self, source, floor)

    def operations(self, report: GateReport) -> dict[str, int]:
        del report
        return {}

    def pairs(self, source: str, state: str) -> Speed | None:
        self.timed = (source, state)
        return Speed(kind=self.kind, ratio=3.0, low=2.9, high=3.1)

    def beside(self, source: str, floor: float | None) -> GateReport:
        ratio = OUT if floor is None else 0.5 if self.slow_back else 1.0
        said = self.judge(source)
        if said.verdict is not Verdict.ACCEPTED or ratio <= (floor or 0.0):
            verdict, code = Verdict.REJECTED, said.code or "profile.slower"
        else:
            verdict, code = Verdict.ACCEPTED, ""
        speed = Speed(kind=self.kind, ratio=ratio, low=ratio - 0.01, high=ratio + 0.01)
        decides = floor is not None and self.kind is not Kind.MODELED
        samples = tuple(
            PairSamples(run="first", us={"parent": (10.0 * r,) * 14, "candidate": (10.0,) * 14})
            for r in ([1.0, self.second_run] if decides else [])
        )
        return structs.replace(said, verdict=verdict, code=code, speed=speed, samples=samples)


class ScriptedLook:
    """A kernel that is compiled, and judged when the walk wants it."""

    def __init__(self, bench: ScriptedBench, source: str, floor: float | None):
        said = report()
        work = "" if bench.work is None else bench.work(source)
        self.report = structs.replace(
            said, launches=launched("" if bench.alike else source), speed=None, work=work
        )
        self._bench, self._source, self._floor = bench, source, floor

    def judged(self) -> GateReport:
        return self._bench.beside(self._source, self._floor)

    def proven(self) -> GateReport:
        self._bench.proven.append(self._source)
        return self._bench.judge(self._source)


def walked(bench, limits=None, lines=()):
    written = []
    walk = Walk(bench, limits or WalkLimits(), written.append, lines)
    return walk.run(GEMM, "expert.py"), walk, written


def small_problem(folder: Path) -> Path:
    """The shipped gemm at small sizes."""
    shipped = load_problem("gemm")
    path = folder / "small_gemm.py"
    path.write_text(re.sub(r"(?:^[MNK] = \d+\n)+", SMALL, shipped.source, flags=re.MULTILINE))
    sidecar = re.sub(r'\[\[shape\]\]\nname = "small"\n.*\n\n', "", shipped.sidecar)
    path.with_suffix(".toml").write_text(sidecar)
    return path

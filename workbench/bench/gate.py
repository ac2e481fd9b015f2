"""What a verdict costs: refusals, a whole answer on a tiny shape, and many candidates in flight."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from msgspec import structs

from workbench.bench.costs import Row
from workbench.bench.fuzz_texts import HEAD, PROBLEM, RIGHT
from workbench.engine.devices import Place
from workbench.errors import WorkbenchError
from workbench.gate import compile as compiling
from workbench.gate.candidate import Candidate
from workbench.gate.correctness import stage as correctness
from workbench.gate.correctness.stage import CorrectnessSettings, usual_shapes
from workbench.gate.judge import JOB_MODULES, GateSettings, judge
from workbench.gate.parts import Parts
from workbench.gate.policy import check as policy
from workbench.gate.problem.inspect import JOB_MODULES as INSPECTING
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.problem.records import ProblemReport
from workbench.gate.records import GateReport, Outcome, StageReport, Verdict
from workbench.gate.timing.stage import GpuTimer, TimerSettings
from workbench.isolation.workshop import Workshop
from workbench.problems.records import Precision, Problem, Shape

_RUNS = 5
"""Runs that a median is taken of."""
_IN_FLIGHT = 4
_FLIGHTS = 8
"""Candidates of the measurement with several in flight."""

_BROKEN = RIGHT.replace("tl.maximum(x, 0.0)", "tl.maximum(x, nothing)")
_COMPUTES = RIGHT.replace("return launch(x, y)", "return torch.relu(x + y)")


def measure_gate(place: Place, only: str, show: Callable[[Row], None]) -> Iterator[Row]:
    """Measure line by line; `show` is called with each as it is known.

    Everything but the policy is measured with warm forkservers, as a session has them from its
    first minute on. `only` names one measurement, empty: all. Raises WorkbenchError where no worker
    starts, and where `only` is none of those that can be made at this place.
    """
    looks = {"policy": _policy, "largest": _policy_on_the_largest, "cpu": _whole_on_the_cpu}
    if place.index is not None:
        on_a_gpu = {"opening": _opening, "isolated": _isolated, "step": _step, "flight": _flight}
        looks |= {name: partial(look, place, place.index) for name, look in on_a_gpu.items()}
    if only and only not in looks:
        names = ", ".join(looks)
        raise WorkbenchError(f"no measurement {only!r} here", todo=f"there are {names}")
    for name, look in looks.items():
        for row in look() if only in ("", name) else ():
            show(row)
            yield row


def _row(what: str, seconds: list[float], goal: float) -> Row:
    took = statistics.median(seconds)
    return Row(
        what=what,
        says=f"{took:.3f} s",
        goal=f"< {goal:g} s",
        met=took < goal,
    )


def _timed(work: Callable[[], object]) -> list[float]:
    seconds = []
    for _ in range(_RUNS):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return seconds


def _policy() -> Iterator[Row]:
    if policy.check(_COMPUTES).outcome is not Outcome.FAILED:
        raise RuntimeError("the candidate that computes in torch was to be refused")
    yield _row("rejected at policy", _timed(lambda: policy.check(_COMPUTES)), 0.1)


def _policy_on_the_largest() -> Iterator[Row]:
    """A file as long as the longest that is lifted from a network: many kernels and launches."""
    text = _long_file()
    took = _timed(lambda: policy.check(text))
    yield _row(f"policy over a file of {len(text) >> 10} KiB", took, 0.1)


def _long_file() -> str:
    kernels, launches = 60, 4
    body, calls = [HEAD], []
    one = HEAD.partition("@triton.jit")[2].partition("def launch")[0]
    for index in range(kernels):
        body.append("@triton.jit" + one.replace("add_relu", f"k{index}"))
        call = (
            f"        k{index}[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)\n"
        )
        calls += [call] * launches
    forward = "        out = torch.empty_like(x)\n" + "".join(calls) + "        return out\n"
    body.append("class ModelNew(nn.Module):\n    def forward(self, x, y):\n" + forward)
    return "\n".join(body)


def _tiny() -> Problem:
    return Problem(
        name="add-relu",
        path=Path("add-relu.py"),
        source=PROBLEM,
        shapes=(Shape(name="file"),),
        precision=Precision.IEEE,
    )


def _whole_on_the_cpu() -> Iterator[Row]:
    problem = _tiny()
    with Workshop(preload=(*JOB_MODULES, *INSPECTING)) as workshop:
        facts = inspect_problem(problem, workshop)

        def verdict(text: str) -> Verdict:
            settings = GateSettings(target="sm90", rung=2)
            one = Candidate(content=text.encode())
            return judge(one, problem, lambda: facts, settings, workshop).verdict

        def compiled() -> Outcome:
            one = Candidate(content=_BROKEN.encode())
            return compiling.run(one, facts.full, "sm90", workshop).report.outcome

        if verdict(RIGHT) is not Verdict.ACCEPTED or compiled() is not Outcome.FAILED:
            raise RuntimeError("the gate's own candidates are not judged as they should be")
        yield _row("rejected at compile, workers warm", _timed(compiled), 1.0)
        yield _row("whole verdict on the CPU path, tiny shape", _timed(lambda: verdict(RIGHT)), 5.0)


def _sharing(index: int, *, spares: bool = True) -> Workshop:
    preload = (*JOB_MODULES, *INSPECTING)
    return Workshop(device_index=index, share_device_memory=True, preload=preload, spares=spares)


def _opening(place: Place, index: int) -> Iterator[Row]:
    """What a session waits for before its first verdict: forkservers that import torch, once."""
    problem, parts = _tiny(), Parts()
    began = time.perf_counter()
    with _sharing(index) as workshop:
        workshop.warm_all()
        with parts.of("inspecting the problem, forkserver included"):
            facts = inspect_problem(problem, workshop)
        with parts.of("first correctness, forkservers included"):
            _compared(problem, facts, workshop, place, index)
    seconds = time.perf_counter() - began
    what = "from nothing to the first isolated correctness on the GPU"
    yield Row(what=what, says=f"{seconds:.1f} s", goal="", met=True, parts=parts.told())


def _compared(
    problem: Problem, facts: ProblemReport, workshop: Workshop, place: Place, index: int
) -> StageReport:
    wanted = CorrectnessSettings(
        shapes=usual_shapes(problem, device_index=index, rung=1, facts=facts),
        device_index=index,
        target=place.target,
    )
    report = correctness.run(Candidate(content=RIGHT.encode()), problem, wanted, workshop)
    if report.outcome is not Outcome.PASSED:
        raise RuntimeError(f"the gate's own candidate is not right on this GPU: {report.says}")
    return report


def _isolated(place: Place, index: int) -> Iterator[Row]:
    """As a session has it, and with every worker started when it is asked for."""
    yield _isolated_with(
        place, index, "isolated correctness on the GPU, after warm-up", spares=True
    )
    what = "the same, no worker started ahead"
    yield structs.replace(_isolated_with(place, index, what, spares=False), goal="", met=True)


def _isolated_with(place: Place, index: int, what: str, *, spares: bool) -> Row:
    problem = _tiny()
    with _sharing(index, spares=spares) as workshop:
        facts = inspect_problem(problem, workshop)
        # The first one starts forkservers and compiles what later ones find.
        runs = [_compared(problem, facts, workshop, place, index) for _ in range(_RUNS + 1)][1:]
    row = _row(what, [run.seconds for run in runs], 1.5)
    return structs.replace(row, parts=_typical(runs).parts)


def _typical(runs: Sequence[StageReport]) -> StageReport:
    """The one with the median seconds."""
    return sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]


def _step(place: Place, index: int) -> Iterator[Row]:
    """A step that turns out to be no gain, as most do: the same kernel again, by another text."""
    problem = _tiny()
    again = Candidate(content=f"{RIGHT}\n# again\n".encode())
    with _sharing(index) as workshop:
        facts = inspect_problem(problem, workshop)
        judged = _judging(problem, facts, workshop, place, index)
        judged(again)
        seconds, reports = [], []
        for _ in range(_RUNS):
            began = time.perf_counter()
            reports.append(judged(again, parent=Candidate(content=RIGHT.encode())))
            seconds.append(time.perf_counter() - began)
    typical = sorted(reports, key=lambda one: sum(s.seconds for s in one.stages))[_RUNS // 2]
    parts: dict[str, float] = {}
    for stage in typical.stages:
        parts[str(stage.stage)] = stage.seconds
        parts |= {f"{stage.stage}, {part}": took for part, took in stage.parts.items()}
    took = f"{statistics.median(seconds):.3f} s"
    yield Row(what="a step timed against its parent", says=took, goal="", met=True, parts=parts)


def _judging(
    problem: Problem, facts: ProblemReport, workshop: Workshop, place: Place, index: int
) -> Callable[..., GateReport]:
    settings = GateSettings(target=place.target, device=place.device, device_index=index, rung=1)
    wanted = TimerSettings(target=place.target, device=place.device, device_index=index)
    timer = GpuTimer(problem, lambda: facts, wanted, workshop)
    return lambda one, **more: judge(
        one, problem, lambda: facts, settings, workshop, timer=timer, **more
    )


def _flight(place: Place, index: int) -> Iterator[Row]:
    """Candidates that are compiled and checked side by side; only a timing has the GPU alone."""
    problem = _tiny()
    with _sharing(index) as workshop, ExitStack() as stack:
        facts = inspect_problem(problem, workshop)
        judged = _judging(problem, facts, workshop, place, index)

        def verdict(number: int) -> Verdict:
            found: Verdict = judged(Candidate(content=f"{RIGHT}\n# {number}\n".encode())).verdict
            return found

        verdict(-1)
        for lanes in (1, _IN_FLIGHT):
            pool = stack.enter_context(ThreadPoolExecutor(lanes))
            began = time.perf_counter()
            verdicts = list(pool.map(verdict, range(_FLIGHTS * lanes, _FLIGHTS * (lanes + 1))))
            seconds = time.perf_counter() - began
            yield Row(
                what=f"verdicts a minute, {lanes} in flight, each timed alone on the GPU",
                says=f"{60 * len(verdicts) / seconds:.1f}",
                goal=f"all of {_FLIGHTS}",
                met=all(one is Verdict.ACCEPTED for one in verdicts),
            )

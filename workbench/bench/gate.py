"""What a verdict costs: refusals, a whole answer on a tiny shape, and many candidates in flight."""

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from workbench.bench.fuzz_texts import HEAD, PROBLEM, RIGHT
from workbench.bench.start import Row
from workbench.engine.devices import Place
from workbench.gate import compile as compiling
from workbench.gate.candidate import Candidate
from workbench.gate.correctness import stage as correctness
from workbench.gate.correctness.stage import CorrectnessSettings, usual_shapes
from workbench.gate.judge import JOB_MODULES, GateSettings, judge
from workbench.gate.policy import check as policy
from workbench.gate.problem.inspect import JOB_MODULES as INSPECTING
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.records import Outcome, Verdict
from workbench.gate.timing.stage import GpuTimer, TimerSettings
from workbench.isolation.workshop import Workshop
from workbench.problems.records import Precision, Problem, Shape

_RUNS = 5
"""Medians of so many."""
_IN_FLIGHT = 4
_FLIGHTS = 16
"""Candidates of the measurement with several in flight."""

_BROKEN = RIGHT.replace("tl.maximum(x, 0.0)", "tl.maximum(x, nothing)")
_COMPUTES = RIGHT.replace("return launch(x, y)", "return torch.relu(x + y)")


def measure_gate(place: Place, show: Callable[[Row], None]) -> Iterator[Row]:
    """Measure line by line; `show` is called with each as it is known.

    Everything but the policy is measured with warm forkservers, as a session has them from its
    first minute on. Raises WorkbenchError where no worker starts.
    """
    looks = [_policy, _policy_on_the_largest, _whole_on_the_cpu]
    if place.index is not None:
        looks += [partial(_isolated, place.index, place.target), partial(_flight, place)]
    for look in looks:
        for row in look():
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


def _long_file(kernels: int = 60, launches: int = 4) -> str:
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


def _sharing(index: int) -> Workshop:
    preload = (*JOB_MODULES, *INSPECTING)
    return Workshop(device_index=index, share_device_memory=True, preload=preload)


def _isolated(index: int, target: str) -> Iterator[Row]:
    problem = _tiny()
    with _sharing(index) as workshop:
        facts = inspect_problem(problem, workshop)

        def compared() -> Outcome:
            wanted = CorrectnessSettings(
                shapes=usual_shapes(problem, device_index=index, rung=1, facts=facts),
                device_index=index,
                target=target,
            )
            one = Candidate(content=RIGHT.encode())
            return correctness.run(one, problem, wanted, workshop).outcome

        if compared() is not Outcome.PASSED:
            raise RuntimeError("the gate's own candidate is not right on this GPU")
        yield _row("isolated correctness on the GPU, after warm-up", _timed(compared), 1.5)


def _flight(place: Place) -> Iterator[Row]:
    """Candidates that are compiled and checked side by side; only a timing has the GPU alone."""
    problem = _tiny()
    index = place.index or 0
    settings = GateSettings(target=place.target, device=place.device, device_index=index, rung=1)
    with _sharing(index) as workshop, ExitStack() as stack:
        facts = inspect_problem(problem, workshop)
        wanted = TimerSettings(target=place.target, device=place.device, device_index=index)
        timer = GpuTimer(problem, lambda: facts, wanted, workshop)

        def verdict(number: int) -> Verdict:
            content = f"{RIGHT}\n# {number}\n".encode()
            return judge(
                Candidate(content=content), problem, lambda: facts, settings, workshop, timer=timer
            ).verdict

        verdict(-1)
        pool = stack.enter_context(ThreadPoolExecutor(_IN_FLIGHT))
        began = time.perf_counter()
        verdicts = list(pool.map(verdict, range(_FLIGHTS)))
        seconds = time.perf_counter() - began
    accepted = sum(one is Verdict.ACCEPTED for one in verdicts)
    yield Row(
        what=f"verdicts a minute, {_IN_FLIGHT} in flight, each timed alone on the GPU",
        says=f"{60 * len(verdicts) / seconds:.1f}",
        goal=f"all of {_FLIGHTS}",
        met=accepted == _FLIGHTS,
    )

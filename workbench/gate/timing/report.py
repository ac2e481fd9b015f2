"""Turns a timing into a report: its sentences, and who is to blame if there is no time. Pure."""

from collections.abc import Sequence

from msgspec import structs

from workbench.gate.profile import Profiled
from workbench.gate.records import Blame, Evidence, Finding, Outcome, Stage, StageReport
from workbench.gate.timing.paired_run import Noisy
from workbench.gate.timing.sides import CANDIDATE, REFERENCE
from workbench.gate.timing.turns import Disagreement, SideFault
from workbench.measure.gpulock import GpuBusy
from workbench.measure.gpuwatch import Watch
from workbench.measure.pairs import Answer, PairRule
from workbench.measure.records import Limit, Speed, Time

LARGE_SPEEDUP = 10.0
"""A speedup over eager PyTorch that deserves a person's look; never refused (gate protocol, 9.6).
"""
_MEMORY = ("correctness.gpu-memory", "correctness.gpu-full")
"""Out-of-memory findings that already say who is to blame."""
_SMALLER = "a smaller full [[shape]] in the problem's sidecar"


def side_failed(fault: SideFault) -> tuple[Outcome, Finding]:
    """What a side's fault means for the candidate: only its own counts against it."""
    finding = fault.finding
    if finding.code not in _MEMORY and "out of memory" in finding.says.lower():
        says = f"the GPU's memory does not hold the full shape ({fault.side}): {finding.says}"
        return Outcome.UNPROVEN, Finding(
            code="profile.out-of-memory",
            says=says[:600],
            blame=Blame.MACHINE,
            evidence={"needs": _SMALLER},
        )
    if fault.side == CANDIDATE:
        failed = finding.blame is Blame.CANDIDATE
        code = f"profile.{finding.code.partition('.')[2]}"
        return Outcome.FAILED if failed else Outcome.UNPROVEN, structs.replace(finding, code=code)
    return Outcome.UNPROVEN, structs.replace(
        finding,
        code=f"profile.{fault.side}-failed",
        says=f"nothing was decided, the {fault.side} failed: {finding.says}",
        line=None,
        blame=finding.blame if fault.side == REFERENCE else Blame.MACHINE,
        evidence={**finding.evidence, "found": finding.code},
    )


def no_gain(speed: Speed, found: Answer, rule: PairRule) -> Finding | None:
    """Why the pairs of a step do not count as a gain; None when they do.

    Pairs that stayed undecided are reported as such; they do not count as a gain either.
    """
    told = speed.in_full()
    match found:
        case Answer.FASTER:
            return None
        case Answer.SLOWER:
            code, says = "profile.slower", f"{told}: slower than its parent"
        case Answer.NO_GAIN:
            code = "profile.not-faster"
            says = f"{told}: no gain above {rule.threshold:g}x over its parent"
        case Answer.UNDECIDED:
            code = "profile.cannot-tell"
            says = f"{told}: too uncertain to call it over {rule.threshold:g}x its parent"
    evidence: Evidence = {
        "ratio": speed.ratio,
        "threshold": rule.threshold,
        "apart_us": rule.apart_us,
        "kind": str(speed.kind),
    }
    return Finding(code=code, says=says, evidence=evidence)


FOUND_ONCE = "profile.found-once"
"""Code of a gain that only one run has found."""


def found_once(speed: Speed) -> Finding:
    """The finding that a gain is not yet confirmed, which is neither a fault nor a verdict."""
    says = f"{speed.in_full()} over its parent in one run, not confirmed yet"
    return Finding(code=FOUND_ONCE, says=says, blame=Blame.MACHINE)


def with_finding(profiled: Profiled, outcome: Outcome, finding: Finding) -> Profiled:
    """The numbers with a report that consists of one finding."""
    return structs.replace(profiled, report=timing_report(outcome, finding.says, [finding]))


def contradicted(side: str, found: Disagreement) -> tuple[Outcome, Finding]:
    """The outcome for a side whose clocks disagree.

    A candidate whose events saw less than the GPU was busy, by more than an idle machine's wake-up
    latency, hid work from the clock: it is refused. Any disagreement with another explanation, or
    of another side, leaves the stage unproven.
    """
    hides = found.hides and side == CANDIDATE
    finding = Finding(
        code="profile.hidden-work" if hides else "profile.clocks-disagree",
        says=f"the {side}'s clocks disagree: {found.says}",
        blame=Blame.CANDIDATE if hides else Blame.MACHINE,
        evidence={"events_us": found.events_us, "seen_us": found.seen_us},
    )
    return Outcome.FAILED if hides else Outcome.UNPROVEN, finding


def gpu_doubts(watch: Watch) -> list[Finding]:
    """Findings on other processes that compute on the GPU, and on clocks that cannot be read.

    Another workbench waits for the same lock; any other process does not, and makes a time
    doubtful.
    """
    told = [
        ("gpu-shared", f"{name} computes on this GPU too, unasked: the times are doubtful")
        for name in watch.strangers()
    ]
    told += [
        ("gpu-neighbour", f"another workbench, {name}, has workers here, kept still by the lock")
        for name in watch.neighbours()
    ]
    if watch.state().sm_clock_mhz is None:
        told.append(("clocks-unread", "NVML does not tell the GPU's clocks"))
    return [Finding(code=f"profile.{code}", says=says, blame=Blame.MACHINE) for code, says in told]


def large_speedup(versus: Speed) -> Finding | None:
    """The finding that a speedup over eager PyTorch is suspiciously large; None if it is not."""
    if versus.ratio <= LARGE_SPEEDUP:
        return None
    says = f"{versus.ratio:.1f}x over eager PyTorch deserves a look"
    return Finding(code="profile.large-speedup", says=says, blame=Blame.CANDIDATE)


def gpu_unfit(met: Noisy | GpuBusy) -> Finding:
    """Why the GPU was not in a state to be timed on."""
    if isinstance(met, GpuBusy):
        return Finding(code="profile.gpu-busy", says=met.what, blame=Blame.MACHINE)
    return Finding(code="profile.noisy", says=str(met), blame=Blame.MACHINE)


def timing_report(outcome: Outcome, says: str, findings: Sequence[Finding] = ()) -> StageReport:
    """The profile stage's report."""
    return StageReport(stage=Stage.PROFILE, outcome=outcome, says=says, findings=tuple(findings))


def time_words(measured: Time | None, limit: Limit | None = None) -> str:
    """`38.2 us on NVIDIA H200, 71 % of limit (memory, datasheet)`."""
    if measured is None:
        return ""
    share = "" if limit is None else f", {limit.words(measured)}"
    return f"{measured.microseconds:.1f} us on {measured.device}{share}"


def eager_words(versus: Speed | None) -> str:
    """`, 3.10x eager PyTorch`, to be added to a sentence."""
    return "" if versus is None else f", {versus.ratio:.2f}x eager PyTorch"

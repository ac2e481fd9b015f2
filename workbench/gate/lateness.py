"""Turns the timeout of a candidate's worker into a finding, and decides whom it blames."""

from workbench.gate.records import Blame, Evidence, Finding
from workbench.isolation.outcome import WorkerTimedOut


def timeout_finding(stage: str, fault: WorkerTimedOut, did: str) -> Finding:
    """The finding for a timeout. It blames the candidate only if its worker was computing
    throughout.

    Otherwise the machine may have been too busy. `did` says what is missing, for example `the
    candidate gave no answer`.
    """
    says = f"{did} within {fault.seconds:g} s"
    if fault.busy:
        return Finding(code=f"{stage}.timed-out", says=says, evidence={"seconds": fault.seconds})
    says += f", and computed for {fault.cpu_seconds:.1f} s of them: "
    says += "it waits for something, or the machine is too busy"
    evidence: Evidence = {"seconds": fault.seconds, "cpu_seconds": round(fault.cpu_seconds, 3)}
    return Finding(code=f"{stage}.no-answer", says=says, blame=Blame.MACHINE, evidence=evidence)

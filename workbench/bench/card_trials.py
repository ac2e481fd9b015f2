"""The result of one card on one kernel, appended line by line so that a crash loses nothing."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from workbench.bench import lines
from workbench.gate.records import Stage, Verdict
from workbench.measure.records import Speed, Time
from workbench.skills.evidence import is_evidence
from workbench.skills.records import EvidenceRow, Parameter, Proof

_OF_THE_STATE = {"gpu-memory", "host-memory"}
"""Reason codes that say nothing about a card: memory limits that every candidate made from the same
plain form exceeds too."""
_VERDICTS: dict[Verdict, Literal["accepted", "rejected", "unproven"]] = {
    Verdict.ACCEPTED: "accepted",
    Verdict.REJECTED: "rejected",
    Verdict.UNPROVEN: "unproven",
}


class Trial(Struct, frozen=True, kw_only=True):
    """One candidate that one card made, and the gate's result."""

    card: str
    problem: str
    state: str
    """The state that it was tried on."""
    family: str
    target: str
    device: str
    """Name of the GPU, or `cpu`."""
    kernel: str
    edit: str
    parameters: dict[str, Parameter]
    unknown: tuple[str, ...] = ()
    """Conditions that an unknown fact left open."""
    risks: tuple[str, ...] = ()
    """Known risks that applied."""
    facts: dict[str, bool | int | float | str | tuple[str, ...]] = {}
    """Known facts of the kernel it was tried on."""
    verdict: Verdict
    code: str
    says: str
    before: Time | None = None
    after: Time | None = None
    speed: Speed | None = None
    """Speed by the pairs; better than the ratio of the two times, between which the GPU drifts."""
    sha256: str
    parent: str
    """Text of the kernel it was tried on."""
    source: str
    """Text of the candidate."""

    @property
    def helped(self) -> bool:
        """Whether the gate accepted it with a time below its parent's."""
        ratio = self.ratio
        return self.verdict is Verdict.ACCEPTED and ratio is not None and ratio > 1.0

    @property
    def ratio(self) -> float | None:
        """The speedup by its pairs; None where it was not timed."""
        if self.speed is not None:
            return self.speed.ratio
        if self.before is None or self.after is None or self.before.kind is not self.after.kind:
            return None
        return self.before.microseconds / self.after.microseconds

    @property
    def kind(self) -> Literal["modeled", "measured"]:
        """Kind of its times, or of the timing it would have got."""
        measured = self.device != "cpu"
        return "measured" if measured else "modeled"


def keep(file: Path, trial: Trial) -> None:
    """Append a trial; on disk when this returns. Raises WorkbenchError where it cannot be."""
    lines.append(file, trial)


def read_trials(file: Path) -> list[Trial]:
    """The trials of a file that `keep` wrote. Raises WorkbenchError for what is none."""
    return lines.read(file, Trial, what="no trial", command="workbench bench cards --jsonl")


def evidence_of(trial: Trial) -> EvidenceRow | None:
    """The trial as a row of a card's evidence; None where it says nothing about the card.

    That is so where memory ran out, and where the row is not evidence (`skills.evidence`).
    """
    if trial.code.partition(".")[2] in _OF_THE_STATE:
        return None
    timed = trial.ratio is not None
    accepted = trial.verdict is Verdict.ACCEPTED
    row = EvidenceRow(
        session=f"bench cards {trial.problem}, {trial.state}",
        commit=trial.sha256[:12],
        device=trial.device if trial.kind == "measured" else trial.target,
        kind=trial.kind,
        before_us=_rounded(trial.before) if timed else None,
        after_us=_rounded(trial.after) if timed else None,
        paired=trial.speed.paired if trial.speed is not None else None,
        verdict=_VERDICTS[trial.verdict],
        problem=trial.problem,
        family=trial.family,
        target=trial.target,
        says="" if accepted else f"{trial.code}: {trial.says}",
    )
    return row if is_evidence(row) else None


def proof_of(trial: Trial) -> Proof | None:
    """The trial as a proof that the card keeps the answer there; None where it is none.

    Only without a GPU: there a time is asked for once policy, compile and correctness have passed,
    so that a trial with a time, or with a doubt about it, was right. What is evidence needs none.
    """
    right = trial.after is not None or trial.code.startswith(f"{Stage.PROFILE}.")
    if trial.kind == "measured" or not right or evidence_of(trial) is not None:
        return None
    return Proof(
        problem=trial.problem,
        state=trial.state,
        commit=trial.sha256[:12],
        target=trial.target,
        modeled=None if trial.ratio is None else round(trial.ratio, 3),
        parameters=trial.parameters,
        kernel=trial.kernel,
    )


def _rounded(time: Time | None) -> float | None:
    return None if time is None else round(time.microseconds, 1)


def told(trials: Iterable[Trial]) -> list[str]:
    """A line for each card: where it helped and by how much, and where and how it failed."""
    by_card: dict[str, list[str]] = {}
    for trial in trials:
        by_card.setdefault(trial.card, []).append(f"{trial.problem} {trial.state} {_word(trial)}")
    return [f"{card:<22} {'; '.join(said)}" for card, said in sorted(by_card.items())]


def _word(trial: Trial) -> str:
    if trial.ratio is not None:
        doubt = "" if trial.kind == "measured" or evidence_of(trial) else "?"
        return f"{trial.ratio:.2f}x{doubt}"
    return trial.code.partition(".")[2] or trial.code or str(trial.verdict)


def speed_kind(trials: Sequence[Trial]) -> str:
    """The kind of the ratios of a table, in words."""
    kinds = {trial.kind for trial in trials if trial.ratio is not None}
    if kinds == {"modeled"}:
        return (
            "modeled, no GPU; ? marks ratios that are not evidence: the model does not see the"
            " change, or was not shown to rank such kernels"
        )
    if kinds == {"measured"}:
        return "measured, paired with the kernel each was tried on"
    return "measured and modeled" if kinds else "nothing was timed"

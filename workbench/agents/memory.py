"""Short-term memory: what this session tried, from its transitions in git, and what that forbids.

The base of the next step is the incumbent, and only an accepted transition replaces it: the gate
accepts a candidate whose gain over the base is shown (measured: the lower end of the interval is
above 1; modeled: the ratio is). That stands in for KernelSkill's 1.3x or +0.3 on a raw ratio, which
noise can pass and a true gain of 1.2x cannot.
"""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from workbench.gate.records import Blame, Stage, Verdict
from workbench.session.records import Answer, Transition

REPAIRS = 3
"""Candidates that may mend one another before the plan is given up; ours, KernelSkill's is 3."""

_MENDABLE = frozenset({Stage.POLICY, Stage.COMPILE, Stage.CORRECTNESS})


class Attempt(Struct, frozen=True, kw_only=True):
    """One transition as a prompt presents it."""

    number: int
    base: int | None
    skill: str
    kernel: str
    what: str
    outcome: str
    veto: str = ""
    """A person's reason."""
    repairs: int | None = None
    sha256: str = ""
    """`normalized_sha256` of its source."""

    def says(self) -> str:
        """`v3 from v1: row-on-chip on softmax_kernel (keep the row): rejected at compile ...`."""
        base = "seed" if self.base is None else f"from v{self.base}"
        skill = f"{self.skill} on {self.kernel}" if self.skill else "outside the cards"
        mends = f", mends v{self.repairs}" if self.repairs is not None else ""
        what = f" ({self.what})" if self.what else ""
        return f"v{self.number} {base}{mends}: {skill}{what}: {self.outcome}"


class Memory(Struct, frozen=True, kw_only=True):
    """Everything that was tried, oldest first."""

    attempts: tuple[Attempt, ...] = ()

    def of(self, skill: str, kernel: str) -> tuple[Attempt, ...]:
        """Attempts of one skill on one kernel."""
        return tuple(a for a in self.attempts if a.skill == skill and a.kernel == kernel)

    def with_source(self, sha256: str) -> Attempt | None:
        """The version that had this source."""
        return next((a for a in self.attempts if a.sha256 == sha256), None)

    def vetoes(self) -> tuple[Attempt, ...]:
        """What a person refused, with the reason."""
        return tuple(a for a in self.attempts if a.veto)

    def refusal(
        self, skill: str, kernel: str, base: int, what: str, *, earlier: int | None, difference: str
    ) -> str:
        """Why a plan may not be tried again; empty when it may.

        The same plan on the same base is refused; a skill that was tried before on this kernel must
        name that attempt and what is concretely different.
        """
        before = self.of(skill, kernel)
        for attempt in before:
            if attempt.base == base and words(attempt.what) == words(what):
                return f"exactly this plan was tried from v{base} as v{attempt.number}"
        if not before:
            return ""
        numbers = ", ".join(f"v{a.number}" for a in before)
        if earlier not in {a.number for a in before}:
            return f"{skill} on {kernel} was tried as {numbers}: name one in `earlier`"
        told = {words(a.what) for a in before}
        if len(words(difference)) < 3 or words(difference) in told:
            return (
                f"{skill} on {kernel} was tried as {numbers}: say in `difference` what is"
                " concretely different this time"
            )
        return ""


def words(text: str) -> tuple[str, ...]:
    """The words of a text, for comparing two plans."""
    return tuple(re.findall(r"[a-z0-9_.]+", text.casefold()))


def remember(transitions: Iterable[Transition], hashes: dict[int, str]) -> Memory:
    """The memory of a session; `hashes` are the normalized hashes of its sources by number."""
    return Memory(
        attempts=tuple(
            Attempt(
                number=t.number,
                base=t.parent,
                skill=(t.plan.method or t.plan.card) if t.plan else "",
                kernel=t.plan.kernel if t.plan else "",
                what=_what(t),
                outcome=_outcome(t),
                veto=t.decision.reason if t.decision.answer is Answer.VETOED else "",
                repairs=t.plan.repairs if t.plan else None,
                sha256=hashes.get(t.number, ""),
            )
            for t in transitions
        )
    )


def _what(transition: Transition) -> str:
    plan = transition.plan
    if plan is None:
        return transition.origin
    values = ", ".join(f"{name} {value}" for name, value in plan.parameters.items())
    return values or plan.title if plan.edit else plan.intent


def _outcome(transition: Transition) -> str:
    gate, decision = transition.gate, transition.decision
    speed = f", {gate.speed.says()} against its base" if gate.speed else ""
    if decision.answer is Answer.ACCEPTED:
        return f"accepted{speed}"
    if decision.answer is Answer.VETOED:
        return f"passed the gate{speed}, vetoed by a person: {decision.reason}"
    if decision.answer is Answer.PENDING:
        return f"passed the gate{speed}, waits for a person"
    word = "unproven" if gate.verdict is Verdict.UNPROVEN else "rejected"
    return f"{word} at {gate.stage}{speed}: {gate.says} [{gate.code}]"


def chain(transitions: Sequence[Transition]) -> tuple[Transition, ...]:
    """The newest refused candidate of a model that can still be mended, with what it mends before
    it, oldest first; empty when the next step starts from a plan.

    What policy, compiler or correctness refused can be mended. A candidate that is right and not
    faster is not a fault, and neither is one that the machine or the problem spoilt.
    """
    found: list[Transition] = []
    by_number = {t.number: t for t in transitions}
    at = transitions[-1] if transitions else None
    while at is not None and _mendable(at) and len(found) <= REPAIRS:
        found.append(at)
        mends = at.plan.repairs if at.plan else None
        at = None if mends is None else by_number.get(mends)
    return tuple(reversed(found)) if 0 < len(found) <= REPAIRS else ()


def _mendable(transition: Transition) -> bool:
    gate = transition.gate
    report = gate.report(gate.stage)
    findings = report.findings if report else ()
    return (
        transition.plan is not None
        and bool(transition.plan.method)
        and transition.decision.answer is Answer.REJECTED
        and gate.verdict is Verdict.REJECTED
        and gate.stage in _MENDABLE
        and all(finding.blame is Blame.CANDIDATE for finding in findings)
    )

"""Gates a session's accepted line, or tries a card, again, against what is claimed."""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct, structs

from workbench.engine.admitting import held_out
from workbench.engine.chances import ground_named
from workbench.engine.devices import choose_place
from workbench.engine.events import AnyEvent
from workbench.engine.roundtrips import roundtrips
from workbench.engine.trials import Tell, Trial, Where
from workbench.engine.workplace import SessionWorkplace
from workbench.errors import WorkbenchError
from workbench.gate.candidate import candidate_of
from workbench.gate.records import GateReport, Outcome, Stage, Verdict
from workbench.measure.records import Kind, Speed, Time
from workbench.session.layout import attempt_ref
from workbench.session.names import spoken
from workbench.session.records import Answer, SessionSettings, Transition
from workbench.session.store import SessionStore
from workbench.skills.card import Skill
from workbench.skills.records import Admission

MODELED_SLACK = 0.05
"""Relative difference of two modeled times of one kernel that is not a contradiction; ours:
programs are sampled afresh each time."""


class Standing(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    DIFFERS = "differs"
    NOT_CHECKED = "not checked"
    """What it needs is not here; never counted as holding."""


class Claim(Struct, frozen=True, kw_only=True):
    """One thing that a commit says, and what was found now."""

    number: int
    what: str
    standing: Standing
    says: str


def verify(store: SessionStore, device: str) -> Iterator[Claim]:
    """Every claim of the accepted line, kernel by kernel, naive or seed first.

    On the session's own kind of GPU times are measured again; elsewhere kernels are checked, and
    compiled for the session's target, and measured times stay unchecked. Nothing is written to
    the session. Raises WorkbenchError when it cannot be read or no worker starts.
    """
    settings = _here(store.settings(), device)
    line, lost = _line(store)
    yield from lost
    workplace = SessionWorkplace(store, settings, None, _nobody, may_resize=False)
    try:
        parent: Transition | None = None
        for number in line:
            try:
                claimed, source = store.transition(number), store.source(number)
            except WorkbenchError as fault:
                yield _unread(number, f"it cannot be read: {fault.what}")
                parent = None
                continue
            yield _same_source(claimed, source)
            now = workplace.gate(source, None if settings.device_index is None else parent, number)
            yield from _claims(claimed, now, settings)
            parent = claimed
    finally:
        workplace.close()


def verify_card(skill: Skill, where: Where, tell: Tell) -> Iterator[Claim]:
    """Every admission trial of a card repeated, and compared with what the card's file says.

    A held-out trial leaves a session, as it did; a roundtrip needs its lineage among the sessions.
    A trial whose problem, lineage or device cannot be used is not checked, and the others are.
    """
    for number, trial in enumerate(skill.card.admission, start=1):
        try:
            again = _again(skill, trial, where, tell)
        except WorkbenchError as fault:
            says = f"{trial.target}: {fault.what}{f' ({fault.where})' if fault.where else ''}"
            yield Claim(number=number, what="trial", standing=Standing.NOT_CHECKED, says=says)
            continue
        now = again.admission
        same = (now.accepted, now.effect_observed) == (trial.accepted, trial.effect_observed)
        standing = Standing.HOLDS if same else Standing.DIFFERS
        if again.applied and _kind(trial.target) != _kind(now.target):
            standing = Standing.NOT_CHECKED
        says = f"{trial.target}: {_outcome(trial)} then, {_outcome(now)} now: {again.says}"
        yield Claim(number=number, what="trial", standing=standing, says=says)


def _again(skill: Skill, trial: Admission, where: Where, tell: Tell) -> Trial:
    """Repeat a trial. Raises WorkbenchError where what it needs is not here."""
    if trial.held_out:
        ground = ground_named(trial.target.partition(" on ")[0], where.providers)
        return held_out(skill, ground, where, tell, trial.together)
    lineage = where.sessions / trial.session
    if not lineage.is_dir():
        raise WorkbenchError(f"the lineage {trial.session} is not here")
    for one in roundtrips(skill, lineage, tell, where.usd):
        if one.admission.commit == trial.commit:
            return one
    raise WorkbenchError(
        f"the lineage {trial.session} that is here has no step {trial.commit[:9]} of this card"
    )


def _kind(target: str) -> str:
    """Where a trial ran: its times compare with no other kind of machine's."""
    return target.rpartition(" on ")[2]


def _outcome(trial: Admission) -> str:
    passed = trial.accepted and trial.effect_observed
    return "passed" if passed else "accepted without its effects" if trial.accepted else "failed"


def _nobody(event: AnyEvent) -> None:
    """Nobody listens: what is found is what is said."""


def _line(store: SessionStore) -> tuple[list[int], list[Claim]]:
    """The accepted line as far as it is there, and a claim that differs for what is not.

    Raises WorkbenchError where nothing says which line was accepted.
    """
    overview = store.overview()
    if not overview.versions and not overview.unread:
        raise WorkbenchError(
            "the session has no version yet",
            where=str(store.folder),
            todo="`workbench resume` goes on with it",
        )
    if overview.main is None:
        raise WorkbenchError(
            "nothing says which versions were accepted: `main` names none of them",
            where=str(store.folder),
            todo=f"workbench resume {spoken(store.folder)} puts it back where git still holds it",
        )
    versions = {v.number: v for v in overview.versions}
    line = overview.line()
    accepted = [n for n in line if versions[n].answer is Answer.ACCEPTED]
    below = versions[line[0]].parent
    if below is None:
        return accepted, []
    unread = {one.ref: one.says for one in overview.unread}
    why = unread.get(attempt_ref(below), "it is not there")
    says = f"v{line[0]} was made from it, and it cannot be read: {why}; the line below is lost too"
    return accepted, [_unread(below, says)]


def _unread(number: int, says: str) -> Claim:
    """What is not there any more holds nothing."""
    return Claim(number=number, what="record", standing=Standing.DIFFERS, says=says)


def _here(settings: SessionSettings, device: str) -> SessionSettings:
    """The session's settings with the place that this machine has for it."""
    target = settings.target
    place = choose_place(device, "" if device != "cpu" else target)
    if place.target != target:
        place = choose_place("cpu", target)
    return structs.replace(settings, device=place.device, device_index=place.index)


def _same_source(claimed: Transition, source: str) -> Claim:
    same = candidate_of(source).sha256 == claimed.gate.kernel_sha256
    says = "the kernel is the one that was gated" if same else "kernel.py is not what was gated"
    standing = Standing.HOLDS if same else Standing.DIFFERS
    return Claim(number=claimed.number, what="source", standing=standing, says=says)


def _claims(claimed: Transition, now: GateReport, settings: SessionSettings) -> Iterator[Claim]:
    yield _verdict(claimed, now)
    yield _static(claimed, now)
    yield _time(claimed, now, settings)


def _verdict(claimed: Transition, now: GateReport) -> Claim:
    """A kernel must be right again; that it is no faster than its parent is another claim."""
    wrong = [
        report
        for report in now.stages
        if report.stage is not Stage.PROFILE
        and report.outcome in {Outcome.FAILED, Outcome.UNPROVEN}
    ]
    if wrong:
        what = f"{wrong[0].outcome} at {wrong[0].stage}: {wrong[0].says}"
        return _claim(claimed, "verdict", Standing.DIFFERS, f"accepted then, now {what}")
    right = now.report(Stage.CORRECTNESS)
    if right is None or right.outcome is not Outcome.PASSED:
        says = "its answers were not compared here"
        return _claim(claimed, "verdict", Standing.NOT_CHECKED, says)
    says = f"{now.verdict} again" if now.verdict is Verdict.ACCEPTED else "right again"
    return _claim(claimed, "verdict", Standing.HOLDS, says)


def _static(claimed: Transition, now: GateReport) -> Claim:
    """Registers, spills and shared memory are exact for one triton and ptxas."""
    then = claimed.gate
    if not then.launches or not now.launches:
        return _claim(claimed, "static", Standing.NOT_CHECKED, "no static profile to compare")
    if then.toolchain != now.toolchain:
        return _claim(
            claimed,
            "static",
            Standing.NOT_CHECKED,
            f"other versions: {_versions(then)} then, {_versions(now)} now",
        )
    pairs = zip(then.launches, now.launches, strict=False)
    same = len(then.launches) == len(now.launches) and all(
        (a.kernel, a.grid, a.static) == (b.kernel, b.grid, b.static) for a, b in pairs
    )
    if same:
        return _claim(claimed, "static", Standing.HOLDS, "the same machine code, by its profile")
    return _claim(claimed, "static", Standing.DIFFERS, "the compiler's profile differs")


def _versions(report: GateReport) -> str:
    return ", ".join(f"{k} {v}" for k, v in sorted(report.toolchain.items())) or "unknown"


def _time(claimed: Transition, now: GateReport, settings: SessionSettings) -> Claim:
    then = claimed.gate
    if then.time is None:
        return _claim(claimed, "time", Standing.NOT_CHECKED, "the commit claims none")
    if then.time.kind is Kind.MEASURED:
        return _measured(claimed, then, now, settings)
    if now.time is None or now.time.kind is not Kind.MODELED:
        return _claim(claimed, "time", Standing.NOT_CHECKED, "it was modeled; here it is not")
    return _modeled(claimed, then.time, now.time)


def _modeled(claimed: Transition, then: Time, now: Time) -> Claim:
    apart = abs(now.microseconds / then.microseconds - 1)
    says = f"{then.microseconds:.1f} us modeled then, {now.microseconds:.1f} us now"
    standing = Standing.HOLDS if apart <= MODELED_SLACK else Standing.DIFFERS
    return _claim(claimed, "time", standing, says)


def _measured(
    claimed: Transition, then: GateReport, now: GateReport, settings: SessionSettings
) -> Claim:
    """Times move with clocks and machines; the interleaved ratio to the parent is the claim."""
    if settings.device_index is None or settings.device != then.device:
        says = f"it was measured on {then.device}; here is {settings.device}"
        return _claim(claimed, "time", Standing.NOT_CHECKED, says)
    if then.speed is None or now.speed is None:
        return _claim(claimed, "time", Standing.NOT_CHECKED, "no ratio to a parent")
    says = f"{then.speed.says()} then, {now.speed.says()} now"
    standing = Standing.HOLDS if _overlap(then.speed, now.speed) else Standing.DIFFERS
    return _claim(claimed, "time", standing, says)


def _overlap(one: Speed, other: Speed) -> bool:
    low = max(one.low or one.ratio, other.low or other.ratio)
    high = min(one.high or one.ratio, other.high or other.ratio)
    return low <= high


def _claim(claimed: Transition, what: str, standing: Standing, says: str) -> Claim:
    return Claim(number=claimed.number, what=what, standing=standing, says=says)

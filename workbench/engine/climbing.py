"""One candidate's way up the ladder: what each rung found, and what that means for it."""

from msgspec import Struct, structs

from workbench.gate.records import Finding, GateReport, Outcome, Stage, Verdict
from workbench.measure.records import Kind, Speed, Time
from workbench.search.rungs import Action, Ladder, RungResult
from workbench.session.records import RungVisit

SLOW = ("profile.not-faster", "profile.slower", "profile.cannot-tell")
"""Codes of the gate that say how fast, and nothing against the candidate."""


_BY_VERDICT = {
    Verdict.ACCEPTED: Action.PROMOTE,
    Verdict.REJECTED: Action.PRUNE,
    Verdict.UNPROVEN: Action.HOLD,
}


class Found(Struct, frozen=True, kw_only=True):
    """What one rung found."""

    report: GateReport
    """Report on everything that was asked so far."""
    speed: Speed | None = None
    """Against the parent."""
    time: Time | None = None
    gpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    """Wall seconds of this rung alone."""
    undecided: bool = False
    """Whatever it met, the rungs above are to say what that means."""


class Visited:
    """What a visit cost and told, as the ladder learns from it."""

    def __init__(self, visit: RungVisit) -> None:
        self.rung = visit.rung
        self.gpu_seconds = visit.gpu_seconds
        self.wall_seconds = visit.wall_seconds
        self.high = None if visit.speed is None else visit.speed.high


class Climb:
    """Notes every rung; `trusted` says whether modeled times may rank such kernels."""

    def __init__(self, ladder: Ladder, *, trusted: bool) -> None:
        self._ladder = ladder
        self._trusted = trusted
        self._results: list[RungResult] = []
        self.visits: tuple[RungVisit, ...] = ()

    def reached(self, rung: str, found: Found) -> RungVisit:
        """Note a rung, and what the ladder says: whoever is told `prune` goes no further.

        One who is to be held goes on, unless others are looked at beside it (`engine.queue`).
        """
        speed = found.speed
        self._results.append(
            RungResult(
                rung=rung,
                passed=_nothing_against(found.report),
                unproven=found.undecided
                or any(s.outcome is Outcome.UNPROVEN for s in found.report.stages),
                kind=Kind.MODELED if speed is None else speed.kind,
                ratio=None if speed is None else speed.ratio,
                low=None if speed is None else speed.low,
                high=None if speed is None else speed.high,
                gpu_seconds=found.gpu_seconds,
                wall_seconds=found.wall_seconds,
            )
        )
        standing = self._ladder.standing(self._results, trusted=self._trusted)
        return self._note(rung, found, standing.action, standing.reason, standing.score)

    def pruned(self, rung: str, found: Found, why: Finding) -> RungVisit:
        """Note that it is given up at a rung for another reason than its speed."""
        return self._note(rung, found, Action.PRUNE, why.says, 0.0)

    def left_out(self, rung: str, why: str) -> None:
        """Note that a rung is not asked: it goes on to the next."""
        visit = RungVisit(rung=rung, action=Action.PROMOTE.value, reason=why, asked=False)
        self.visits = (*(one for one in self.visits if one.rung != rung), visit)

    def held(self, why: str) -> None:
        """Note at the last rung that others go first."""
        *before, last = self.visits
        visit = structs.replace(last, action=Action.HOLD.value, reason=f"{last.reason}; {why}")
        self.visits = (*before, visit)

    def gated(self, report: GateReport, *, needs_gpu: bool) -> None:
        """Note what the whole gate said: its verdict decides, and no rung decides for it."""
        if report.rung == 0 or report.stage in {Stage.POLICY, Stage.COMPILE}:
            return
        asked = [s for s in report.stages if s.stage in {Stage.CORRECTNESS, Stage.PROFILE}]
        wall = sum(stage.seconds for stage in asked)
        counted = 0.0 if report.ncu is None else report.ncu.seconds
        last = Found(
            report=report,
            speed=report.speed,
            time=report.time,
            gpu_seconds=max(0.0, report.gpu_seconds - counted),
            wall_seconds=max(0.0, wall - counted),
        )
        action = _BY_VERDICT[report.verdict]
        visit = self.reached("bench" if needs_gpu else "smoke", last)
        self._note(visit.rung, last, action, report.says, visit.score)
        if needs_gpu and report.ncu is not None:
            top = structs.replace(last, gpu_seconds=counted, wall_seconds=counted)
            self._note("profile", top, action, report.says, self.reached("profile", top).score)

    def _note(
        self, rung: str, found: Found, action: Action, reason: str, score: float
    ) -> RungVisit:
        visit = RungVisit(
            rung=rung,
            action=action.value,
            reason=reason,
            score=round(score, 4),
            speed=found.speed,
            time=found.time,
            gpu_seconds=round(found.gpu_seconds, 3),
            wall_seconds=round(found.wall_seconds, 3),
            gpu="" if rung == "static" else found.report.gpu,
        )
        # What a rung is told later, a twin found since, say, stands in place of the earlier note.
        kept = tuple(one for one in self.visits if one.rung != rung)
        self.visits = (*kept, visit)
        return visit


def _nothing_against(report: GateReport) -> bool:
    """Whether no stage but the one that times has refused it."""
    return all(
        one.outcome is not Outcome.FAILED
        or (one.stage is Stage.PROFILE and all(f.code in SLOW for f in one.findings[:1]))
        for one in report.stages
    )


def pruned_by(visit: RungVisit) -> Finding:
    """Why the gate ends for a candidate that the ladder gave up."""
    return Finding(code=f"profile.pruned-{visit.rung}", says=visit.reason)

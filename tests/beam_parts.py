"""A workplace with a beam whose answers hang on the source alone.

Also a program: `python beam_parts.py SESSION_FOLDER MOST` runs an engine on it, to be killed.
"""

import hashlib
import sys
import time
from pathlib import Path

from engine_parts import ScriptedSitting, ScriptedWorkplace, commits_told, plan, report
from msgspec import structs

from workbench.engine.held import HELD, comes_back
from workbench.engine.history import History
from workbench.engine.parts import Judged, Look
from workbench.engine.refusing import refused
from workbench.engine.serve import serve_session
from workbench.gate.records import Finding, Stage, Verdict
from workbench.measure.records import Kind, Speed
from workbench.search.proposer import NoProposal, Proposal
from workbench.search.rungs import Ladder
from workbench.session import queue
from workbench.session.records import RungVisit

WIDTH = 3
CARDS = 9
"""That fit each kernel."""


def luck(source: str) -> float:
    """0 to 1, of a text."""
    return hashlib.sha256(source.encode()).digest()[0] / 255


def speed_of(source: str) -> Speed:
    """Against its parent, as few pairs tell it: 0.8 to 1.2, 2 % to either side."""
    ratio = 0.8 + 0.4 * luck(source)
    return Speed(kind=Kind.MEASURED, ratio=ratio, low=ratio - 0.02, high=ratio + 0.02, pairs=14)


class Climber(ScriptedSitting):
    """A candidate that is looked at before it is gated."""

    def __init__(self, workplace, source, history, number, step) -> None:
        super().__init__(workplace, source, history.incumbent if step else None, number)
        self.source = source
        self.visits: tuple[RungVisit, ...] = ()
        self.workplace = workplace
        self.seen: queue.Seen | None = None

    def begin(self) -> None:
        self.workplace.began.append(self.source)

    def called(self, number: int) -> None:
        source, parent, _ = self._asked
        self._asked = (source, parent, number)

    def recall(self, seen: queue.Seen) -> None:
        self.seen = seen

    def look(self) -> Look:
        if self.seen is None:
            time.sleep(self.workplace.gate_seconds)
            self.workplace.looked(self.source)
            self.seen = queue.Seen(report=report(), wall_seconds=self.workplace.gate_seconds)
        speed = speed_of(self.source)
        action = "prune" if speed.high < 1 else "hold" if speed.ratio < 1 else "promote"
        reason = f"{speed.says()} at smoke"
        self.visits = (
            RungVisit(rung="smoke", action=action, reason=reason, score=speed.low, speed=speed),
        )
        return Look(action=action, reason=reason, score=speed.low)

    def finish(self, _history: History) -> Judged:
        if self.visits and self.visits[0].action == "prune":
            finding = Finding(code="profile.pruned-smoke", says=self.visits[0].reason)
            return Judged(report=refused(report(), Stage.PROFILE, finding, rung=1))
        super().begin()
        return Judged(report=self._report, rungs=self.visits)

    def put_aside(self, code: str, says: str) -> Judged:
        held = structs.replace(self.visits[0], action="hold", reason=says)
        finding = Finding(code=code, says=says)
        return Judged(report=refused(report(), Stage.PROFILE, finding, rung=1), rungs=(held,))


class Ridge(ScriptedWorkplace):
    """`CARDS` candidates fit each kernel, tried in order; a gain of 5 % passes the gate."""

    beam = WIDTH

    def __init__(self, store, *given, **options) -> None:
        super().__init__(store, *given, **options)
        self.store = store
        self.began: list[str] = []

    def sit(self, source, history, number, step):
        return Climber(self, source, history, number, step)

    def gate(self, source, parent, number, tell):
        made = super().gate(source, parent, number, tell)
        if parent is None:
            return made
        speed = structs.replace(speed_of(source), pairs=100)
        verdict = Verdict.ACCEPTED if speed.low > 1.05 else Verdict.REJECTED
        found = report(verdict=verdict, microseconds=100.0 - number)
        return structs.replace(found, speed=speed)

    def foresee(self, history: History, drafts) -> Proposal | NoProposal:
        incumbent = history.incumbent
        tried = {self.text(t.number, drafts) for t in history.transitions}
        for card in range(CARDS):
            source = f"# {card} of v{incumbent.number} {self.text(incumbent.number, drafts)[:40]}\n"
            if source not in tried:
                return Proposal(
                    plan=structs.replace(plan(card), card=f"card-{card}"), source=source
                )
        return NoProposal(reason="nothing is left to try")

    def text(self, number: int, drafts) -> str:
        return drafts[number] if number in drafts else self.store.source(number)

    def propose(self, history: History) -> Proposal | NoProposal:
        return self.foresee(history, {})

    def looked(self, source: str) -> None:
        """Few pairs were taken of this one; told to whoever kills engines."""

    def keep_queue(self, waiting) -> None:
        queue.keep(self.store.git, waiting)

    def queue(self):
        return queue.read(self.store.git)

    def held(self, history: History) -> Proposal | None:
        found = comes_back(history, Ladder.load(), trusted=True)
        if found is None:
            return None
        one, reason = found
        step = structs.replace(one.plan, held=one.number, reason=reason)
        return Proposal(plan=step, source=self.store.source(one.number))


def opened(store, settings, own_seed, emit):
    return Ridge(store, settings, own_seed, emit, gate_seconds=0.003)


def main() -> None:
    folder, most = Path(sys.argv[1]), int(sys.argv[2])
    serve_session(folder, listen=commits_told(most), open_workplace=opened)


__all__ = ["HELD", "WIDTH", "Ridge", "opened", "speed_of"]

if __name__ == "__main__":
    main()

"""What the proposer remembers of a session's transitions."""

from collections.abc import Mapping

from workbench.engine.held import measured_speed, put_aside
from workbench.kernels.source import normalized_sha256
from workbench.search.records import Tried
from workbench.session.reader import SessionReader
from workbench.session.records import Answer, Transition


class Memory:
    """The memory of one session; sources are read from git once."""

    def __init__(self, store: SessionReader) -> None:
        self._store = store
        self._hashes: dict[int, str] = {}

    def tried(self, transition: Transition, drafts: Mapping[int, str]) -> Tried:
        """A transition as the proposer sees it; `drafts` are sources that git does not hold."""
        sha256 = self._hashes.get(transition.number)
        if transition.number in drafts:
            sha256 = normalized_sha256(drafts[transition.number])
        elif sha256 is None:
            sha256 = normalized_sha256(self._store.source(transition.number))
            self._hashes[transition.number] = sha256
        plan, speed = transition.plan, transition.gate.speed or measured_speed(transition.rungs)
        accepted = transition.decision.answer is Answer.ACCEPTED
        # A refused try by hand or by a model says nothing of what the card's edit would do, and
        # one that was put aside says nothing against it.
        counts = plan is not None and (bool(plan.edit) or accepted) and not put_aside(transition)
        return Tried(
            number=transition.number,
            parent=transition.parent,
            sha256=sha256,
            accepted=accepted,
            card=plan.card if plan and counts else "",
            first=plan.first if plan and counts else (),
            kernel=plan.kernel if plan else "",
            parameters=plan.parameters if plan else {},
            was=plan.was if plan else {},
            speed=speed.ratio if speed else None,
        )

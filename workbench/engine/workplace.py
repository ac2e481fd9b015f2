"""Everything that runs candidates for one session: problem, workshop, gate, proposer, seeds."""

import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import structs

from workbench.engine import events as ev
from workbench.engine.history import History, modeled_speed
from workbench.engine.seeds import find_seed
from workbench.gate.candidate import candidate_of
from workbench.gate.judge import GateSettings, judge
from workbench.gate.problem import ProblemReport, inspect_problem
from workbench.gate.records import GateReport
from workbench.isolation.outcome import WorkerFault
from workbench.isolation.records import Flavor
from workbench.isolation.workshop import Workshop
from workbench.kernels.source import normalized_sha256
from workbench.kernels.target import target
from workbench.measure.eager import OperatorWork, modeled_eager
from workbench.measure.records import Time
from workbench.problems.load import load_problem, shipped_problems
from workbench.problems.records import Precision, Problem
from workbench.search.proposer import NoProposal, Proposal, ProposerState, Tried, propose
from workbench.session.records import Answer, SessionSettings, Transition
from workbench.session.store import SessionStore
from workbench.skills.library import load_library

Emit = Callable[[ev.AnyEvent], None]
"""Called from a worker thread; the caller brings it to its own loop."""


class SessionWorkplace:
    """Real gate, real proposer. Methods block; one call at a time. Nothing starts before it is used.

    Every method may raise WorkbenchError: the problem cannot be used, a worker cannot start.
    """

    def __init__(
        self,
        store: SessionStore,
        settings: SessionSettings,
        own_seed: tuple[str, str] | None,
        emit: Emit,
    ) -> None:
        self._store = store
        self._settings = settings
        self._own_seed = own_seed
        self._emit = emit
        self._workshop = Workshop(device_index=settings.device_index)

    def close(self) -> None:
        """End every worker."""
        self._workshop.close()

    # -- what the loop asks -----------------------------------------------------------------

    def seed(self) -> tuple[str, str]:
        """Source and origin of the first candidate."""
        return find_seed(self._problem, self._own_seed, self._settings.target)

    def propose(self, history: History) -> Proposal | NoProposal:
        """The next step from the incumbent, by cards."""
        incumbent = history.incumbent
        if incumbent is None:
            return NoProposal(reason="there is no accepted kernel to start from")
        facts = self._facts
        return propose(
            ProposerState(
                source=self._store.source(incumbent.number),
                number=incumbent.number,
                library=self._library,
                target=target(self._settings.target),
                launches=incumbent.gate.launches,
                traces=incumbent.gate.traces,
                time=incumbent.gate.time,
                family=self._problem.family,
                precision=self._problem.precision.value,
                flops=facts.flops,
                bytes=facts.bytes,
                history=tuple(self._tried(t) for t in history.transitions),
            )
        )

    def _tried(self, transition: Transition) -> Tried:
        """A transition as the proposer remembers it; sources are read from git once."""
        sha256 = self._hashes.get(transition.number)
        if sha256 is None:
            sha256 = normalized_sha256(self._store.source(transition.number))
            self._hashes[transition.number] = sha256
        plan, speed = transition.plan, transition.gate.speed
        return Tried(
            number=transition.number,
            parent=transition.parent,
            sha256=sha256,
            accepted=transition.decision.answer is Answer.ACCEPTED,
            card=plan.card if plan else "",
            kernel=plan.kernel if plan else "",
            parameters=plan.parameters if plan else {},
            was=plan.was if plan else {},
            speed=speed.ratio if speed else None,
        )

"""Everything that runs candidates for one session: workshop, gate, proposer, seeds."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from msgspec import structs

from workbench.engine import events as ev
from workbench.engine.history import History, modeled_speed
from workbench.engine.seeds import find_seed
from workbench.gate.judge import Candidate, GateSettings, judge
from workbench.gate.problem import ProblemReport, inspect_problem
from workbench.gate.records import GateReport, StageReport
from workbench.isolation.workshop import Workshop
from workbench.problems.records import Problem
from workbench.search.proposer import NoProposal, Proposal
from workbench.session.records import SessionSettings, Transition

Emit = Callable[[ev.AnyEvent], None]
"""Called from a worker thread; the caller brings it to its own loop."""

"""Runs the trials of `bench roundtrip`: real sessions from the naive end of recorded lineages."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from workbench.bench.roundtrip import FLOOR, Cards, Trial, lacking, learned_library
from workbench.engine import events as ev
from workbench.engine.create import RunRequest, create_session
from workbench.engine.serve import serve_session
from workbench.engine.workplace import SessionWorkplace
from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport, Verdict
from workbench.problems.load import shipped_problems
from workbench.session.bundle import recorded
from workbench.session.names import fresh_name
from workbench.session.reader import SessionReader
from workbench.session.records import Answer, Budget, Mode, Transition
from workbench.session.store import SessionStore
from workbench.skills.library import Library

Tell = Callable[[ev.AnyEvent], None]


class Ask(Struct, frozen=True, kw_only=True):
    """What is tried, where."""

    lineages: tuple[Path, ...]
    """Session folders or bundles of lineages."""
    cards: Path
    """Folder of the learned cards."""
    trials: int
    steps: int
    """Most transitions of a trial."""
    ablation: bool
    device: str
    target: str
    sessions: Path


class _Ends(Struct, frozen=True, kw_only=True):
    """The two ends of a lineage."""

    problem: str
    naive: str
    expert: str
    report: GateReport


def run_trials(ask: Ask, tell: Tell) -> Iterator[Trial]:
    """One trial after another; each leaves a session.

    Raises WorkbenchError for what is no lineage, a problem that is not shipped, cards or a device
    that cannot be used.
    """
    forms: tuple[Cards, ...] = ("whole", "bare") if ask.ablation else ("whole",)
    libraries = {form: learned_library(ask.cards, form) for form in forms}
    with tempfile.TemporaryDirectory(prefix="workbench-roundtrip-") as scratch:
        for place, lineage in enumerate(ask.lineages):
            with recorded(lineage) as store:
                ends = _ends(lineage, store)
            naive = Path(scratch) / f"{place}.py"
            naive.write_text(ends.naive, encoding="utf-8")
            for form, library in libraries.items():
                for number in range(1, ask.trials + 1):
                    yield _trial(ask, ends, naive, form, library, number, tell)


def _ends(lineage: Path, store: SessionReader) -> _Ends:
    settings = store.settings()
    if settings.kind != "lineage":
        raise WorkbenchError(f"session {lineage.name} is no lineage", where=str(lineage))
    if settings.problem not in shipped_problems():
        raise WorkbenchError(f"{settings.problem} is no shipped problem", where=str(lineage))
    chain = [v.number for v in store.overview().versions if v.answer is Answer.ACCEPTED]
    if len(chain) < 2:
        raise WorkbenchError(
            f"lineage {lineage.name} has no step", where=str(lineage), todo="walk it to its end"
        )
    return _Ends(
        problem=settings.problem,
        naive=store.source(chain[0]),
        expert=store.source(chain[-1]),
        report=store.transition(chain[-1]).gate,
    )


def _trial(
    ask: Ask, ends: _Ends, naive: Path, form: Cards, library: Library, number: int, tell: Tell
) -> Trial:
    path = create_session(
        RunRequest(
            problem=ends.problem,
            kernel=naive,
            mode=Mode.AUTO,
            device=ask.device,
            target=ask.target,
            budget=Budget(steps=ask.steps),
            proposer="skills",
            name=fresh_name(f"roundtrip-{ends.problem}-{form}", ask.sessions),
            sessions=ask.sessions,
        )
    )
    ended = serve_session(
        path,
        listen=tell,
        open_workplace=lambda store, settings, seed, emit: SessionWorkplace(
            store, settings, seed, emit, library=library
        ),
    )
    return _judged(path, ends, form, number, ended, tell)


def _judged(
    path: Path, ends: _Ends, form: Cards, number: int, ended: ev.RunEnded, tell: Tell
) -> Trial:
    """The best kernel of a trial's session beside the expert."""
    store = SessionStore.open(path)
    every = [store.transition(v.number) for v in store.overview().versions]
    best = store.overview().best
    if best is None:
        raise WorkbenchError(f"the naive kernel did not pass: {ended.says}", where=str(path))
    source = store.source(best)
    workplace = SessionWorkplace(store, store.settings(), None, tell, may_resize=False)
    try:
        report = workplace.gate_beside(source, ends.expert, ends.report, FLOOR)
    finally:
        workplace.close()
    reached = report.verdict is Verdict.ACCEPTED
    spent = [t for t in every if 0 < t.number <= best]
    return Trial(
        workload=ends.problem,
        number=number,
        cards=form,
        reached=reached,
        ratio=None if report.speed is None else report.speed.ratio,
        kind=None if report.speed is None else report.speed.kind,
        steps=len(spent),
        gpu_seconds=sum(t.cost.gpu_seconds for t in spent),
        session=path.name,
        why="" if reached else _why(ends.expert, source, every, report, ended),
    )


def _why(
    expert: str, source: str, every: Sequence[Transition], report: GateReport, ended: ev.RunEnded
) -> str:
    """What the best kernel lacks, why the run went no further, and what was refused on the way."""
    refused = [
        f"{t.plan.card} ({t.gate.code})"
        for t in every
        if t.plan is not None and t.decision.answer is Answer.REJECTED
    ]
    parts = [
        f"{report.says}",
        f"lacks {', '.join(lacking(expert, source)) or 'no mechanism, but a value of one'}",
        f"the run ended: {ended.says}",
    ]
    if refused:
        parts.append(f"refused: {', '.join(dict.fromkeys(refused))}")
    return "; ".join(parts)

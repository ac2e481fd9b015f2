"""Tries every card where its edit fits, through the real gate: what it did, and where it failed."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from msgspec import Struct, structs

from workbench.engine.devices import Place
from workbench.engine.measuring import flavors, timer_of
from workbench.errors import WorkbenchError
from workbench.gate.candidate import candidate_of
from workbench.gate.judge import JOB_MODULES, GateSettings, judge
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.problem.records import ProblemReport
from workbench.gate.records import GateReport, Verdict
from workbench.isolation.workshop import Workshop
from workbench.kernels.target import target as known_target
from workbench.measure.records import Time
from workbench.problems.load import load_problem, shipped_problems
from workbench.problems.records import Problem
from workbench.search.proposer import propose
from workbench.search.records import Proposal, ProposerState, Tried
from workbench.skills.library import Library, load_library
from workbench.skills.records import Parameter, Truth

Hear = Callable[[str], None]


class Trial(Struct, frozen=True, kw_only=True):
    """One candidate that one card made, and the gate's answer."""

    card: str
    problem: str
    base: str
    """Cards that lead from the seed to what it was tried on, joined by ` > `; `seed`."""
    parameters: dict[str, Parameter]
    unknown: tuple[str, ...]
    """Conditions that an unknown fact left open."""
    risks: tuple[str, ...]
    """Known risks that were there."""
    verdict: Verdict
    code: str
    says: str
    before: Time | None
    after: Time | None

    @property
    def helped(self) -> bool:
        """Whether the gate took it, with a time below its base's."""
        both = self.before is not None and self.after is not None
        return self.verdict is Verdict.ACCEPTED and both


class CardsAsk(Struct, frozen=True, kw_only=True):
    """What to try."""

    problems: tuple[str, ...] = ()
    cards: tuple[str, ...] = ()
    """All when empty."""
    depth: int = 2
    """Bases on a problem: the seed, then each time the best that the cards made of it."""
    points: int = 2
    """Values of a card's grid that are tried on one base until one is taken."""


def try_cards(ask: CardsAsk, place: Place, hear: Hear) -> Iterator[Trial]:
    """Trials as they end, problem by problem; a card is tried once on each problem.

    Conditions are those of the card: where one does not hold, the card is not tried. Raises
    WorkbenchError for a problem, card or device that cannot be used.
    """
    library = load_library()
    wanted = [library.skill(card) for card in ask.cards] or list(library.skills.values())
    chosen = Library(skills={s.card.id: s for s in wanted if s.edit is not None})
    for name in ask.problems or tuple(sorted(shipped_problems())):
        hear(name)
        with Workshop(
            device_index=place.index,
            preload=JOB_MODULES,
            share_device_memory=place.index is not None,
        ) as workshop:
            yield from _on_problem(
                _Bench(load_problem(name), place, workshop), library, chosen, ask
            )


class _Bench:
    """A problem with what judges candidates of it."""

    def __init__(self, problem: Problem, place: Place, workshop: Workshop) -> None:
        self.problem = problem
        self.place = place
        self._workshop = workshop
        self._settings = GateSettings(
            target=place.target, device=place.device, device_index=place.index
        )

        @cache
        def facts() -> ProblemReport:
            workshop.warm(*flavors(place.index))
            return inspect_problem(problem, workshop)

        self.facts = facts
        self._timer = timer_of(problem, facts, self._settings, workshop)

    def judged(self, source: str, base: "_Base | None") -> GateReport:
        """The gate on a source, against a base."""
        return judge(
            candidate_of(source),
            self.problem,
            self.facts,
            self._settings,
            self._workshop,
            parent=None if base is None else candidate_of(base.source),
            parent_time=None if base is None else base.report.time,
            timer=self._timer,
            listen=lambda _told: None,
        )


class _Base(Struct, frozen=True):
    """What cards are tried on."""

    source: str
    report: GateReport
    cards: tuple[str, ...]


def _on_problem(bench: _Bench, library: Library, chosen: Library, ask: CardsAsk) -> Iterator[Trial]:
    seed = bench.problem.seed
    if seed is None:
        raise WorkbenchError(
            f"{bench.problem.name} has no plain seed to try cards on",
            where=str(bench.problem.path),
            todo=f"there are: {', '.join(sorted(shipped_problems()))}",
        )
    source = seed.read_text(encoding="utf-8")
    base: _Base | None = _Base(source, bench.judged(source, None), ())
    tried: set[str] = set()
    for _ in range(ask.depth):
        if base is None or base.report.verdict is not Verdict.ACCEPTED:
            return
        best: _Base | None = None
        for card in chosen.skills:
            if card in tried:
                continue
            for trial, made in _on_base(bench, library, card, base, ask.points):
                tried.add(card)
                yield trial
                if trial.helped and (best is None or _us(made) < _us(best)):
                    best = made
        base = best


def _us(base: _Base) -> float:
    return float("inf") if base.report.time is None else base.report.time.microseconds


def _on_base(
    bench: _Bench, library: Library, card: str, base: _Base, most: int
) -> Iterator[tuple[Trial, _Base]]:
    """A card's points on one base, until one is taken."""
    history = _line(base)
    for _ in range(most):
        found = propose(_state(bench, library, card, base, history))
        if not isinstance(found, Proposal):
            return
        report = bench.judged(found.source, base)
        plan = found.plan
        accepted = report.verdict is Verdict.ACCEPTED
        yield (
            Trial(
                card=card,
                problem=bench.problem.name,
                base=" > ".join(base.cards) or "seed",
                parameters=plan.parameters,
                unknown=tuple(c.says for c in plan.checks if c.truth is Truth.UNKNOWN),
                risks=tuple(r.says for r in plan.risks if r.truth is Truth.YES),
                verdict=report.verdict,
                code=report.code,
                says=report.says,
                before=base.report.time,
                after=report.time,
            ),
            _Base(found.source, report, (*base.cards, card)),
        )
        if accepted:
            return
        history = (
            *history,
            Tried(
                number=len(history),
                parent=history[-1].number,
                sha256=report.kernel_sha256,
                accepted=False,
                card=card,
                kernel=plan.kernel,
                parameters=plan.parameters,
                was=plan.was,
            ),
        )


def _line(base: _Base) -> tuple[Tried, ...]:
    """The accepted steps that lead to a base, as a session would tell them."""
    return tuple(
        Tried(number=n, parent=n - 1 if n else None, sha256=f"step {n}", accepted=True, card=card)
        for n, card in enumerate(("", *base.cards))
    )


def _state(
    bench: _Bench, library: Library, card: str, base: _Base, history: tuple[Tried, ...]
) -> ProposerState:
    """The incumbent with one card to choose from; the others only for what they provide."""
    work = bench.facts().full.work
    only = structs.replace(library, disabled=frozenset(c for c in library.skills if c != card))
    return ProposerState(
        source=base.source,
        number=len(base.cards),
        library=only,
        target=known_target(bench.place.target),
        launches=base.report.launches,
        traces=base.report.traces,
        time=base.report.time,
        family=bench.problem.family,
        precision=bench.problem.precision.value,
        flops=work.flops if work else None,
        bytes=work.bytes if work else None,
        history=history,
    )


def told(trials: Sequence[Trial]) -> list[str]:
    """A line for each card: where it helped, by how much, and where and how it did not."""
    lines = []
    for card in sorted({t.card for t in trials}):
        said = [f"{t.problem} {_ratio(t)}" for t in trials if t.card == card]
        lines.append(f"{card:<22} {'; '.join(said)}")
    return lines


def _ratio(trial: Trial) -> str:
    if trial.helped and trial.before is not None and trial.after is not None:
        return f"{trial.before.microseconds / trial.after.microseconds:.2f}x"
    return trial.code.partition(".")[2] or trial.code or str(trial.verdict)

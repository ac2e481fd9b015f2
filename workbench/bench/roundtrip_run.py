"""Runs the trials of `bench roundtrip`: real sessions from the naive end of recorded lineages."""

import queue
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct

from workbench.bench.leaps import Ground, Leap, leap
from workbench.bench.lineage_ends import Ends, ends_of
from workbench.bench.roundtrip import Cards, Trial, lacking, learned_library, uncarded
from workbench.engine import events as ev
from workbench.engine.create import RunRequest, create_session
from workbench.engine.holding import Held, Yardstick
from workbench.engine.lineages import line_of
from workbench.engine.looking import looking
from workbench.engine.serve import serve_session
from workbench.engine.workplace import SessionWorkplace
from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport, Stage, Verdict
from workbench.kernels.source import normalized_sha256
from workbench.kernels.target import target
from workbench.problems.load import load_problem
from workbench.search.retrieval import Recorded, Way, retrieve
from workbench.session.bundle import recorded
from workbench.session.records import Answer, Budget, Mode, Transition
from workbench.session.store import SessionStore
from workbench.skills.library import Library
from workbench.skills.records import Card

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
    forms: tuple[Cards, ...]
    """Of the cards, each tried in as many trials."""
    leap: bool
    """One verdict a trial, instead of one a step."""
    jobs: int
    """Groups of one workload and one form that run side by side."""
    seconds: float | None
    """For trials to begin in: an equal share for each workload with each form of the cards."""
    device: str
    target: str
    sessions: Path
    proposer: str = "skills"
    """`both`: a model carries out what no edit does, in trials that ask the gate for each step."""
    usd: float | None = None
    """For the model, in each trial."""


def run_trials(ask: Ask, tell: Tell) -> Iterator[Trial]:
    """Every trial as it ends; one that asks the gate for each step leaves a session.

    Raises WorkbenchError for what is no lineage, a problem that is not shipped, cards or a device
    that cannot be used.
    """
    libraries = _differing(ask, tell)
    lines = [_line(lineage, learned_library(ask.cards, "whole")) for lineage in ask.lineages]
    rounds = -(-len(ask.lineages) * len(libraries) // ask.jobs)
    seconds = None if ask.seconds is None else ask.seconds / rounds
    with tempfile.TemporaryDirectory(prefix="workbench-roundtrip-") as scratch:
        groups = []
        for place, lineage in enumerate(ask.lineages):
            with recorded(lineage) as store:
                ends = ends_of(lineage, store)
            naive = Path(scratch) / f"{place}.py"
            naive.write_text(ends.naive, encoding="utf-8")
            ways = retrieve(lines, lines[place].place)
            groups += [
                _Group(ask, ends, naive, form, library, ways[0] if ways else None, seconds)
                for form, library in libraries.items()
            ]
        found: queue.Queue[Trial | None] = queue.Queue()
        with ThreadPoolExecutor(max_workers=ask.jobs) as side:
            running = [side.submit(_run, group, tell, found) for group in groups]
            for _ in running:
                while (trial := found.get()) is not None:
                    yield trial
            for one in running:
                one.result()


@dataclass(frozen=True)
class _Group:
    """Trials of one workload with one form of cards, one after another."""

    ask: Ask
    ends: Ends
    naive: Path
    form: Cards
    library: Library
    way: Way | None
    """The longest that the recorded lineages have from the naive kernel."""
    seconds: float | None
    """Its share, from its own beginning on."""

    @property
    def conditioned(self) -> bool:
        """Whether the cards still say when: a way rests on scopes and requirements."""
        return self.form not in {"no conditions", "bare"}


def _differing(ask: Ask, tell: Tell) -> dict[Cards, Library]:
    """The cards in every form that was asked for; a form that takes nothing away is told, and not
    tried again."""
    whole = learned_library(ask.cards, "whole")
    found: dict[Cards, Library] = {}
    for form in ask.forms:
        library = learned_library(ask.cards, form)
        if form == "whole" or _said(library) != _said(whole):
            found[form] = library
        else:
            says = f"{form}: no card has any to take away, so that whole ones show it too"
            tell(ev.Note(level="info", says=says))
    return found


def _said(library: Library) -> dict[str, Card]:
    return {name: skill.card for name, skill in library.skills.items()}


def _line(lineage: Path, library: Library) -> Recorded:
    with recorded(lineage) as store:
        return line_of(store, library)


def _run(group: _Group, tell: Tell, found: "queue.Queue[Trial | None]") -> None:
    """Put every trial of a group into the queue, and None behind the last."""
    try:
        trials = _leaps(group, tell) if group.ask.leap else _runs(group, tell)
        for trial in trials:
            found.put(trial)
    finally:
        found.put(None)


def _numbers(group: _Group) -> Iterator[int]:
    """Numbers of the trials that still begin in time."""
    began = time.monotonic()
    for number in range(1, group.ask.trials + 1):
        if group.seconds is not None and time.monotonic() >= began + group.seconds:
            return
        yield number


def _runs(group: _Group, tell: Tell) -> Iterator[Trial]:
    for number in _numbers(group):
        yield _trial(group.ask, group.ends, group.naive, group.form, group.library, number, tell)


def _leaps(group: _Group, tell: Tell) -> Iterator[Trial]:
    """Leaps share what the CPU path said of a kernel, and nothing that a GPU said."""
    problem, gpu = load_problem(group.ends.problem), target(group.ends.target)
    device = group.ask.device if group.ends.measured else "cpu"
    with looking(problem, gpu) as look, _workplace(group, device, tell) as there:
        ground = Ground(
            library=group.library,
            look=look,
            target=gpu,
            problem=problem.name,
            family=problem.family,
            precision=problem.precision.value,
            way=group.way.cards if group.way and group.conditioned else (),
            ordered=group.form != "bare",
        )
        elsewhere = device == "cpu" and group.ends.measured
        expert = Yardstick(there, group.ends.expert, group.ends.report, elsewhere=elsewhere)
        judged: dict[str, Held] = {}
        for number in _numbers(group):
            made = leap(ground, group.ends.naive, number, group.ask.steps)
            sha = normalized_sha256(made.source)
            again = sha in judged
            if not again:
                judged[sha] = expert.hold(made.source)
            yield _leapt(group, number, made, judged[sha], again=again)


@contextmanager
def _workplace(group: _Group, device: str, tell: Tell) -> Iterator[SessionWorkplace]:
    """A workplace of a session that is not kept."""
    with tempfile.TemporaryDirectory(prefix="workbench-leap-") as scratch:
        path = create_session(
            _request(group.ask, group.ends, group.naive, "leap", device, Path(scratch))
        )
        store = SessionStore.open(path)
        place = SessionWorkplace(store, store.settings(), None, tell, may_resize=False)
        try:
            yield place
        finally:
            place.close()


def _leapt(group: _Group, number: int, made: Leap, found: Held, *, again: bool) -> Trial:
    """A trial; a kernel that an earlier one came to is not asked about `again`."""
    report = found.report
    why = [
        report.says,
        *_lacks(group.ends, made.source, group.library),
        f"took {', '.join(made.taken) or 'no card'}",
    ]
    if made.refused:
        why.append(f"refused: {', '.join(made.refused)}")
    if made.idle:
        why.append(f"nothing to do for {', '.join(made.idle)}")
    return Trial(
        workload=group.ends.problem,
        number=number,
        cards=group.form,
        way="leap",
        reached=found.reached,
        ratio=found.ratio,
        kind=found.kind,
        steps=made.tried,
        gpu_seconds=0.0 if again else report.gpu_seconds,
        session="",
        identical=found.identical and found.reached,
        wrong=int(_against(report, Stage.CORRECTNESS)),
        slower=int(not found.reached and report.stage is Stage.PROFILE),
        refused=len(made.refused) + _against(report, Stage.POLICY, Stage.COMPILE),
        along=group.way.lineage if group.way and group.conditioned else "",
        taken=made.taken,
        kernel=made.source,
        why="" if found.reached else "; ".join(why),
    )


def _against(report: GateReport, *stages: Stage) -> bool:
    """Whether the verdict is a refusal of one of these stages."""
    return report.verdict is Verdict.REJECTED and report.stage in stages


def _lacks(ends: Ends, source: str, library: Library) -> list[str]:
    """What a kernel lacks of the expert, and for which of that there is no card."""
    missing = lacking(ends.expert, source)
    none = uncarded(ends.steps, library)
    return [
        f"lacks {', '.join(missing) or 'no mechanism, but a value of one'}",
        *(none[one] for one in missing if one in none),
    ]


def _trial(
    ask: Ask, ends: Ends, naive: Path, form: Cards, library: Library, number: int, tell: Tell
) -> Trial:
    stem = f"roundtrip-{ends.problem}-{form}".replace(" ", "-")
    path = create_session(_request(ask, ends, naive, stem, ask.device, None))
    ended = serve_session(
        path,
        listen=tell,
        open_workplace=lambda store, settings, seed, emit: SessionWorkplace(
            store, settings, seed, emit, library=library
        ),
    )
    return _judged(path, ends, form, library, number, ended, tell)


def _request(
    ask: Ask, ends: Ends, naive: Path, stem: str, device: str, folder: Path | None
) -> RunRequest:
    return RunRequest(
        problem=ends.problem,
        kernel=naive,
        mode=Mode.AUTO,
        device=device,
        target=ends.target if device == "cpu" else ask.target,
        budget=Budget(steps=ask.steps, usd=ask.usd),
        proposer=ask.proposer,
        name="",
        stem=stem,
        sessions=folder or ask.sessions,
    )


def _judged(
    path: Path,
    ends: Ends,
    form: Cards,
    library: Library,
    number: int,
    ended: ev.RunEnded,
    tell: Tell,
) -> Trial:
    """The best kernel of a trial's session beside the expert."""
    store = SessionStore.open(path)
    every = [store.transition(v.number) for v in store.overview().versions]
    best = store.overview().best
    if best is None:
        raise WorkbenchError(f"the naive kernel did not pass: {ended.says}", where=str(path))
    source = store.source(best)
    settings = store.settings()
    workplace = SessionWorkplace(store, settings, None, tell, may_resize=False)
    try:
        elsewhere = settings.device_index is None and ends.measured
        found = Yardstick(workplace, ends.expert, ends.report, elsewhere=elsewhere).hold(source)
    finally:
        workplace.close()
    report = found.report
    spent = [t for t in every if 0 < t.number <= best]
    gates = [t.gate for t in every if t.number > 0]
    return Trial(
        workload=ends.problem,
        number=number,
        cards=form,
        reached=found.reached,
        ratio=found.ratio,
        kind=found.kind,
        steps=len(spent),
        gpu_seconds=sum(t.cost.gpu_seconds for t in spent),
        session=path.name,
        identical=found.identical and found.reached,
        wrong=sum(_against(one, Stage.CORRECTNESS) for one in gates),
        slower=sum(_against(one, Stage.PROFILE) for one in gates),
        refused=sum(_against(one, Stage.POLICY, Stage.COMPILE) for one in gates),
        why="" if found.reached else _why(ends, library, source, every, report, ended),
    )


def _why(
    ends: Ends,
    library: Library,
    source: str,
    every: Sequence[Transition],
    report: GateReport,
    ended: ev.RunEnded,
) -> str:
    """What the best kernel lacks, why the run went no further, and what was refused on the way."""
    refused = [
        f"{t.plan.card} ({t.gate.code})"
        for t in every
        if t.plan is not None and t.decision.answer is Answer.REJECTED
    ]
    parts = [
        f"{report.says}",
        *_lacks(ends, source, library),
        f"the run ended: {ended.says}",
    ]
    if refused:
        parts.append(f"refused: {', '.join(dict.fromkeys(refused))}")
    return "; ".join(parts)

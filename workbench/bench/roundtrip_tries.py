"""One trial of `bench roundtrip`: a leap or a session from a naive kernel, and how it ended."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import structs

from workbench.bench.leaps import Ground, Leap, leap
from workbench.bench.lineage_ends import Ends
from workbench.bench.roundtrip import Trial, lacking, uncarded
from workbench.bench.roundtrip_group import Clock, Group, Tell
from workbench.engine import events as ev
from workbench.engine.create import RunRequest, create_session
from workbench.engine.holding import Held, Yardstick
from workbench.engine.looking import Look, looking
from workbench.engine.serve import serve_session
from workbench.engine.workplace import SessionWorkplace
from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport, Stage, Verdict
from workbench.kernels.source import normalized_sha256
from workbench.kernels.target import target
from workbench.problems.load import load_problem
from workbench.problems.records import Problem
from workbench.session.records import Answer, Budget, Mode, Transition
from workbench.session.store import SessionStore
from workbench.skills.library import Library


def leaps(group: Group) -> Iterator[Trial]:
    """Trials by leaps: they share what the CPU path said of a kernel, and nothing that a GPU said.

    One that a limit ends is judged as far as it came; one that a signal ends is not.
    """
    problem = load_problem(group.ends.problem)
    device = group.ask.device if group.ends.measured else "cpu"
    clock = group.clock()
    with (
        looking(problem, target(group.ends.target)) as look,
        _workplace(group, device) as there,
    ):
        ground = _ground(group, problem, look)
        elsewhere = device == "cpu" and group.ends.measured
        expert = Yardstick(there, group.ends.expert, group.ends.report, elsewhere=elsewhere)
        judged: dict[str, Held] = {}
        for number in group.numbers(clock):
            made = _leap(group, ground, clock, number)
            if group.ending.asked:
                yield _so_far(group, number, made)
                return
            sha = normalized_sha256(made.source)
            again = sha in judged
            if not again:
                judged[sha] = expert.hold(made.source)
                clock.gpu_spent += judged[sha].report.gpu_seconds
            yield within(_leapt(group, number, made, judged[sha], again=again), clock.over)


def _ground(group: Group, problem: Problem, look: Look) -> Ground:
    return Ground(
        library=group.library,
        look=look,
        target=target(group.ends.target),
        problem=problem.name,
        family=problem.family,
        precision=problem.precision.value,
        way=group.way.cards if group.way and group.conditioned else (),
        ordered=group.form != "bare",
    )


def _leap(group: Group, ground: Ground, clock: Clock, number: int) -> Leap:
    """A leap, told after each of its steps."""

    def goes_on(made: Leap) -> bool:
        group.note(_so_far(group, number, made))
        return not clock.over and not group.ending.asked

    return leap(ground, group.ends.naive, number, group.ask.steps, goes_on)


def _so_far(group: Group, number: int, made: Leap) -> Trial:
    """A leap that nobody has judged yet."""
    return Trial(
        workload=group.ends.problem,
        number=number,
        cards=group.form,
        way="leap",
        state="cut",
        reached=False,
        ratio=None,
        kind=None,
        steps=made.tried,
        gpu_seconds=0.0,
        session="",
        refused=len(made.refused),
        along=group.way.lineage if group.way and group.conditioned else "",
        taken=made.taken,
        kernel=made.source,
        why=f"cut after {made.tried} edits, before a verdict; {_took(made)}",
    )


def _took(made: Leap) -> str:
    return f"took {', '.join(made.taken) or 'no card'}"


def within(trial: Trial, limit: str) -> Trial:
    """A trial with what it did within its limits, where it did not reach the expert."""
    if trial.reached:
        return trial
    within = f"{trial.steps} steps"
    if limit:
        within = f"{within} and {limit}"
    best = "not timed" if trial.ratio is None else f"{trial.ratio:.3f}x of the expert's speed"
    why = f"did not reach it within {within}; best so far {best}; {trial.why}"
    return structs.replace(trial, state="limit" if limit else "ended", why=why)


@contextmanager
def _workplace(group: Group, device: str) -> Iterator[SessionWorkplace]:
    """A workplace of a session that is not kept."""
    with tempfile.TemporaryDirectory(prefix="workbench-leap-") as scratch:
        budget = Budget(steps=group.ask.steps)
        path = create_session(_request(group, "leap", device, budget, Path(scratch)))
        store = SessionStore.open(path)
        place = SessionWorkplace(store, store.settings(), None, group.tell, may_resize=False)
        try:
            yield place
        finally:
            place.close()


def _leapt(group: Group, number: int, made: Leap, found: Held, *, again: bool) -> Trial:
    """A trial; a kernel that an earlier one came to is not asked about `again`."""
    report = found.report
    why = [report.says, *_lacks(group.ends, made.source, group.library), _took(made)]
    if made.refused:
        why.append(f"refused: {', '.join(made.refused)}")
    if made.idle:
        why.append(f"nothing to do for {', '.join(made.idle)}")
    return structs.replace(
        _so_far(group, number, made),
        state="ended",
        reached=found.reached,
        ratio=found.ratio,
        kind=found.kind,
        gpu_seconds=0.0 if again else report.gpu_seconds,
        identical=found.identical and found.reached,
        wrong=int(_against(report, Stage.CORRECTNESS)),
        slower=int(not found.reached and report.stage is Stage.PROFILE),
        refused=len(made.refused) + _against(report, Stage.POLICY, Stage.COMPILE),
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


def runs(group: Group) -> Iterator[Trial]:
    """Trials that ask the gate for each step, in sessions that are kept."""
    clock = group.clock()
    for number in group.numbers(clock):
        trial = _run(group, number, clock)
        clock.gpu_spent += trial.gpu_seconds
        yield trial


def _run(group: Group, number: int, clock: Clock) -> Trial:
    stem = f"roundtrip-{group.ends.problem}-{group.form}".replace(" ", "-")
    seconds, gpu = clock.left
    ask = group.ask
    budget = Budget(steps=ask.steps, usd=ask.usd, gpu_seconds=gpu, wall_seconds=seconds)
    path = create_session(_request(group, stem, ask.device, budget, ask.sessions))

    def hear(event: ev.AnyEvent) -> None:
        group.tell(event)
        if isinstance(event, ev.TransitionCommitted) and event.number > 0:
            group.note(_committed(group, number, path))

    with group.ending.running(path):
        ended = serve_session(
            path,
            listen=hear,
            open_workplace=lambda store, settings, seed, emit: SessionWorkplace(
                store, settings, seed, emit, library=group.library
            ),
        )
    if group.ending.asked:
        return _committed(group, number, path)
    limit = ended.says if ended.how == "budget" else ""
    return within(_judged(group, number, path, ended), limit)


def _request(group: Group, stem: str, device: str, budget: Budget, folder: Path) -> RunRequest:
    ask, ends = group.ask, group.ends
    return RunRequest(
        problem=ends.problem,
        kernel=group.naive,
        mode=Mode.AUTO,
        device=device,
        target=ends.target if device == "cpu" else ask.target,
        budget=budget,
        proposer=ask.proposer,
        name="",
        stem=stem,
        sessions=folder,
    )


def _committed(group: Group, number: int, path: Path) -> Trial:
    """A trial's session as it is in git, which nobody has compared with the expert yet."""
    store = SessionStore.open(path)
    overview = store.overview()
    every = [store.transition(v.number) for v in overview.versions]
    gates = [t.gate for t in every if t.number > 0]
    best = overview.best or 0
    speed = store.transition(best).gate.versus_seed if best else None
    so_far = "no faster than the naive kernel" if speed is None else f"{speed.says()} of the naive"
    return Trial(
        workload=group.ends.problem,
        number=number,
        cards=group.form,
        state="cut",
        reached=False,
        ratio=None,
        kind=None,
        steps=len(gates),
        gpu_seconds=sum(t.cost.gpu_seconds for t in every if t.number > 0),
        session=path.name,
        wrong=sum(_against(one, Stage.CORRECTNESS) for one in gates),
        slower=sum(_against(one, Stage.PROFILE) for one in gates),
        refused=sum(_against(one, Stage.POLICY, Stage.COMPILE) for one in gates),
        why=f"cut after {len(gates)} steps, before it was compared; best so far {so_far}",
    )


def _judged(group: Group, number: int, path: Path, ended: ev.RunEnded) -> Trial:
    """The best kernel of a trial's session beside the expert."""
    store = SessionStore.open(path)
    every = [store.transition(v.number) for v in store.overview().versions]
    best = store.overview().best
    if best is None:
        raise WorkbenchError(f"the naive kernel did not pass: {ended.says}", where=str(path))
    source = store.source(best)
    found = _held(store, group.ends, source, group.tell)
    spent = [t for t in every if 0 < t.number <= best]
    why = _why(group, source, every, found.report, ended)
    return structs.replace(
        _committed(group, number, path),
        state="ended",
        reached=found.reached,
        ratio=found.ratio,
        kind=found.kind,
        steps=len(spent),
        gpu_seconds=sum(t.cost.gpu_seconds for t in spent),
        identical=found.identical and found.reached,
        why="" if found.reached else why,
    )


def _held(store: SessionStore, ends: Ends, source: str, tell: Tell) -> Held:
    """A kernel of a session compared with the expert, on the session's own device."""
    settings = store.settings()
    workplace = SessionWorkplace(store, settings, None, tell, may_resize=False)
    try:
        elsewhere = settings.device_index is None and ends.measured
        return Yardstick(workplace, ends.expert, ends.report, elsewhere=elsewhere).hold(source)
    finally:
        workplace.close()


def _why(
    group: Group, source: str, every: Sequence[Transition], report: GateReport, ended: ev.RunEnded
) -> str:
    """What the best kernel lacks, why the run went no further, and what was refused on the way."""
    refused = [
        f"{t.plan.card} ({t.gate.code})"
        for t in every
        if t.plan is not None and t.decision.answer is Answer.REJECTED
    ]
    parts = [
        f"{report.says}",
        *_lacks(group.ends, source, group.library),
        f"the run ended: {ended.says}",
    ]
    if refused:
        parts.append(f"refused: {', '.join(dict.fromkeys(refused))}")
    return "; ".join(parts)

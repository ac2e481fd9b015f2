"""One trial of `bench roundtrip`: a leap or a session from a naive kernel, and how it ended."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import structs

from workbench.bench.leaps import Ground, Leap, leap
from workbench.bench.lineage_ends import Ends
from workbench.bench.roundtrip import Trial, lacking, uncarded
from workbench.bench.roundtrip_group import Ask, Clock, Group, Tell
from workbench.engine import events as ev
from workbench.engine.create import RunRequest, create_session
from workbench.engine.history import total_cost
from workbench.engine.holding import Held, Yardstick
from workbench.engine.serve import serve_session
from workbench.engine.workplace import SessionWorkplace
from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport, Stage, Verdict
from workbench.kernels.source import normalized_sha256
from workbench.kernels.target import target
from workbench.session.records import Answer, Budget, Mode, Transition
from workbench.session.store import SessionStore
from workbench.skills.library import Library


def leaps(group: Group) -> Iterator[Trial]:
    """Trials by leaps: they share the workload's judge, and what the CPU path said of a kernel.

    One that a limit ends is judged as far as it came, in seconds that are kept back for it; one
    that a signal ends is not.
    """
    clock = group.clock()
    group.workload.open()
    judged = set[str]()
    for place, number in enumerate(group.numbers):
        began = time.monotonic()
        if why := _may_not_begin(group, clock):
            yield _not_begun(group, number, group.ask.trials - place, why)
            return
        made = _leap(group, clock, number, began)
        limit = clock.over(group.workload.price)
        if group.ending.asked:
            yield _so_far(group, number, made, began)
            return
        found = group.workload.hold(made.source)
        sha = normalized_sha256(made.source)
        trial = _leapt(group, number, made, found, began=began, again=sha in judged)
        judged.add(sha)
        clock.gpu_spent += trial.gpu_seconds
        yield within(trial, limit)


def _may_not_begin(group: Group, clock: Clock) -> str:
    """What ends a group before its next trial: a signal, or the limit that is met; else empty."""
    return "a signal" if group.ending.asked else clock.over(group.workload.price)


def _beside_expert(trial: Trial, found: Held, why: str) -> Trial:
    """A trial that ended, with its kernel compared with the expert; `why` it did not reach it."""
    return structs.replace(
        trial,
        state="ended",
        reached=found.reached,
        ratio=found.ratio,
        kind=found.kind,
        identical=found.identical and found.reached,
        why="" if found.reached else why,
    )


def _not_begun(group: Group, number: int, left: int, limit: str) -> Trial:
    """A row for trials that had no time, so that no table leaves their form out."""
    price = group.workload.price
    of_seconds = limit.endswith(" s")
    takes = f", and a verdict takes about {price:.0f} s" if price and of_seconds else ""
    which = f"trial {number}" if left == 1 else f"trials {number} to {number + left - 1}"
    return Trial(
        workload=group.ends.problem,
        number=number,
        cards=group.form,
        way="leap" if group.ask.leap else "steps",
        state="cut",
        reached=False,
        ratio=None,
        kind=None,
        steps=0,
        gpu_seconds=0.0,
        session="",
        why=f"{which} not begun: ended by {limit}{takes}",
    )


def _ground(group: Group) -> Ground:
    problem = group.workload.problem
    return Ground(
        library=group.library,
        look=group.workload.look(),
        target=target(group.ends.target),
        problem=problem.name,
        family=problem.family,
        precision=problem.precision.value,
        way=group.way.cards if group.way and group.conditioned else (),
        ordered=group.form != "bare",
    )


def _leap(group: Group, clock: Clock, number: int, began: float) -> Leap:
    """A leap, told after each of its steps."""

    def goes_on(made: Leap) -> bool:
        group.note(_so_far(group, number, made, began))
        return not clock.over(group.workload.price) and not group.ending.asked

    return leap(_ground(group), group.ends.naive, number, group.ask.steps, goes_on)


def _so_far(group: Group, number: int, made: Leap, began: float) -> Trial:
    """A leap that nobody has judged yet; it `began` at a time of the monotonic clock."""
    seconds = time.monotonic() - began
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
        gpu_spent=0.0,
        seconds=seconds,
        session="",
        refused=len(made.refused),
        along=group.way.lineage if group.way and group.conditioned else "",
        taken=made.taken,
        kernel=made.source,
        why=f"cut after {made.tried} edits and {seconds:.0f} s, before a verdict; {_took(made)}",
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


def _leapt(
    group: Group, number: int, made: Leap, found: Held, *, began: float, again: bool
) -> Trial:
    """A trial; a kernel that an earlier one of its form came to is not asked about `again`.

    What another form came to was judged once, and costs either form what that verdict took.
    """
    report = found.report
    why = [report.says, *_lacks(group.ends, made.source, group.library), _took(made)]
    if made.refused:
        why.append(f"refused: {', '.join(made.refused)}")
    if made.idle:
        why.append(f"nothing to do for {', '.join(made.idle)}")
    spent = 0.0 if again else report.gpu_seconds
    return structs.replace(
        _beside_expert(_so_far(group, number, made, began), found, "; ".join(why)),
        gpu_seconds=spent,
        gpu_spent=spent,
        device=_gpu(report),
        wrong=int(_against(report, Stage.CORRECTNESS)),
        slower=int(not found.reached and report.stage is Stage.PROFILE),
        refused=len(made.refused) + _against(report, Stage.POLICY, Stage.COMPILE),
    )


def _gpu(report: GateReport) -> str:
    """Name of the GPU that measured; empty for the CPU path."""
    return "" if report.device == "cpu" else report.device


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
    for place, number in enumerate(group.numbers):
        if why := _may_not_begin(group, clock):
            yield _not_begun(group, number, group.ask.trials - place, why)
            return
        trial = _run(group, number, clock)
        clock.gpu_spent += trial.gpu_spent or 0.0
        yield trial


def _run(group: Group, number: int, clock: Clock) -> Trial:
    began = time.monotonic()
    stem = f"roundtrip-{group.ends.problem}-{group.form}".replace(" ", "-")
    seconds, gpu = clock.left
    ask = group.ask
    if seconds is not None:
        # The comparison with the expert follows the run.
        seconds = max(1.0, seconds - group.workload.price)
    budget = Budget(steps=ask.steps, usd=ask.usd, gpu_seconds=gpu, wall_seconds=seconds)
    path = create_session(request_of(group.ask, group.ends, group.naive, stem, budget))

    def so_far() -> Trial:
        took = time.monotonic() - began
        return structs.replace(_committed(group, number, path), seconds=took)

    def hear(event: ev.AnyEvent) -> None:
        group.tell(event)
        if isinstance(event, ev.TransitionCommitted) and event.number > 0:
            group.note(so_far())

    with group.ending.running(path):
        ended = serve_session(
            path,
            listen=hear,
            open_workplace=lambda store, settings, seed, emit: SessionWorkplace(
                store, settings, seed, emit, library=group.library
            ),
        )
    if group.ending.asked:
        return so_far()
    limit = ended.says if ended.how == "budget" else ""
    judged = within(_judged(group, number, path, ended), limit)
    return structs.replace(judged, seconds=time.monotonic() - began)


def request_of(ask: Ask, ends: Ends, naive: Path, stem: str, budget: Budget) -> RunRequest:
    """A session from the naive kernel, on the device that was asked for."""
    return RunRequest(
        problem=ends.problem,
        kernel=naive,
        mode=Mode.AUTO,
        device=ask.device,
        target=ends.target if ask.device == "cpu" else ask.target,
        budget=budget,
        proposer=ask.proposer,
        name="",
        stem=stem,
        sessions=ask.sessions,
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
        gpu_spent=_spent(store, every),
        device="" if store.settings().device_index is None else store.settings().device,
        session=path.name,
        wrong=sum(_against(one, Stage.CORRECTNESS) for one in gates),
        slower=sum(_against(one, Stage.PROFILE) for one in gates),
        refused=sum(_against(one, Stage.POLICY, Stage.COMPILE) for one in gates),
        why=f"cut after {len(gates)} steps, before it was compared; best so far {so_far}",
    )


def _spent(store: SessionStore, every: Sequence[Transition]) -> float:
    """GPU-seconds of a session: its seed, every step, last looks, and what was thrown away."""
    beside = (spend.cost for spend in store.overview().spends)
    return total_cost([*(t.cost for t in every), *beside]).gpu_seconds


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
    so_far = _committed(group, number, path)
    return structs.replace(
        _beside_expert(so_far, found, why),
        steps=len(spent),
        gpu_seconds=sum(t.cost.gpu_seconds for t in spent),
        gpu_spent=(so_far.gpu_spent or 0.0) + found.report.gpu_seconds,
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

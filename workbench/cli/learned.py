"""A backward walk in plain text: a line an attempt while it runs, and the chain at its end."""

import time
from pathlib import Path

from workbench.cli import emit
from workbench.cli.report import ratio_words, time_words
from workbench.cli.say import note
from workbench.engine import events as ev
from workbench.lineage.records import Attempt, Ended, Expert, Line, Termination
from workbench.session.names import spoken
from workbench.session.reader import SessionReader
from workbench.session.records import Answer, Transition


class Telling:
    """Prints a walk as it goes: text on stderr, or a JSON object a line on stdout."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._began = time.monotonic()

    def line(self, line: Line) -> None:
        """Print what the walk has just put on disk."""
        if self._json:
            emit.json(line)
            return
        if not isinstance(line, Ended):
            note(f"[{self.seconds:6.1f} s] {_words(line)}")

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return time.monotonic() - self._began

    def event(self, event: ev.AnyEvent) -> None:
        """Print what the gate has to say beside its reports."""
        if isinstance(event, ev.Note) and not self._json:
            note(event.says)


def _words(line: Expert | Attempt) -> str:
    if isinstance(line, Expert):
        return f"the expert passes its gate: {line.report.says}; {_ahead(line)}"
    what = f"{line.category} out of {line.kernel} ({line.says})"
    if not line.accepted:
        return f"not {what}: {line.why} [{line.code}]"
    back = "the same text" if line.same_text else f"{line.ratio:.3f}x the speed of what there was"
    if line.same_work:
        back = "other text, the same machine code, so as fast and not timed"
    return f"{what}: right without it, {line.predecessor.says}; put back: {back}"


def _ahead(expert: Expert) -> str:
    """What the walk will ask of the gate, and of the GPU where there is one."""
    from workbench.lineage.outlook import outlook

    ahead = outlook(expert.source)
    says = f"{ahead.mechanisms} mechanisms to take out, {ahead.verdicts} verdicts if all hold"
    one = expert.report.gpu_seconds
    price = f", at most {ahead.gpu_seconds(one):.0f} GPU-s at this one's {one:.1f}"
    return says + (price if one else "")


def ending(path: Path, ended: Ended, seconds: float | None = None, *, json: bool) -> None:
    """Print how a walk ended, after how many seconds where it ran now, and its chain."""
    if json:
        emit.json(ended)
        return
    after = "" if seconds is None else f"[{seconds:6.1f} s] "
    note(f"{after}{ended.how}: {ended.says}")
    emit.text(report(path))
    if ended.how is not Termination.COMPLETE:
        note(f"workbench learn --session {spoken(path)} goes on from here, in a new session")


def report(path: Path) -> str:
    """The chain from the simplest kernel to the expert, and what was tried and failed."""
    store = SessionReader(path)
    every = [store.transition(version.number) for version in store.overview().versions]
    chain = [t for t in every if t.decision.answer is Answer.ACCEPTED]
    rejected = [t for t in every if t.decision.answer is Answer.REJECTED]
    lines = [f"lineage   {path.name}  ({path})", *(_row(t) for t in chain)]
    if rejected:
        lines += ["in vain:", *(_row(t) for t in rejected)]
    return "\n".join(lines)


def _row(transition: Transition) -> str:
    plan, gate = transition.plan, transition.gate
    # The first kernel's origin says what it is: `naive: walked back from ...`, or how far it came.
    first, _, rest = transition.origin.partition(": ")
    title = plan.title if plan is not None else first
    kernel = plan.kernel if plan is not None else rest
    told = "-" if gate.time is None else time_words(gate.time)
    if transition.decision.answer is Answer.REJECTED:
        told = f"{gate.says} [{gate.code}]"
    step = "" if gate.speed is None else ratio_words(gate.speed)
    return f"v{transition.number:<3} {title:<28} {kernel:<24} {told}  {step}".rstrip()

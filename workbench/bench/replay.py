"""Where today's cards place the steps that recorded sessions kept, as if they were still ahead.

A card's evidence may come from the very session that is replayed. So every step is placed twice:
with all evidence, and without any from that problem, which is what a new problem would see.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from math import log
from pathlib import Path
from statistics import fmean, median

from msgspec import Struct, structs

from workbench.engine.history import History
from workbench.engine.laying import problem_of
from workbench.engine.memory import Memory
from workbench.engine.moving import read_history
from workbench.errors import WorkbenchError
from workbench.kernels.target import target
from workbench.problems.records import Problem
from workbench.problems.roofline import work_floor
from workbench.search.line import line_of
from workbench.search.proposer import consider
from workbench.search.ranking import in_order
from workbench.search.records import ProposerState
from workbench.session.bundle import recorded
from workbench.session.reader import SessionReader
from workbench.session.records import Answer, Transition
from workbench.skills.card import Skill
from workbench.skills.library import Library, load_library
from workbench.skills.records import Plan


class Placed(Struct, frozen=True, kw_only=True):
    """A kept step of a session, and when the cards as they are now would have come to it."""

    session: str
    problem: str
    parent: int
    number: int
    card: str
    gain: float | None
    """Time of the parent over the step's; None where it was not timed."""
    kind: str
    """`measured`, `modeled`, or empty without a gain."""
    then: int
    """How many steps the session made from the parent until this one, itself counted."""
    place: int | None
    """Place of the card among those that fit, 1 for the first; None where it would not be tried."""
    unseen: int | None
    """The same without the evidence from this problem."""
    fit: int
    """Number of cards that fit, without that evidence."""
    before: tuple[str, ...]
    """Cards that go first, without that evidence."""
    why: str
    """Why the card would not be tried, without that evidence; else why it has its place."""


def replay(paths: Iterable[Path]) -> Iterator[Placed]:
    """Place every kept step of sessions, folders or bundles; a folder of bundles means all in it.

    Of a step that a card of the library made; others are passed over. Steps count as tried that
    the session had made when it came to the step's parent. Raises WorkbenchError for what is no
    session, and for a folder without any.
    """
    library = load_library()
    for path in paths:
        for one in _sessions(path):
            with recorded(one) as reader, tempfile.TemporaryDirectory() as scratch:
                yield from _placed(reader, library, Path(scratch))


def _sessions(path: Path) -> Sequence[Path]:
    if not path.is_dir() or (path / ".git").exists():
        return (path,)
    found = sorted(path.rglob("*.bundle"))
    if not found:
        raise WorkbenchError(
            "there is no bundle of a session in this folder",
            where=str(path),
            todo="name files that `workbench export` wrote, or a folder with such files",
        )
    return found


def _placed(reader: SessionReader, library: Library, scratch: Path) -> Iterator[Placed]:
    settings = reader.settings()
    history = read_history(reader)
    about = _Replay(reader, history, problem_of(reader, settings.problem, scratch))
    unseen = _without(library, settings.problem)
    for step in history.transitions:
        plan = step.plan
        if plan is None or plan.card not in library.skills or step.parent is None:
            continue
        if step.decision.answer is not Answer.ACCEPTED:
            continue
        parent = history.get(step.parent)
        now, new = (about.place(plan, parent, cards) for cards in (library, unseen))
        speed = step.gate.speed
        yield Placed(
            session=settings.name,
            problem=settings.problem,
            parent=parent.number,
            number=step.number,
            card=plan.card,
            gain=None if speed is None else speed.ratio,
            kind="" if speed is None else speed.kind.value,
            then=sum(parent.number < one.number <= step.number for one in history.transitions),
            place=now.place,
            unseen=new.place,
            fit=new.fit,
            before=new.before,
            why=new.why,
        )


def _without(library: Library, problem: str) -> Library:
    """The library had nothing ever been tried on a problem."""

    def forgetting(skill: Skill) -> Skill:
        rows = tuple(row for row in skill.card.evidence if row.problem != problem)
        return structs.replace(skill, card=structs.replace(skill.card, evidence=rows))

    skills = {name: forgetting(skill) for name, skill in library.skills.items()}
    return structs.replace(library, skills=skills)


class _Place(Struct, frozen=True, kw_only=True):
    """Where one library has a card."""

    place: int | None
    fit: int
    before: tuple[str, ...] = ()
    why: str


class _Replay:
    """One session, asked again what it would try."""

    def __init__(self, reader: SessionReader, history: History, problem: Problem) -> None:
        self._reader = reader
        self._problem = problem
        self._target = target(reader.settings().target)
        self._floor = work_floor(problem, problem.full)
        memory = Memory(reader)
        self._tried = tuple(memory.tried(one, {}) for one in history.transitions)

    def place(self, plan: Plan, parent: Transition, library: Library) -> _Place:
        """The place of a plan's card among the cards that fit the parent."""
        state = self._state(parent, library)
        kernels = list(consider(state, line_of(state.history, state.number)))
        ranked = in_order([one for kernel in kernels for one in kernel.ranked])
        cards = list(dict.fromkeys(one.choice.skill.card.id for one in ranked))
        if plan.card not in cards:
            whys = (k.refused[plan.card] for k in kernels if plan.card in k.refused)
            return _Place(place=None, fit=len(cards), why=next(whys, "its kernel is gone"))
        at = cards.index(plan.card)
        says = next(one.says for one in ranked if one.choice.skill.card.id == plan.card)
        return _Place(place=at + 1, fit=len(cards), before=tuple(cards[:at]), why=says)

    def _state(self, parent: Transition, library: Library) -> ProposerState:
        gate, floor = parent.gate, self._floor
        return ProposerState(
            source=self._reader.source(parent.number),
            number=parent.number,
            library=library,
            target=self._target,
            launches=gate.launches,
            traces=gate.traces,
            ncu=gate.ncu,
            time=gate.time,
            family=self._problem.family,
            precision=self._problem.precision.value,
            flops=None if floor is None else floor.flops,
            bytes=None if floor is None else floor.bytes,
            history=tuple(one for one in self._tried if one.number <= parent.number),
        )


HEAD = ("problem", "step", "card", "gain", "then", "now", "unseen", "of")


def cells(row: Placed) -> tuple[str, ...]:
    """The row as the table prints it."""
    return (
        row.problem,
        f"v{row.parent}-v{row.number}",
        row.card,
        "-" if row.gain is None else f"{row.gain:.2f}x",
        str(row.then),
        "-" if row.place is None else str(row.place),
        "-" if row.unseen is None else str(row.unseen),
        str(row.fit),
    )


_LEGEND = (
    "then: steps the session made until it; now: its card's place among all that fit, 1 is first;"
    " unseen: that place without any evidence from its problem"
)


def summary(rows: Sequence[Placed]) -> list[str]:
    """How early the kept steps come, all together."""
    if not rows:
        return ["no step of these sessions was made by a card and kept"]
    return [
        _line("then", [row.then for row in rows], rows),
        _line("now", [row.place for row in rows], rows),
        _line("unseen", [row.unseen for row in rows], rows),
        _LEGEND,
    ]


def _line(name: str, places: Sequence[int | None], rows: Sequence[Placed]) -> str:
    known = [place for place in places if place is not None]
    if not known:
        return f"{name}: none of {len(rows)} would be tried"
    # What a late place costs is what is not gained meanwhile.
    weights = [log(max(row.gain or 1.0, 1.0)) for row in rows]
    gained = sum(weights) or 1.0
    early = sum(w for w, place in zip(weights, places, strict=True) if place == 1) / gained
    first = sum(place == 1 for place in known)
    return (
        f"{name}: {first} of {len(rows)} first, with {100 * early:.0f} % of what was gained; median"
        f" {median(known):g}, mean {fmean(known):.2f}; {len(rows) - len(known)} not tried"
    )

"""Whether a session holds what it claims: every commit read, decoded and compared with its parts.

For a bundle from somewhere else this is the customs: what passes has the form that this program
itself would have written, so that no later reader meets a surprise.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.session import spends, toml, trailers
from workbench.session.code import CODE, coded, read
from workbench.session.complaints import DamagedError
from workbench.session.layout import BEST, FILES, MAIN, Numbered, numbered
from workbench.session.lost import is_stand_in, lost_files
from workbench.session.moves import MOVES, move_number, parse
from workbench.session.plumbing import Found, Ref
from workbench.session.reader import SessionReader
from workbench.session.records import Answer, Transition
from workbench.session.spends import SPENDS, spend_number

_AT_ONCE = 64
"""Transitions whose files are in memory together."""


class Fault(Struct, frozen=True, kw_only=True):
    """One thing that is not as it must be."""

    where: str
    """A reference, or `repository`."""
    says: str


def check_session(session: SessionReader) -> tuple[Fault, ...]:
    """Everything that is wrong with a session, empty when nothing is. Reads all of it."""
    try:
        session.git.run("fsck", "--full", "--strict", "--no-dangling", "--no-progress")
        refs = session.git.refs("refs/attempts", "refs/pending", MOVES, SPENDS, MAIN, BEST)
        code = session.git.ref_ids(CODE)
    except WorkbenchError as fault:
        return (Fault(where="repository", says=fault.what),)
    return (*_Check(session, refs).faults(), *_code_faults(session, code))


def _code_faults(session: SessionReader, refs: Iterable[str]) -> Iterator[Fault]:
    for ref in refs:
        if not coded(ref):
            yield Fault(where=ref, says="the name is none of the workbench's")
            continue
        try:
            read(session.git, [ref.removeprefix(f"{CODE}/")])
        except DamagedError as fault:
            yield Fault(where=ref, says=fault.detail)


class Claim(NamedTuple):
    """What a version's record says of its place in the lineage."""

    number: int
    parent: int | None
    answer: Answer


class _Check:
    def __init__(self, session: SessionReader, refs: Sequence[Ref]) -> None:
        self._session = session
        self._refs = refs
        self._heads = {ref.id for ref in refs if ref.name in {MAIN, BEST}}
        rows = [(row, ref) for ref in refs if (row := numbered(ref.name))]
        decided = {row.number: ref for row, ref in rows if not row.pending}
        self._attempts = {number: ref.id for number, ref in decided.items()}
        self._trees = {number: ref.tree for number, ref in decided.items()}
        self._stand_ins = {n for n, ref in decided.items() if is_stand_in(ref.message)}

    def faults(self) -> Iterator[Fault]:
        """Faults of all references, in their order."""
        steps: list[tuple[Ref, Numbered]] = []
        for ref in self._refs:
            row = numbered(ref.name)
            if ref.unread:
                yield Fault(where=ref.name, says=ref.unread)
            elif row is not None:
                steps.append((ref, row))
            elif move_number(ref.name) is not None:
                yield from self._check_move(ref)
            elif spend_number(ref.name) is not None:
                yield from self._check_spend(ref)
            elif ref.name in {MAIN, BEST}:
                if ref.id not in self._attempts.values():
                    yield Fault(where=ref.name, says="it names no decided version")
            else:
                yield Fault(where=ref.name, says="the name is none of the workbench's")
        for start in range(0, len(steps), _AT_ONCE):
            yield from self._check_some(steps[start : start + _AT_ONCE])

    def _check_move(self, ref: Ref) -> Iterator[Fault]:
        """A move against the versions that it names; its own commit has nothing else in it."""
        try:
            move = parse(ref)
        except WorkbenchError as fault:
            yield Fault(where=ref.name, says=fault.what)
            return
        named = (move.before, move.to, move.best, *move.undone, *move.restored)
        if any(number not in self._attempts for number in named):
            yield Fault(where=ref.name, says="it names a version that was not decided")
        elif ref.parent != self._attempts[move.before]:
            yield Fault(where=ref.name, says="its commit's parent is not where `main` was")
        elif move.to not in self._stand_ins and ref.tree != self._trees[move.to]:
            yield Fault(where=ref.name, says="its files are not those of the version it went to")

    def _check_spend(self, ref: Ref) -> Iterator[Fault]:
        """A spend against the version that it names; its own commit has nothing else in it."""
        try:
            version = spends.parse(ref).version
        except WorkbenchError as fault:
            yield Fault(where=ref.name, says=fault.what)
            return
        if ref.parent != self._attempts.get(version):
            yield Fault(where=ref.name, says="its commit's parent is not the version it names")
        elif version not in self._stand_ins and ref.tree != self._trees[version]:
            yield Fault(where=ref.name, says="its files are not those of the version it names")

    def _check_some(self, steps: Sequence[tuple[Ref, Numbered]]) -> Iterator[Fault]:
        trees = self._session.git.objects(*(f"{ref.id}^{{tree}}" for ref, _ in steps))
        for (ref, row), found in zip(steps, trees, strict=True):
            try:
                says = self._check_one(ref, row, found)
            except WorkbenchError as fault:
                says = fault.what
            if says:
                yield Fault(where=ref.name, says=says)

    def _check_one(self, ref: Ref, row: Numbered, found: Found | None) -> str:
        """What is wrong with one version; empty when nothing is."""
        if found is None:
            return "it is not a commit"
        ids = self._session.git.plain_files(found)
        lost = lost_files(ref.message)
        if sorted(ids) != sorted(set(FILES) - lost):
            return f"its files are {', '.join(sorted(ids))}"
        if is_stand_in(ref.message):
            sound = not ref.parent and ref.id not in self._heads
            return "" if sound else "it stands for a lost version and has a place in the lineage"
        blobs = self._session.git.blobs(list(ids.values()))
        files = dict(zip(ids, blobs, strict=True))
        self._read_alone(files, ref.name)
        if lost & {"transition.toml", "profile.json"}:
            return next(self._claims(ref, row, _parsed(ref), told=True), "")
        transition, _ = toml.decode_transition(
            files["transition.toml"], files["profile.json"], ref.name
        )
        claim = Claim(transition.number, transition.parent, transition.decision.answer)
        return next(self._claims(ref, row, claim, told=_said(ref) == _held(transition)), "")

    def _read_alone(self, files: dict[str, bytes], where: str) -> None:
        """Files that say something without another. Raises WorkbenchError for one that does not."""
        for name in ("kernel.py", "problem.py", "problem.toml"):
            if name in files:
                self._session.text(files[name], name)
        if "session.toml" in files:
            toml.decode_settings(files["session.toml"], where)
        if "exchange.jsonl" in files:
            toml.decode_exchange(files["exchange.jsonl"], where)

    def _claims(self, ref: Ref, row: Numbered, held: Claim, *, told: bool) -> Iterator[str]:
        """The record against the reference and the parents of its commit; `told`: its message
        agrees with it."""
        parent, answer = held.parent, held.answer
        expected = "" if parent is None else self._attempts.get(parent, "nowhere")
        if held.number != row.number:
            yield f"it holds transition {held.number}"
        if (answer is Answer.PENDING) != row.pending:
            yield f"its decision is {answer.value}"
        if row.pending and row.number in self._attempts:
            yield "it waits for a decision that was taken"
        if ref.parent != expected or (parent is not None and parent >= row.number):
            yield "its commit's parent is not the version it was made from"
        if not told:
            yield "its message does not say what its record says"
        if ref.id in self._heads and answer is not Answer.ACCEPTED:
            yield "`main` or `best` names it and it was not accepted"


def _parsed(ref: Ref) -> Claim:
    said = trailers.parse(ref.message, commit=ref.id, authored=ref.authored, where=ref.name)
    return Claim(said.number, said.parent, said.answer)


def _said(ref: Ref) -> tuple[object, ...]:
    """What the message claims. Texts and rounded speeds may be worded anew by a later version."""
    said = trailers.parse(ref.message, commit=ref.id, authored=ref.authored, where=ref.name)
    cost = trailers.rounded(said.cost)
    return said.number, said.parent, said.verdict, said.stage, said.answer, said.by, cost


def _held(transition: Transition) -> tuple[object, ...]:
    gate, decision = transition.gate, transition.decision
    return (
        *(transition.number, transition.parent, gate.verdict, gate.stage),
        *(decision.answer, decision.by, trailers.rounded(transition.cost)),
    )

"""Reading a session: the lineage, a transition, a kernel, as git has them. Changes nothing."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, structs

from workbench.errors import WorkbenchError
from workbench.session import toml, trailers
from workbench.session.complaints import DamagedError, lost_index
from workbench.session.layout import (
    BEST,
    MAIN,
    START,
    START_FILES,
    STEP_FILES,
    attempt_ref,
    not_a_session,
    numbered,
    pending_ref,
    refuse_detours,
)
from workbench.session.lost import LOST_BEFORE, is_stand_in
from workbench.session.moves import MOVES, Move, read_moves, undone_by
from workbench.session.objects import blob
from workbench.session.plumbing import Plumbing, Ref, check_git
from workbench.session.readable import readable
from workbench.session.records import Answer, SessionSettings, Transition
from workbench.session.spends import SPENDS, Spend, read_spends
from workbench.session.trailers import Summary
from workbench.session.worktree import in_folder


class ProblemFiles(NamedTuple):
    """The problem as the session has it."""

    source: str
    sidecar: str
    """Empty when there is none."""


class Unread(NamedTuple):
    """A reference of the session that says nothing about it."""

    ref: str
    says: str
    """Why not, in a clause."""
    damaged: bool
    """What it named is broken or gone; else it names what somebody made by hand."""


class Overview(Struct, frozen=True, kw_only=True):
    """The whole lineage, lightly: what one git call returns."""

    versions: tuple[Summary, ...]
    """Versions in order of number, including those that wait for a person."""
    main: int | None
    """The newest kernel of the accepted line; None before the seed, or when `main` is not ours."""
    best: int | None
    undone: frozenset[int] = frozenset()
    """Accepted versions that a person took back; their answer reads `vetoed`."""
    spends: tuple[Spend, ...] = ()
    """What runs spent beside the versions, oldest first."""
    unread: tuple[Unread, ...] = ()
    """What is there by name and cannot be used; everything else is listed all the same."""

    def line(self) -> tuple[int, ...]:
        """Numbers of the accepted line, seed first."""
        parents = {version.number: version.parent for version in self.versions}
        line: list[int] = []
        at = self.main
        # A parent has a smaller number; a message that says otherwise must not make us circle.
        while at is not None and at in parents and (not line or at < line[-1]):
            line.append(at)
            at = parents[at]
        return tuple(reversed(line))


_EMPTY = blob(b"").id
_AT_ONCE = 64
"""Versions whose files are in memory together; ours. One may hold some MiB of prompts."""


class Record(NamedTuple):
    """Everything that was recorded of one transition."""

    transition: Transition
    source: str
    """Text of the candidate's file."""
    extra: dict[str, Any]
    """What the profile holds beside launches and traces."""
    exchange: list[dict[str, Any]]
    """Prompts and replies that led to the candidate."""


class SessionReader:
    """One session, read from git at every call: what another process wrote is seen at once."""

    def __init__(self, folder: Path) -> None:
        """Open a session; WorkbenchError when it is none, is damaged or of a newer format."""
        check_git()
        refuse_detours(folder)
        self.folder = folder
        self.git = Plumbing(folder)
        self.state = folder / ".git" / "workbench"
        """Journals, lock, log and scratch space of the engine."""
        self._first: tuple[str, dict[str, bytes]] = "", {}
        self.settings()

    def settings(self) -> SessionSettings:
        """How the session was started."""
        data = self._begun("session.toml")["session.toml"]
        return toml.decode_settings(data, f"session.toml of {self.folder}")

    def problem(self) -> ProblemFiles:
        """Text of the problem file and of its sidecar."""
        files = self._begun("problem.py", "problem.toml")
        return ProblemFiles(*(self.text(data, name) for name, data in files.items()))

    def overview(self) -> Overview:
        """Every version, `main` and `best`; one git call, whatever their number."""
        refs = self.git.refs("refs/attempts", "refs/pending", MOVES, SPENDS, MAIN, BEST)
        heads = {ref.name: ref.id for ref in refs if ref.name in {MAIN, BEST}}
        versions: dict[int, Summary] = {}
        moves, faults = read_moves(refs)
        spends, unspent = read_spends(refs)
        faults |= unspent
        for ref in sorted(refs, key=_authority):
            try:
                summary = self._summary(ref)
            except WorkbenchError as fault:
                faults[ref.name] = fault.what
                continue
            if summary is not None:
                versions.setdefault(summary.number, summary)
        numbers = {version.commit: number for number, version in versions.items()}
        undone = {n: move for n, move in undone_by(moves).items() if n in versions}
        for number, move in undone.items():
            answer, by = move.decision().answer, move.decision().by
            versions[number] = structs.replace(versions[number], answer=answer, by=by)
        return Overview(
            versions=tuple(versions[number] for number in sorted(versions)),
            main=numbers.get(heads.get(MAIN, "")),
            best=numbers.get(heads.get(BEST, "")),
            undone=frozenset(undone),
            spends=spends,
            unread=tuple(_unread(ref, faults[ref.name]) for ref in refs if ref.name in faults),
        )

    def moves(self) -> tuple[Move, ...]:
        """How a person moved `main`, oldest first; those that can be read."""
        return read_moves(self.git.refs(MOVES))[0]

    def summaries(self) -> tuple[Summary, ...]:
        """Every version by number, ascending."""
        return self.overview().versions

    def next_number(self) -> int:
        """The number that the next transition gets."""
        return max((row.number for row in map(numbered, self._step_refs()) if row), default=-1) + 1

    def record_of(self, number: int) -> Record:
        """All that is known of one version; WorkbenchError when there is none of that number."""
        return self._record(number, self._files(self.commit_of(number)))

    def _record(self, number: int, files: Mapping[str, bytes]) -> Record:
        where = f"v{number} of {self.folder}"
        lost = [name for name in STEP_FILES if name not in files]
        if lost:
            raise DamagedError(self.folder, f"v{number} has lost {', '.join(lost)}")
        texts = (files["transition.toml"], files["profile.json"])
        transition, extra = toml.decode_transition(*texts, where)
        source = self.text(files["kernel.py"], f"kernel.py of v{number}")
        return Record(
            transition, source, extra, toml.decode_exchange(files["exchange.jsonl"], where)
        )

    def transition(self, number: int) -> Transition:
        """The full record of one version; of one that was taken back, with that decision."""
        return self._as_it_stands(self.record_of(number).transition, undone_by(self.moves()))

    def transitions(self, overview: Overview) -> tuple[tuple[Transition, ...], tuple[Unread, ...]]:
        """The full records of the listed versions as they stand, by number, and those of which no
        record can be read."""
        undone = undone_by(self.moves())
        found: list[Transition] = []
        faults: list[Unread] = []
        for version, files in self._files_of(overview.versions):
            number = version.number
            try:
                # Alone where that failed, which says what is wrong.
                record = self._record(number, files) if files else self.record_of(number)
            except WorkbenchError as fault:
                what = fault.detail if isinstance(fault, DamagedError) else fault.what
                pending = version.answer is Answer.PENDING
                ref = (pending_ref if pending else attempt_ref)(number)
                faults.append(Unread(ref, what, damaged=True))
                continue
            found.append(self._as_it_stands(record.transition, undone))
        return tuple(found), tuple(faults)

    def _step_refs(self) -> dict[str, str]:
        return self.git.ref_ids("refs/attempts", "refs/pending")

    @staticmethod
    def _as_it_stands(transition: Transition, undone: Mapping[int, Move]) -> Transition:
        move = undone.get(transition.number)
        return transition if move is None else structs.replace(transition, decision=move.decision())

    def source(self, number: int) -> str:
        """Text of the candidate's file."""
        data = self._files(self.commit_of(number), ("kernel.py",))["kernel.py"]
        return self.text(data, f"kernel.py of v{number}")

    def exchanges(self) -> Iterator[list[dict[str, Any]]]:
        """Prompts, replies and hints of every version that has any, oldest first; a few git calls,
        whatever their number. One that cannot be read is left out."""
        names = [f"{version.commit}:exchange.jsonl" for version in self.summaries()]
        there = [id_ for id_ in self.git.ids(*names).values() if id_ != _EMPTY] if names else []
        for start in range(0, len(there), _AT_ONCE):
            for data in self.git.blobs(there[start : start + _AT_ONCE]):
                with suppress(WorkbenchError):
                    yield toml.decode_exchange(data, str(self.folder))

    def commit_of(self, number: int) -> str:
        """Commit id of a version, decided or waiting."""
        found = self.git.ids(attempt_ref(number), pending_ref(number))
        for ref in (attempt_ref(number), pending_ref(number)):
            if ref in found:
                return found[ref]
        if self.git.ref_ids(attempt_ref(number), pending_ref(number)):
            raise DamagedError(self.folder, f"the commit of v{number} cannot be read")
        raise WorkbenchError(
            f"the session has no version v{number}",
            where=str(self.folder),
            todo="`workbench log` lists its versions",
        )

    def _begun(self, *names: str) -> dict[str, bytes]:
        """Files of the tree that the session starts from, read once: a tree never changes."""
        start = self.git.ids(START).get(START, "")
        if not start or start != self._first[0]:
            self._first = start, self._beginning(start)
        files = self._first[1]
        for name in names:
            if name not in files:
                raise self._lacking(start, name)
        return {name: files[name] for name in names}

    def _beginning(self, start: str) -> dict[str, bytes]:
        """What is in the start; where that is gone or damaged, what the newest version carries."""
        fault: WorkbenchError = not_a_session(self.folder, f"it has no {START}")
        steps = sorted(self._step_refs(), key=_newest_last, reverse=True)
        if steps or self.git.ref_ids(START):
            says = "none of the objects that its references name can be read"
            fault = DamagedError(self.folder, says, lost_index(self.folder))
        most: dict[str, bytes] = {}
        for name in ([start] if start else []) + steps:
            try:
                found = self._begun_in(name)
            except DamagedError as damage:
                fault = damage if name == start else fault
                continue
            if len(found) == len(START_FILES):
                return found
            most = max(most, found, key=len)
        if most:
            return most
        raise fault

    def _begun_in(self, name: str) -> dict[str, bytes]:
        """Those of the files that can be read, from git or, the very bytes, from the folder."""
        ids = self.git.files(name)
        there = [part for part in START_FILES if part in ids]
        try:
            return dict(zip(there, self.git.blobs([ids[part] for part in there]), strict=True))
        except DamagedError:
            wanted = [ids[part] for part in there]
            kept = in_folder(self.folder, wanted) | readable(self.git, "blob", wanted)
            return {part: kept[ids[part]] for part in there if ids[part] in kept}

    def start_is_whole(self) -> bool:
        """Whether git has the files that the session starts from where they were written."""
        try:
            ids = self.git.files(START)
            self.git.blobs([ids[part] for part in START_FILES if part in ids])
        except DamagedError:
            return False
        return all(part in ids for part in START_FILES)

    def _lacking(self, commit: str, name: str) -> DamagedError:
        todo = ""
        if name in START_FILES:
            todo = f"put the {name} that the session was started with into this folder"
        return DamagedError(self.folder, f"{commit[:10]} has no {name}", todo)

    def _summary(self, ref: Ref) -> Summary | None:
        """What a reference's commit says; None for a branch that the person has moved."""
        where = f"{ref.name} of {self.folder}"
        named = numbered(ref.name)
        if ref.name not in {MAIN, BEST} and named is None:
            return None
        if ref.unread:
            raise DamagedError(self.folder, f"{ref.name}: {ref.unread}")
        if is_stand_in(ref.message):
            raise DamagedError(self.folder, f"{ref.name}: {LOST_BEFORE}")
        try:
            summary = trailers.parse(ref.message, commit=ref.id, authored=ref.authored, where=where)
        except WorkbenchError:
            if named is None:
                return None
            raise
        if named is not None and summary.number != named.number:
            raise DamagedError(self.folder, f"{ref.name} holds transition {summary.number}")
        return summary

    def _files(self, commit: str, names: Sequence[str] = ()) -> dict[str, bytes]:
        """Files of a commit's tree, all or those named; only plain ones, each once."""
        ids = self.git.files(commit)
        for name in names:
            if name not in ids:
                raise self._lacking(commit, name)
        wanted = list(names or ids)
        return dict(zip(wanted, self.git.blobs([ids[name] for name in wanted]), strict=True))

    def _files_of(
        self, versions: Sequence[Summary]
    ) -> Iterator[tuple[Summary, dict[str, bytes] | None]]:
        """Files of each version's tree, read some versions at a time; None where they cannot be."""
        for first in range(0, len(versions), _AT_ONCE):
            some = versions[first : first + _AT_ONCE]
            found = self._trees_of([version.commit for version in some])
            yield from ((version, found.get(version.commit)) for version in some)

    def _trees_of(self, commits: Sequence[str]) -> dict[str, dict[str, bytes]]:
        """Files of these commits' trees, in three git calls; empty if any of them is damaged."""
        try:
            trees = self.git.objects(*(f"{commit}^{{tree}}" for commit in commits))
            ids = {c: self.git.plain_files(t) for c, t in zip(commits, trees, strict=True) if t}
            every = list(dict.fromkeys(id_ for files in ids.values() for id_ in files.values()))
            data = dict(zip(every, self.git.blobs(every), strict=True))
        except WorkbenchError:
            return {}
        return {
            commit: {name: data[id_] for name, id_ in files.items()}
            for commit, files in ids.items()
        }

    def text(self, data: bytes, name: str) -> str:
        """A source file of the session as text."""
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as fault:
            raise DamagedError(self.folder, f"{name} is not UTF-8 text") from fault


def _unread(ref: Ref, fault: str) -> Unread:
    if is_stand_in(ref.message):
        return Unread(ref.name, LOST_BEFORE, damaged=True)
    return Unread(ref.name, ref.unread or fault, damaged=bool(ref.unread))


def _newest_last(ref: str) -> int:
    row = numbered(ref)
    return -1 if row is None else row.number


def _authority(ref: Ref) -> int:
    """Who is believed about a version: its decided commit, then a branch, then the waiting one.

    Between the moves of one transaction a branch may be there before its attempt.
    """
    if ref.name in {MAIN, BEST}:
        return 1
    return 2 if ref.name.startswith("refs/pending/") else 0

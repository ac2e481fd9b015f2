"""What a damaged session still holds, copied into a repository of its own that is whole for git.

Every object is read and its id checked. A version keeps the files that can be read and says which
it lost (`lost.py`); commits made from one that changed so are written anew, with the same words.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from graphlib import TopologicalSorter
from typing import NamedTuple

from workbench.session.code import coded
from workbench.session.layout import BEST, FILES, MAIN, attempt_ref, numbered
from workbench.session.lost import is_stand_in, lost_files, stand_in, without
from workbench.session.objects import (
    FILE_MODE,
    GitObject,
    blob,
    commit,
    parse_tree,
    tree,
)
from workbench.session.plumbing import NO_REF, NOBODY, Plumbing, Update
from workbench.session.readable import readable
from workbench.session.trailers import row_of
from workbench.session.worktree import in_folder

_AT_ONCE = 64
"""Objects in memory together while they are copied; ours."""

_EMPTY = blob(b"")
"""An exchange without a line: what it held is known."""

_NAMES_A_VERSION = ("Parent-Transition", "From-Version", "Version")
"""Rows in which a step, a move and a spend name the version that their commit was made from."""


class _Commit(NamedTuple):
    """One commit that was read."""

    data: bytes
    tree: str
    parents: tuple[str, ...]
    message: str


def rescue(session: Plumbing, refs: Mapping[str, str], into: Plumbing) -> dict[str, str]:
    """Copy what these references lead to and can be read; returns what is lost, by reference.

    Every version has its reference in `into`, a lost one too. Raises WorkbenchError where nothing
    can be written there.
    """
    return _Rescue(session, into).run(refs)


class _Rescue:
    def __init__(self, session: Plumbing, into: Plumbing) -> None:
        self._from, self._into = session, into
        self._commits: dict[str, _Commit] = {}
        self._files: dict[str, dict[str, str]] = {}
        """Readable files of every readable tree, by the tree's id."""
        self._now: dict[str, str] = {}
        """What became of each commit, by its former id."""
        self._shape: dict[str, str] = {}
        """What became of each tree."""

    def run(self, refs: Mapping[str, str]) -> dict[str, str]:
        """See `rescue`."""
        told: dict[str, str] = {}
        history = {name: id_ for name, id_ in refs.items() if not coded(name)}
        code = {name: id_ for name, id_ in refs.items() if coded(name)}
        self._read_commits(history.values())
        trees = {one.tree for one in self._commits.values()}
        self._read_trees([*trees, *code.values()])
        numbers = self._lost_numbers(history)
        self._rewrite(numbers)
        history |= {
            attempt_ref(n): id_ for id_, n in numbers.items() if id_ not in history.values()
        }
        kept: dict[str, str] = {}
        for name, id_ in history.items():
            says = self._says(name, id_)
            if says:
                told[name] = says
            if numbered(name) or not says:
                kept[name] = self._now[id_]
        for name, id_ in code.items():
            if id_ in self._files and self._shape[id_] == id_:
                kept[name] = id_
            else:
                told[name] = "a part of it"
        self._into.move([Update(name, id_, NO_REF) for name, id_ in kept.items()], "rescued")
        return told

    def _says(self, name: str, id_: str) -> str:
        """What is lost of what a reference names; empty where nothing is."""
        if id_ not in self._commits:
            if name in {MAIN, BEST}:
                return "its commit; an import puts it at a version that can be read"
            return "its commit, with everything that it held"
        files = lost_files(self._rewritten(self._commits[id_]))
        return ", ".join(name for name in FILES if name in files)

    # Reading

    def _read_commits(self, ids: Iterable[str]) -> None:
        queue, asked = set(ids), set[str]()
        while queue:
            asked |= queue
            found = readable(self._from, "commit", sorted(queue))
            self._commits |= {id_: _parsed(data) for id_, data in found.items()}
            queue = {p for id_ in found for p in self._commits[id_].parents} - asked

    def _read_trees(self, ids: Sequence[str]) -> None:
        """Trees and, part by part, their files, which are copied at once."""
        entries: dict[str, dict[str, str]] = {}
        for id_, data in readable(self._from, "tree", sorted(set(ids))).items():
            with suppress(ValueError):
                entries[id_] = {e.name: e.id for e in parse_tree(data) if e.mode == FILE_MODE}
        wanted = sorted({one for files in entries.values() for one in files.values()})
        there: set[str] = set()
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            found = readable(self._from, "blob", some)
            if len(found) < len(some):
                found |= in_folder(self._from.folder, set(some) - found.keys())
                found |= {_EMPTY.id: b""} if _EMPTY.id in some else {}
            self._into.store([blob(data) for data in found.values()])
            there |= found.keys()
        whole: list[GitObject] = []
        for id_, files in entries.items():
            self._files[id_] = {name: one for name, one in files.items() if one in there}
            node = tree(self._files[id_])
            self._shape[id_] = node.id
            whole.append(node)
        self._into.store([*whole, tree({})])

    def _lost_numbers(self, refs: Mapping[str, str]) -> dict[str, int]:
        """Lost commits that stand for a version, with its number, as a reference or a child of it
        tells."""
        found: dict[str, int] = {}
        for name, id_ in refs.items():
            row = numbered(name)
            if row and id_ not in self._commits:
                found[id_] = row.number
        for one in self._commits.values():
            rows = (row_of(one.message, key) for key in _NAMES_A_VERSION)
            number = next((int(row) for row in rows if row.isdigit()), None)
            for parent in one.parents:
                if parent not in self._commits and number is not None:
                    found.setdefault(parent, number)
        return found

    # Writing

    def _rewrite(self, lost: Mapping[str, int]) -> None:
        empty, now = tree({}).id, NOBODY.stamp(0)
        nodes: list[GitObject] = []
        for id_, number in lost.items():
            node = commit(empty, [], now, now, stand_in(number, id_))
            self._now[id_] = node.id
            nodes.append(node)
        order = TopologicalSorter({id_: one.parents for id_, one in self._commits.items()})
        for id_ in order.static_order():
            if id_ in self._commits:
                nodes.append(self._anew(self._commits[id_]))
                self._now[id_] = nodes[-1].id
        for start in range(0, len(nodes), _AT_ONCE):
            self._into.store(nodes[start : start + _AT_ONCE])

    def _anew(self, one: _Commit) -> GitObject:
        """The commit with what became of its tree and parents; itself where nothing changed."""
        shape = self._shape.get(one.tree, tree({}).id)
        parents = tuple(self._now[id_] for id_ in one.parents if id_ in self._now)
        message = self._rewritten(one)
        if (shape, parents, message) == (one.tree, one.parents, one.message):
            return GitObject("commit", one.data)
        head, _, _ = one.data.partition(b"\n\n")
        rest = [x for x in head.split(b"\n") if not x.startswith((b"tree ", b"parent "))]
        lines = [f"tree {shape}".encode(), *(f"parent {id_}".encode() for id_ in parents), *rest]
        text = message.encode("utf-8", "surrogateescape")
        return GitObject("commit", b"\n".join(lines) + b"\n\n" + text)

    def _rewritten(self, one: _Commit) -> str:
        """Its message; a version's says which files it lost. A stand-in stays as it is."""
        if not row_of(one.message, "Decision") or is_stand_in(one.message):
            return one.message
        lost = frozenset(FILES) - self._files.get(one.tree, {}).keys()
        return without(one.message, lost) if lost else one.message


def _parsed(data: bytes) -> _Commit:
    head, _, message = data.partition(b"\n\n")
    rows = [line.decode("utf-8", "replace").partition(" ") for line in head.split(b"\n")]
    parents = tuple(value for key, _, value in rows if key == "parent")
    root = next((value for key, _, value in rows if key == "tree"), "")
    return _Commit(data, root, parents, message.decode("utf-8", "surrogateescape"))

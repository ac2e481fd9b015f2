"""The one place that runs git, isolated from a person's and a stranger's git configuration.

A session's folder may come from anywhere. Git would run programs named in its configuration (hooks,
filters, file-system monitors, signing and transport helpers), and follow variables left in our
environment (`GIT_DIR`) to another repository. So: only commands that read and write objects and
references, each with the repository named outright, global settings absent, and every setting that
starts a program switched off on the command line, where it wins over the repository's own file.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from subprocess import PIPE
from typing import BinaryIO, NamedTuple

from workbench.errors import WorkbenchError
from workbench.session.complaints import DamagedError, explained
from workbench.session.objects import FILE_MODE, GitObject, Person, pack, parse_tree

OLDEST_GIT = (2, 34)
"""Ubuntu 22.04's; older ones lack `GIT_CONFIG_GLOBAL`, so a person's settings could leak in."""

FILE_CAP = 32 << 20
"""Bytes of one file of a transition; ours. Traces of 100 launches take under one MiB."""

NOBODY = Person("workbench", "workbench@localhost")
"""Author and committer where the person gave git no name."""

NO_REF = "0" * 40
"""What git calls a reference that does not exist."""

_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.sshCommand": "false",
    "core.alternateRefsCommand": "false",
    "core.commitGraph": "false",
    "core.fsync": "all",
    "core.fsyncObjectFiles": "true",  # the same for git before 2.36
    "core.fsyncMethod": "fsync",
    "core.logAllRefUpdates": "true",
    "core.filesRefLockTimeout": "2000",
    "core.packedRefsTimeout": "2000",
    "core.bigFileThreshold": str(FILE_CAP),
    "gc.auto": "0",
    "gc.recentObjectsHook": "",
    "maintenance.auto": "false",
    "log.showSignature": "false",
}

_SURROUNDINGS = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_SHALLOW_FILE": "",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "LC_ALL": "C",  # what git says is read
}
_KEPT = {"GIT_EXEC_PATH", "GIT_SSL_CAINFO"}
"""Where this machine's git lives; everything else that starts with GIT_ is taken away."""


class Ref(NamedTuple):
    """A reference and the commit it names; for any other object only `name` and `id` are filled."""

    name: str
    id: str
    """Empty where the reference's own file is damaged."""
    tree: str = ""
    parent: str = ""
    authored: str = ""
    """Author's date, ISO 8601."""
    message: str = ""

    @property
    def unread(self) -> str:
        """Why its commit is not known, in a clause; empty where it is."""
        if not self.id:
            return "the file of this reference is damaged"
        return "" if self.tree else f"{self.id[:10]}, which it names, cannot be read as a commit"


class Found(NamedTuple):
    """An object as git gave it."""

    id: str
    data: bytes


class Update(NamedTuple):
    """One change of a reference, from what it must be now to what it shall be.

    `NO_REF` stands for nothing: as `old` the reference must not exist, as `new` it is removed, as
    both it is only checked."""

    name: str
    new: str
    old: str


class Plumbing:
    """Git commands on one repository. Stateless: safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git_dir = folder / ".git"

    def run(self, *arguments: str, feed: bytes | BinaryIO = b"") -> bytes:
        """What the command printed; WorkbenchError when git is missing or says no.

        `feed` is its input: bytes, or an unbuffered file from where it stands.
        """
        return self._told(*arguments, feed=feed)[0]

    def _told(self, *arguments: str, feed: bytes | BinaryIO = b"") -> tuple[bytes, str]:
        """As `run`, with git's warnings although it succeeded."""
        status, out, complaint = self._executed(arguments, feed)
        if status < 0:
            complaint += f"\nit died of signal {-status}"
        if status != 0:
            raise explained(arguments[0], complaint, self.folder)
        return out, complaint

    def _executed(
        self, arguments: Sequence[str], feed: bytes | BinaryIO = b""
    ) -> tuple[int, bytes, str]:
        place = {
            "GIT_DIR": str(self.git_dir),
            "GIT_COMMON_DIR": str(self.git_dir),
            "GIT_WORK_TREE": str(self.folder),
            "GIT_INDEX_FILE": str(self.git_dir / "index"),
            "GIT_OBJECT_DIRECTORY": str(self.git_dir / "objects"),
        }
        return _execute(arguments, place, feed)

    def unreachable(self) -> list[str]:
        """Commits that no reference leads to; finds them in a damaged repository too."""
        _, out, _ = self._executed(("fsck", "--unreachable", "--no-reflogs", "--no-progress"))
        return re.findall(r"^unreachable commit ([0-9a-f]{40})$", out.decode(), re.MULTILINE)

    def refs(self, *patterns: str) -> list[Ref]:
        """References under the patterns with their commits, sorted by name: in one git call, where
        every commit can be read. `Ref.unread` says of the others why not.
        """
        try:
            found, broken = self._refs(patterns)
        except DamagedError:
            ids = self.ref_ids(*patterns)
            found = self._refs_apart(ids, [name for name, id_ in ids.items() if id_])
            broken = [name for name, id_ in ids.items() if not id_]
        return sorted([*found, *(Ref(name, "") for name in broken)])

    def _refs(self, patterns: Sequence[str]) -> tuple[list[Ref], list[str]]:
        layout = "%00".join(f"%({field})" for field in _FIELDS) + "%00"
        text, broken = self._listed(layout, patterns)
        # No field can hold a NUL: git ends a message at its first one.
        parts = text.split("\0")
        rows = zip(*(parts[i :: len(_FIELDS)] for i in range(len(_FIELDS))), strict=False)
        return [Ref(row[0].lstrip("\n"), *row[1:]) for row in rows], broken

    def _refs_apart(self, ids: Mapping[str, str], names: Sequence[str]) -> list[Ref]:
        """As `_refs`; halves that hold an unreadable commit are asked for again, half by half."""
        try:
            return self._refs(names)[0] if names else []
        except DamagedError:
            if len(names) == 1:
                return [Ref(names[0], ids[names[0]])]
            middle = len(names) // 2
            return [
                *self._refs_apart(ids, names[:middle]),
                *self._refs_apart(ids, names[middle:]),
            ]

    def _listed(self, layout: str, patterns: Sequence[str]) -> tuple[str, list[str]]:
        """What git prints of the references, and the names of those whose files are damaged."""
        out, complaint = self._told("for-each-ref", f"--format={layout}", *patterns)
        broken = [
            name
            for name in _BROKEN.findall(complaint)
            if any(name == one or name.startswith(f"{one}/") for one in patterns)
        ]
        return out.decode("utf-8", "replace"), broken

    def ids(self, *names: str) -> dict[str, str]:
        """What these references name, leaving out those that do not exist; finds each by its name,
        however many others there are."""
        feed = "".join(f"{name}\n" for name in names).encode()
        lines = self.run("cat-file", "--batch-check=%(objectname)", feed=feed).decode().splitlines()
        return {n: line for n, line in zip(names, lines, strict=True) if _OBJECT_ID.fullmatch(line)}

    def ref_ids(self, *patterns: str) -> dict[str, str]:
        """Names and ids of all references under the patterns, empty for one whose file is damaged;
        reads no object."""
        text, broken = self._listed("%(objectname) %(refname)", patterns)
        rows = (line.partition(" ") for line in text.splitlines())
        return dict.fromkeys(broken, "") | {name: id_ for id_, _, name in rows}

    def store(self, objects: Iterable[GitObject]) -> None:
        """Write objects to disk and wait until they are safe. No reference moves."""
        self.run("unpack-objects", "-q", "--strict", feed=pack(objects))

    def move(self, updates: Sequence[Update], why: str) -> None:
        """Change all references or none; WorkbenchError when one is not what it must be now."""
        lines = [
            f"verify {update.name} {update.old}\n"
            if update.new == update.old
            else f"update {update.name} {update.new} {update.old}\n"
            for update in updates
        ]
        self.run("update-ref", "-m", why, "--stdin", feed="".join(lines).encode())

    def objects(self, *names: str) -> list[Found | None]:
        """Commits or trees by id or name (`main^{tree}`), in one git call; None where none is."""
        feed = "".join(f"{name}\n" for name in names).encode()
        return list(_batch(self.run("cat-file", "--batch", feed=feed)))

    def files(self, name: str) -> dict[str, str]:
        """Names and blob ids of a commit's (or tree's) files."""
        (found,) = self.objects(f"{name}^{{tree}}")
        if found is None:
            raise DamagedError(self.folder, f"there is no tree of {name}")
        return self.plain_files(found)

    def plain_files(self, found: Found) -> dict[str, str]:
        """Names and blob ids in a tree object; refuses folders, symlinks, programs, submodules."""
        try:
            entries = parse_tree(found.data)
        except ValueError as fault:
            raise DamagedError(self.folder, f"the tree {found.id[:10]} is malformed") from fault
        for entry in entries:
            if entry.mode != FILE_MODE:
                raise DamagedError(
                    self.folder, f"{entry.name!r} in {found.id[:10]} is not a plain file"
                )
        return {entry.name: entry.id for entry in entries}

    def blobs(self, ids: Sequence[str]) -> list[bytes]:
        """Contents of files by id; refuses, before reading any, one that is larger than the cap."""
        feed = "".join(f"{id_}\n" for id_ in ids).encode()
        if not feed:
            return []
        for line in self.run("cat-file", "--batch-check", feed=feed).decode().splitlines():
            id_, _, rest = line.partition(" ")
            type_, _, size = rest.partition(" ")
            if type_ != "blob":
                raise DamagedError(self.folder, f"object {id_[:10]} is {rest or 'malformed'}")
            if int(size) > FILE_CAP:
                raise WorkbenchError(
                    f"a file of this session has {int(size) >> 20} MiB, more than the"
                    f" {FILE_CAP >> 20} MiB that are read",
                    where=f"{self.folder}, object {id_[:10]}",
                    todo="read it with `git cat-file -p` there; the workbench did not write it",
                )
        found = _batch(self.run("cat-file", "--batch", feed=feed))
        return [item.data for item in found if item is not None]


def create_repository(folder: Path) -> None:
    """An empty repository whose first branch will be `main`; no template, so no hook."""
    arguments = ("init", "--quiet", "--template=", "--object-format=sha1", "--initial-branch=main")
    place = {"GIT_DEFAULT_REF_FORMAT": "files"}
    status, _, complaint = _execute((*arguments, str(folder)), place, b"")
    if status == 0:
        return
    fault = explained("init", complaint, folder)
    if isinstance(fault, DamagedError):  # nothing was there that could be damaged
        raise WorkbenchError(
            f"no repository can be made there: {fault.detail}",
            where=str(folder),
            todo="see that the folder can be written to and that its disk is not full",
        )
    raise fault


def person() -> Person:
    """Who commits: the person's name from environment or global git settings, else ours.

    A session's own settings are not asked: a stranger could have written them.
    """
    known = {
        "user.name": os.environ.get("GIT_AUTHOR_NAME", ""),
        "user.email": os.environ.get("GIT_AUTHOR_EMAIL", ""),
    }
    if not all(known.values()):
        # With a repository that does not exist git reads the person's settings alone.
        arguments = ("config", "-z", "--get-regexp", r"^user\.(name|email)$")
        _, out, _ = _execute(arguments, {"GIT_DIR": os.devnull}, deaf=False)
        for row in out.decode("utf-8", "replace").split("\0"):
            key, _, value = row.partition("\n")
            if key in known and not known[key]:
                known[key] = value
    name, email = (re.sub(r"[<>\s\x00-\x1f]+", " ", value).strip() for value in known.values())
    return Person(name, email.replace(" ", "")) if name and email else NOBODY


def _execute(
    arguments: Sequence[str],
    place: dict[str, str],
    feed: bytes | BinaryIO = b"",
    *,
    deaf: bool = True,
) -> tuple[int, bytes, str]:
    """Exit status, output and complaints; a person's settings are heard only when not `deaf`."""
    if not shutil.which("git"):
        raise WorkbenchError("git is not installed, or not on PATH", todo=_install())
    import git  # 0.1 s, and it refuses to load where the program is missing

    chosen = (_SURROUNDINGS if deaf else {}) | place
    kept = _KEPT if deaf else {name for name in os.environ if name.startswith("GIT_CONFIG")}
    stray = [n for n in os.environ if n.startswith("GIT_") and n not in chosen and n not in kept]
    command = ["env", *(f"--unset={name}" for name in stray)] if stray else []
    command.append("git")
    if deaf:
        command += [part for pair in _SETTINGS.items() for part in ("-c", "=".join(pair))]
    source: int | BinaryIO = PIPE if isinstance(feed, bytes) else feed
    process = git.Git(os.sep).execute(
        [*command, *arguments],
        istream=source,
        as_process=True,
        shell=False,
        env=chosen,
        start_new_session=True,  # a ctrl-c is for us: it must not end a commit in its middle
    )
    out, complaint = process.communicate(feed if isinstance(feed, bytes) else None)
    return process.returncode, out, complaint.decode("utf-8", "replace").strip()


def _install() -> str:
    return f"install git {OLDEST_GIT[0]}.{OLDEST_GIT[1]} or newer and try again"


def check_git() -> tuple[int, int]:
    """The version of git; WorkbenchError when it is missing or too old."""
    _, out, _ = _execute(("version",), {})
    found = re.search(rb"(\d+)\.(\d+)", out)
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    if version < OLDEST_GIT:
        raise WorkbenchError(f"git is too old: {out.decode().strip()}", todo=_install())
    return version


def _batch(out: bytes) -> Iterator[Found | None]:
    """Objects as `cat-file --batch` prints them; None for one that is missing."""
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        words = out[at:end].decode("utf-8", "replace").split(" ")
        at = end + 1
        if len(words) == 3 and words[2].isdigit():
            size = int(words[2])
            yield Found(words[0], out[at : at + size])
            at += size + 1
        else:
            yield None


_FIELDS = ("refname", "objectname", "tree", "parent", "authordate:iso-strict", "contents")
_OBJECT_ID = re.compile(r"[0-9a-f]{40}")
_BROKEN = re.compile(r"^warning: ignoring broken ref (\S+)$", re.MULTILINE)

"""Git's objects (files, folders, commits) as bytes and ids, computed without a repository.

Objects are built here and handed to git as one pack stream, so that a transition's files, tree and
commit reach the disk in a single step that touches neither index nor worktree.
Format: git's own documentation, `gitformat-pack(5)` and `git-hash-object(1)`.
"""

import hashlib
import struct
import zlib
from collections.abc import Iterable
from typing import Literal, NamedTuple

ObjectType = Literal["commit", "tree", "blob"]
_PACK_TYPES: dict[ObjectType, int] = {"commit": 1, "tree": 2, "blob": 3}

FILE_MODE = "100644"
"""The only mode that a session's tree may hold: no symlink, no program, no folder, no submodule."""


class GitObject(NamedTuple):
    """One object as git stores it."""

    type: ObjectType
    data: bytes

    @property
    def id(self) -> str:
        """40 hex digits."""
        header = f"{self.type} {len(self.data)}\0".encode()
        return hashlib.sha1(header + self.data, usedforsecurity=False).hexdigest()


class TreeEntry(NamedTuple):
    """One line of a folder."""

    mode: str
    name: str
    id: str


class Person(NamedTuple):
    """Author or committer."""

    name: str
    email: str

    def stamp(self, unix_seconds: int) -> str:
        """Author and time in the form of a commit; times are UTC."""
        return f"{self.name} <{self.email}> {unix_seconds} +0000"


def blob(data: bytes) -> GitObject:
    """A file's content."""
    return GitObject("blob", data)


def tree(files: dict[str, str]) -> GitObject:
    """A flat folder of plain files, from name to blob id."""
    rows = sorted((name.encode(), bytes.fromhex(id_)) for name, id_ in files.items())
    return GitObject(
        "tree", b"".join(FILE_MODE.encode() + b" " + name + b"\0" + id_ for name, id_ in rows)
    )


def commit(
    tree_id: str, parents: Iterable[str], author: str, committer: str, message: str
) -> GitObject:
    """A commit; `author` and `committer` are stamps."""
    head = [f"tree {tree_id}", *(f"parent {parent}" for parent in parents)]
    head += [f"author {author}", f"committer {committer}"]
    return GitObject("commit", ("\n".join(head) + "\n\n" + message).encode())


def parse_tree(data: bytes) -> list[TreeEntry]:
    """The lines of a tree object; ValueError when it is malformed."""
    entries = []
    at = 0
    while at < len(data):
        space = data.index(b" ", at)
        end = data.index(b"\0", space)
        if end + 21 > len(data):
            raise ValueError("tree object ends inside an entry")
        entries.append(
            TreeEntry(
                mode=data[at:space].decode("ascii"),
                name=data[space + 1 : end].decode("utf-8"),
                id=data[end + 1 : end + 21].hex(),
            )
        )
        at = end + 21
    return entries


def pack(objects: Iterable[GitObject]) -> bytes:
    """A version 2 pack stream of whole objects, each once."""
    unique = {item.id: item for item in objects}
    body = bytearray(struct.pack(">4sII", b"PACK", 2, len(unique)))
    for item in unique.values():
        body += _pack_header(_PACK_TYPES[item.type], len(item.data))
        body += zlib.compress(item.data)
    return bytes(body) + hashlib.sha1(body, usedforsecurity=False).digest()


def _pack_header(type_: int, size: int) -> bytes:
    """Type and size: 4 bits of size beside the type, then 7 a byte, low end first."""
    byte, size = (type_ << 4) | (size & 15), size >> 4
    header = bytearray()
    while size:
        header.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    header.append(byte)
    return bytes(header)

"""A candidate as the gate gets it: the bytes of one file, whatever they are."""

import hashlib
from pathlib import Path

from msgspec import Struct

from workbench.errors import WorkbenchError


class Candidate(Struct, frozen=True, kw_only=True):
    """One file that should define `ModelNew`."""

    content: bytes
    path: str = ""
    """Where it was read; empty when it came from elsewhere."""

    @property
    def source(self) -> str:
        """Its text. Bytes that are not UTF-8 are replaced; the policy stage refuses such a file."""
        return self.content.decode("utf-8", "replace")

    @property
    def sha256(self) -> str:
        """Hash of its bytes, in hex."""
        return hashlib.sha256(self.content).hexdigest()


def candidate_of(source: str, path: str = "") -> Candidate:
    """A candidate from text."""
    return Candidate(content=source.encode("utf-8", "surrogatepass"), path=path)


LARGEST_FILE = 16 << 20
"""Bytes; ours. What is larger is no kernel, and need not be read to know it."""


def read_candidate(path: Path) -> Candidate:
    """A candidate from a file. WorkbenchError when there is no file to judge.

    What is in the file is for the gate to say: a binary or broken file is a verdict, not an error.
    """
    try:
        if path.is_dir():
            raise WorkbenchError("the candidate is a folder", where=str(path), todo="name its file")
        if path.exists() and not path.is_file():
            raise WorkbenchError("the candidate is not a regular file", where=str(path))
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except FileNotFoundError as fault:
        raise WorkbenchError(
            "there is no such candidate", where=str(path), todo="check the path"
        ) from fault
    except (OSError, ValueError) as fault:
        reason = getattr(fault, "strerror", None) or str(fault)
        raise WorkbenchError(
            f"the candidate cannot be read: {reason}", where=str(path), todo="check its rights"
        ) from fault
    if len(content) > LARGEST_FILE:
        raise WorkbenchError(
            f"the candidate is larger than {LARGEST_FILE >> 20} MiB",
            where=str(path),
            todo="a kernel's file is text of a few hundred lines",
        )
    return Candidate(content=content, path=str(path))

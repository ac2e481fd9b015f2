"""A candidate as the gate receives it: the bytes of one file, valid or not."""

import hashlib
from pathlib import Path

from msgspec import Struct

from workbench.errors import WorkbenchError, reason
from workbench.problems.foreign import NotRegular, read_regular


class Candidate(Struct, frozen=True, kw_only=True):
    """One file that should define `ModelNew`."""

    content: bytes

    @property
    def source(self) -> str:
        """Its text. Bytes that are not UTF-8 are replaced; the policy stage refuses such a file."""
        return self.content.decode("utf-8", "replace")

    @property
    def sha256(self) -> str:
        """Hex digest of its bytes."""
        return hashlib.sha256(self.content).hexdigest()


def candidate_of(source: str) -> Candidate:
    """A candidate from text."""
    return Candidate(content=source.encode("utf-8", "surrogatepass"))


LARGEST_FILE = 16 << 20
"""Bytes (ours). A larger file is refused without reading it."""


def read_candidate(path: Path) -> Candidate:
    """Read a candidate from a file. Raises WorkbenchError when there is no readable file.

    The contents are the gate's to judge: a binary or broken file gets a verdict, not an error.
    """
    try:
        content = read_regular(path, LARGEST_FILE)
    except NotRegular as fault:
        raise WorkbenchError(
            f"the candidate is {fault}", where=str(path), todo="name a file on disk"
        ) from fault
    except FileNotFoundError as fault:
        raise WorkbenchError(
            "there is no such candidate", where=str(path), todo="check the path"
        ) from fault
    except (OSError, ValueError) as fault:
        raise WorkbenchError(
            f"the candidate cannot be read: {reason(fault)}",
            where=str(path),
            todo="check its rights",
        ) from fault
    if len(content) > LARGEST_FILE:
        raise WorkbenchError(
            f"the candidate is larger than {LARGEST_FILE >> 20} MiB",
            where=str(path),
            todo="a kernel's file is text of a few hundred lines",
        )
    return Candidate(content=content)

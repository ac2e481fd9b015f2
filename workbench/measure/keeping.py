"""Records kept in the cache folder between runs: read back whole, or as if they were not there."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T", bound=Struct)


def kept(file: Path, kind: type[T]) -> T | None:
    """The record in `file`; None when there is none that can be read as `kind`."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def keep(file: Path, record: Struct) -> bool:
    """Write in one move, so that no reader meets half a record; False where nothing can be kept.

    What is kept saves time and nothing else: a full disk or a read-only home is no fault.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(msgspec.json.format(msgspec.json.encode(record), indent=1))
        Path(draft).replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            Path(draft).unlink()
        return False
    return True

"""Reads and writes cached records; a damaged one is treated as missing."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T", bound=Struct)


def read_cached(file: Path, kind: type[T]) -> T | None:
    """The record of type `kind` in `file`; None when the file is missing or cannot be decoded."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def write_cached(file: Path, record: Struct) -> bool:
    """Write a record atomically, so that no reader sees half of it; False when that fails.

    Cached records only save time, so a full disk or a read-only home is not an error.
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

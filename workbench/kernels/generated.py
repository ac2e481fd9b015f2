"""Prepares the texts of a compiled kernel for storage, and names its machine code."""

import hashlib
import re
import struct

_MOST_BYTES = 2 << 20
"""Longest text that is kept (ours); the largest of a pipelined attention kernel has 0.06 MiB."""
_TEXT_SECTION = b".text."
_FILE = re.compile(r'(loc\("|\.file\s+\d+\s+")[^"]*?([^"/]+)(?=")')
_DEBUG = re.compile(r"^\s*\.section\s+\.debug_", re.MULTILINE)


def machine_code_sha256(cubin: bytes) -> str:
    """Hash of a binary's `.text` sections, that is, of its instructions with their scheduling.

    The whole file also holds the path of the folder in which it was compiled. Raises ValueError
    when `cubin` is not a 64-bit ELF file.
    """
    if cubin[:5] != b"\x7fELF\x02":
        raise ValueError("a cubin is a 64-bit ELF file, and this is none")
    try:
        (table,) = struct.unpack_from("<Q", cubin, 0x28)
        entry, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
        rows = [struct.unpack_from("<I20xQQ", cubin, table + entry * i) for i in range(count)]
        _, start, size = rows[names]
    except (struct.error, IndexError, OverflowError) as fault:
        raise ValueError(f"the ELF file is cut off: {fault}") from fault
    strings = cubin[start : start + size]
    digest = hashlib.sha256()
    for name_at, start, size in rows:
        name = strings[name_at : strings.find(b"\0", name_at)]
        if name.startswith(_TEXT_SECTION):
            digest.update(name + b"\0" + cubin[start : start + size])
    return digest.hexdigest()


def kept(text: str) -> str:
    """The text without folders in file names and without PTX debug sections; empty if too long.

    The folders are a worker's, and gone when somebody reads the text.
    """
    found = _DEBUG.search(text)
    short = text[: found.start()] if found else text
    return _FILE.sub(r"\1\2", short) if len(short) <= _MOST_BYTES else ""

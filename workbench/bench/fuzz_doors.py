"""What stands where a candidate, a problem or its sidecar should: other things, damaged texts.

Each is put at a path, and what reads it must accept it or refuse it in its own words, at once.
"""

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from workbench.bench.fuzz_texts import AT_IMPORT, PROBLEM, RIGHT

_MANY = 100_000


def _socket(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    with socket.socket(socket.AF_UNIX) as made:
        # An address may have 107 characters, a path more.
        made.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)


def _sparse(path: Path, size: int) -> None:
    path.touch()
    os.truncate(path, size)


AS_A_PATH: dict[str, Callable[[Path], object]] = {
    "a folder": lambda path: path.mkdir(),
    "a pipe that nobody writes to": os.mkfifo,
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a link to an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a link to a terminal": lambda path: path.symlink_to("/dev/tty"),
    "a link to the kernel's messages": lambda path: path.symlink_to("/proc/kmsg"),
    "a link to this process's memory": lambda path: path.symlink_to("/proc/self/mem"),
    "a socket": _socket,
    "a terabyte of nothing": lambda path: _sparse(path, 1 << 40),
    "a hundred megabytes of nothing": lambda path: _sparse(path, 100 << 20),
    "a file that is gone": lambda path: None,  # noqa: ARG005 -- nothing is put there
}
"""Makes of a path something that is no text of ordinary size."""


_REPEATED = {
    "parentheses": ("z = ", "(", ")"),
    "brackets never closed": ("z = ", "[", ""),
    "minus signs": ("z = 1", "-", "1"),
    "sums": ("z = 1", "+1", ""),
    "attributes": ("z = a", ".a", ""),
    "calls": ("z = a", "()", ""),
    "lambdas": ("z = ", "lambda:", ""),
    "comparisons": ("z = 1", "<1", ""),
    "dots of an import": ("import a", ".a", ""),
    "dots of a relative import": ("from ", ".", " import a"),
    "branches": ("if 1: pass\n", "elif 1: pass\n", ""),
    "decorators": ("", "@f\n", "def f(): pass"),
    "targets": ("", "a=", "1"),
    "strings": ("z = ", "'a' ", ""),
    "digits": ("z = ", "9", ""),
    "hex digits": ("z = 0x", "f", ""),
    "continued lines": ("z = 1", "\\\n", ""),
}
"""A beginning, what is repeated, and an end, which for parentheses is repeated too."""


def _endless() -> Iterator[tuple[str, bytes]]:
    for name, (begins, more, ends) in _REPEATED.items():
        last = ends * _MANY if ends == ")" else ends
        yield f"{_MANY:,} {name}", f"\n{begins}{more * _MANY}{last}\n".encode()


def texts(right: str) -> dict[str, bytes]:
    """Damaged contents of a Python file whose right content is `right`."""
    whole = right.encode()
    found = {
        "no bytes": b"",
        "zeros": bytes(99),
        "a mark of the encoding": b"\xef\xbb\xbf" + whole,
        "two marks of the encoding": b"\xef\xbb\xbf" * 2 + whole,
        "line ends of Windows": whole.replace(b"\n", b"\r\n"),
        "line ends of old Macs": whole.replace(b"\n", b"\r"),
        "a line end of each kind": whole.replace(b"\n", b"\r\n", 5).replace(b"\n", b"\r", 2),
        "an encoding that is declared": b"# -*- coding: latin-1 -*-\n" + whole + b"# \xe9\n",
        "an encoding that is none": b"# coding: nosuch\n" + whole,
        "half a surrogate": whole + b"# \xed\xa0\x80\n",
        "half a character": whole + b"# \xe2\x82",
        "a zero within": whole[:200] + b"\0" + whole[200:],
        "codes that steer a terminal": whole + b"# \x1b[2J\x1b]0;x\x07\n",
        "an end of file of DOS": whole + b"\x1a",
    }
    for coding in ("utf-16", "utf-16-le", "utf-32", "utf-7", "cp037"):
        found[coding] = right.encode(coding)
    for part in range(1, 8):
        found[f"cut after {part} of 8 parts"] = whole[: len(whole) * part // 8]
    for name, more in _endless():
        found[name] = whole + more
    return found


_LONG = "9" * 400
_HEX = "0x" + "f" * 20_000
_SHAPE = '[[shape]]\nname = "a"\nvalues = {{ {} }}\n'

SIDECARS: dict[str, str | bytes] = {
    "nested arrays": "family = " + "[" * _MANY,
    "nested tables": "family = " + "{a = " * _MANY,
    "a key of many parts": "a" + ".a" * _MANY + " = 1",
    "a table of many parts": "[a" + ".a" * _MANY + "]",
    "digits": "family = " + "9" * _MANY,
    "an integer that cannot be printed": _SHAPE.format(f"N = {_HEX}"),
    "an integer that no float is": f"[tolerance.float32]\nfactor = {_HEX}\neps = 1.0",
    "a size of 400 digits": _SHAPE.format(f"N = {_LONG}"),
    "a size below nothing": _SHAPE.format("N = -5"),
    "a size that no memory has": _SHAPE.format("N = 1000000000000000000"),
    "a name without end": f'[[shape]]\nname = "{"a" * _MANY}"',
    "a key without end": "a" * _MANY + " = 1",
    "work of 400 digits": f'[roofline]\nflops = "{_LONG}"\nbytes = "N"',
    "work that is a tower": '[roofline]\nflops = "9**9**9**9"\nbytes = "N"',
    "work that is code": '[roofline]\nflops = "__import__(chr(111))"\nbytes = "N"',
    "a tolerance that is none": "[tolerance.float32]\nfactor = inf\neps = nan",
    "a date": "family = 1979-05-27",
    "many shapes": "".join(f'[[shape]]\nname = "s{i}"\n' for i in range(20_000)),
    "UTF-16": 'family = "softmax"'.encode("utf-16"),
    "a zero": b"family = 1\0",
    "Latin": b'family = "\xe9"',
}
"""Contents of a sidecar."""

SIZED = f"{PROBLEM}\nN = 9\nF = 1.5\n"
"""A right problem with constants for a sidecar to name."""

NUMBERS = (
    _LONG,
    f"-{_LONG}",
    f"{_LONG} / 3",
    _HEX,
    f"[{_HEX}]",
    "1e999",
    "9**9**9",
    "1 << (1 << 40)",
)
"""Expressions that a problem's constants are given."""


def problem_texts() -> Mapping[str, bytes]:
    """Contents of a problem file, none of which has to be run to be read."""
    numbers = {f"the constant {one[:20]}": f"{SIZED}X = {one}\n".encode() for one in NUMBERS}
    return texts(PROBLEM) | numbers


def hostile_problems() -> dict[str, str]:
    """Problem files that do something to whoever runs them."""
    return {name: f"{PROBLEM}\n{body}\n" for name, body in AT_IMPORT.items()}


def candidate_texts() -> Mapping[str, bytes]:
    """Contents of a candidate."""
    return texts(RIGHT)

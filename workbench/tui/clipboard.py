"""Copies text over SSH and tmux: by OSC 52, wrapped for tmux, and into a file as a fallback."""

import base64
from collections.abc import Mapping
from pathlib import Path

from workbench.paths import cache_home

OSC_LIMIT = 74_994
"""Most bytes of text: many terminals accept 100,000 base64 characters."""


def osc52(text: str, env: Mapping[str, str]) -> str:
    """The escape sequence that asks the terminal to copy the text; empty when it is too long.

    Inside tmux both forms are sent: the bare one works with `set-clipboard on`, and the wrapped one
    reaches the outer terminal with `allow-passthrough on`.
    """
    payload = text.encode()
    if len(payload) > OSC_LIMIT:
        return ""
    bare = f"\x1b]52;c;{base64.b64encode(payload).decode()}\a"
    if "TMUX" not in env:
        return bare
    wrapped = bare.replace("\x1b", "\x1b\x1b")
    return f"{bare}\x1bPtmux;{wrapped}\x1b\\"


def save(text: str, folder: Path | None = None) -> Path:
    """Write the text to the file for copies, which only its owner can read; returns its path.

    Raises OSError when it cannot be written, WorkbenchError when no cache folder is known.
    """
    path = (folder or cache_home()) / "copied.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.chmod(0o600)  # a file of an earlier copy may have been opened to others since
    path.write_text(text, encoding="utf-8")
    return path


def told(text: str, path: Path | None, *, sent: bool) -> str:
    """A message on what was done. A terminal does not answer, so it cannot say that it worked."""
    lines = text.count("\n") + 1
    what = f"{lines} lines" if lines > 1 else text if len(text) <= 40 else f"{len(text)} characters"
    asked = f"{what}: the terminal was asked to copy" if sent else f"{what}: too long for OSC 52"
    return f"{asked}; also in {path}" if path else f"{asked}; no file could be written"

"""What a copy sends to the terminal, and the file beside it."""

import base64
from pathlib import Path

from workbench.tui.clipboard import OSC_LIMIT, osc52, save, told


def test_a_copy_reaches_a_terminal_outside_tmux() -> None:
    bare = osc52("héllo", {})
    assert base64.b64decode(bare.removeprefix("\x1b]52;c;").removesuffix("\a")) == "héllo".encode()
    wrapped_too = osc52("héllo", {"TMUX": "/tmp/tmux"})
    assert wrapped_too == bare + "\x1bPtmux;" + bare.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def test_a_copy_too_long_for_the_terminal_still_has_its_file(tmp_path: Path) -> None:
    text = "x" * (OSC_LIMIT + 1)
    assert osc52(text, {}) == ""
    path = save(text, tmp_path)
    assert path.read_text() == text
    assert path.stat().st_mode & 0o077 == 0
    assert "too long" in told(text, path, sent=False)

"""Makes the README's pictures and recording of the screen from a recorded session."""

import asyncio
import codecs
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from textual.pilot import Pilot

from workbench.bench.terminal import COLUMNS, ROWS, Terminal
from workbench.engine.client import SessionClient
from workbench.engine.sessions import import_file
from workbench.tui.app import WorkbenchApp
from workbench.tui.dialogs.following import Prepared
from workbench.tui.leave import Leave
from workbench.tui.settings import Settings, TuiSettings

SHOTS: dict[str, tuple[str, ...]] = {
    "main": (),
    "diff": ("d",),
    "why": ("e",),
    "compare": ("G", "m", "k", "D", "2"),
}
"""Keys that lead to each picture."""
THEMES = ("dark", "light")
_PLAY = ((2.0, b""), (0.7, b"j"), (0.7, b"j"), (0.7, b"k"), (0.7, b"k"), (2.5, b"d"), (1.5, b"n"),
         (1.0, b"\x1b"), (0.7, b"G"), (0.7, b"m"), (0.7, b"k"), (2.0, b"D"),
         (2.5, b"2"), (1.0, b"\x1b"))  # fmt: skip
"""The recording's keys, each with the seconds for which its effect is shown."""
_STEP = 0.02


def make_pictures(bundle: Path, folder: Path) -> Iterator[Path]:
    """Write SVGs of 120x36 cells and an asciicast of a real terminal; yields each written file.

    Raises WorkbenchError when `bundle` is not one; OSError when `folder` cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="workbench-pictures-") as place:
        session = import_file(bundle, Path(place), "")
        for theme in THEMES:
            for name, keys in SHOTS.items():
                file = folder / f"screen-{name}-{theme}.svg"
                file.write_text(asyncio.run(_shot(session, theme, keys)), encoding="utf-8")
                yield file
        file = folder / "screen.cast"
        file.write_text(_recording(session, Path(place)), encoding="utf-8")
        yield file


async def _shot(session: Path, theme: str, keys: tuple[str, ...]) -> str:
    settings = Settings(tui=TuiSettings(theme=f"workbench-{theme}"))
    app = WorkbenchApp(SessionClient(session), settings=settings)
    async with app.run_test(size=(COLUMNS, ROWS)) as pilot:
        await _rest(app, pilot)
        for key in keys:
            await pilot.press(key)
            if isinstance(app.screen, Prepared):
                await app.screen.ready.wait()
            await _rest(app, pilot)
        return app.export_screenshot(title=f"workbench attach {session.name}")


async def _rest(app: WorkbenchApp, pilot: Pilot[Leave]) -> None:
    """Wait until the app has read everything."""
    await pilot.pause(0.3)
    while any(not worker.is_finished for worker in app.workers if worker.group != "feed"):
        await pilot.pause(0.05)
    await pilot.pause(0.1)


def _recording(session: Path, home: Path) -> str:
    """Asciicast v2: a header, then a line a write, `[seconds, "o", text]`."""
    environment = {"XDG_RUNTIME_DIR": str(home), "XDG_CONFIG_HOME": str(home / "config")}
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "workbench"}
    lines = [json.dumps(header)]
    command = [sys.executable, "-m", "workbench.cli.main", "attach", str(session)]
    with Terminal(command, environment) as terminal:
        # A read may end within a character.
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        first = terminal.until(b"Lineage") + terminal.settle()
        lines.append(json.dumps([0.1, "o", decoder.decode(first)]))
        began = time.perf_counter()
        for seconds, key in _PLAY:
            terminal.press(key)
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                data = terminal.during(_STEP)
                if data:
                    at = round(time.perf_counter() - began, 3)
                    lines.append(json.dumps([at, "o", decoder.decode(data)]))
    return "\n".join(lines) + "\n"

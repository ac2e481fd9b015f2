"""Several sessions in one process: each gets a name and folders of its own."""

import asyncio
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from session_kit import PROBLEM, SIDECAR, new_store, settings

from workbench.engine.server import EventServer
from workbench.errors import WorkbenchError
from workbench.session.creation import settle
from workbench.session.names import session_names
from workbench.session.numbered import create_numbered


def test_sessions_that_begin_at_once_get_a_number_each(tmp_path):
    began = threading.Barrier(6)

    def create(_: int) -> str:
        began.wait()
        store = create_numbered(tmp_path, "admit", settings("any"), PROBLEM, SIDECAR)
        return store.settings().name

    with ThreadPoolExecutor(6) as pool:
        names = sorted(pool.map(create, range(6)))
    assert names == [f"admit-{number}" for number in range(1, 7)]
    assert list(session_names(tmp_path)) == names
    assert not list(tmp_path.glob(".*")), "no draft is left behind"


def test_a_name_that_is_taken_while_a_session_is_written_is_told(tmp_path):
    new_store(tmp_path)
    draft = tmp_path / ".softmax-1.draft"
    draft.mkdir()
    with pytest.raises(WorkbenchError, match="already something with the new session's name"):
        settle(draft, tmp_path / "softmax-1")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def _nobody(_: object) -> None:
    raise AssertionError


def test_an_engines_socket_is_private_and_leaves_other_threads_folders_open(tmp_path):
    stop = threading.Event()
    folders: set[int] = set()
    sockets: set[int] = set()

    def make_folders() -> None:
        number = 0
        while not stop.is_set():
            folder = tmp_path / "made" / str(number)
            folder.mkdir(parents=True)
            folders.add(mode(folder) & 0o700)
            number += 1

    async def open_many(path: Path) -> None:
        for _ in range(100):
            server = EventServer(path, lambda _after: [], _nobody)
            await server.open()
            sockets.add(mode(path))
            await server.close()

    other = threading.Thread(target=make_folders)
    other.start()
    try:
        asyncio.run(open_many(tmp_path / "socket"))
    finally:
        stop.set()
        other.join()
    assert sockets == {0o600}
    assert folders == {0o700}

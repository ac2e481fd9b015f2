"""Sessions and engines of a newer workbench: named as that, left as they are, never half read."""

import asyncio
import re
from pathlib import Path

import msgspec
import pytest
from msgspec import structs
from session_kit import git, kernel, new_store, seeded, settings, transition

from workbench.engine.client import SessionClient
from workbench.engine.create import note_seed, noted_seed, request_run, seed_path
from workbench.engine.server import EventServer
from workbench.engine.sessions import list_sessions
from workbench.engine.wishes import Granted
from workbench.errors import WorkbenchError
from workbench.session import toml
from workbench.session.lock import EngineLock, socket_path
from workbench.session.objects import blob, commit, tree
from workbench.session.plumbing import Update
from workbench.session.reader import SessionReader
from workbench.session.records import Answer, Budget, Decision
from workbench.session.store import SessionStore

BEYOND = {
    "a field": lambda text: text.replace(b"\n[budget]", b'\nlanes = "wide"\n[budget]'),
    "a limit": lambda text: text + b"\n[budget.joules]\nmost = 3\n",
    "a mode": lambda text: text.replace(b'mode = "auto"', b'mode = "committee"'),
    "a proposer": lambda text: text.replace(b'"skills"', b'"tournament"'),
}


def begun_anew(store: SessionStore, text: bytes) -> None:
    """The session's settings as another workbench would have written them."""
    ids = store.git.files("refs/session/start")
    item = blob(text)
    root = tree({**ids, "session.toml": item.id})
    store.git.store([item, root])
    old = store.git.ids("refs/session/start")["refs/session/start"]
    store.git.move([Update("refs/session/start", root.id, old)], "newer")


@pytest.mark.parametrize("what", BEYOND)
def test_settings_that_hold_more_are_refused_as_newer_and_nothing_is_lost(tmp_path, what) -> None:
    store = new_store(tmp_path)
    written = toml.encode_settings(settings("softmax-1"))
    newer = BEYOND[what](written)
    assert newer != written
    begun_anew(store, newer)
    before = git(store.folder, "for-each-ref")
    with pytest.raises(WorkbenchError, match="a newer workbench wrote this session") as told:
        SessionReader(store.folder)
    assert told.value.todo.startswith("update this one")
    with pytest.raises(WorkbenchError, match="newer workbench"):
        request_run(store.folder, mode=None, budget=Budget(steps=99))
    assert git(store.folder, "for-each-ref") == before
    assert git(store.folder, "show", "refs/session/start:session.toml").encode() == newer
    (row,) = list_sessions(tmp_path)
    assert row.state.startswith("unreadable: a newer workbench wrote this session")


def waits_anew(store: SessionStore, change) -> str:
    """v1 waits, as another workbench would have written it."""
    ref = "refs/pending/0001"
    ids = store.git.files(ref)
    text, profile = change(*store.git.blobs([ids["transition.toml"], ids["profile.json"]]))
    items = {"transition.toml": blob(text), "profile.json": blob(profile)}
    root = tree({**ids, **{name: item.id for name, item in items.items()}})
    old = store.git.ids(ref)[ref]
    parent = git(store.folder, "rev-parse", f"{ref}^").strip()
    message = git(store.folder, "log", "-1", "--format=%B", ref)
    stamp = "a <a@b> 1764000000 +0000"
    node = commit(root.id, [parent], stamp, stamp, message)
    store.git.store([*items.values(), root, node])
    store.git.move([Update(ref, node.id, old)], "newer")
    return node.id


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda text, profile: (b'jury = ["a"]\n' + text, profile), "jury"),
        (lambda text, profile: (text + b"\n[gate.energy]\njoules = 2\n", profile), "gate.energy"),
        (lambda text, profile: (text, b'{"heat": 1,' + profile.lstrip()[1:]), "heat"),
    ],
    ids=["a field", "a part of the report", "a part of the profile"],
)
def test_a_step_that_holds_more_is_read_and_waits_for_who_wrote_it(tmp_path, change, named) -> None:
    store = seeded(tmp_path)
    waiting = waits_anew(store, change)
    assert store.transition(1).decision.answer is Answer.PENDING
    with pytest.raises(WorkbenchError, match=f"newer workbench.*{re.escape(named)}"):
        store.decide(1, Decision(answer=Answer.ACCEPTED, by="person"))
    assert store.git.ids("refs/pending/0001")["refs/pending/0001"] == waiting
    assert "refs/attempts/0001" not in git(store.folder, "for-each-ref")


def test_a_step_of_our_own_is_decided_as_ever(tmp_path) -> None:
    store = seeded(tmp_path)
    store.decide(1, Decision(answer=Answer.ACCEPTED, by="person"))
    assert store.source(1) == kernel(1)
    assert store.transition(1).parent == transition(1, 0).parent


async def talking(store: SessionStore, lines: list[bytes], wish):
    """What a client of ours makes of an engine that answers with these lines."""

    async def answer(reader, writer) -> None:
        await reader.readline()
        writer.writelines(lines)
        await writer.drain()
        writer.close()

    path = socket_path(store.folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    server = await asyncio.start_unix_server(answer, str(path))
    try:
        return await wish
    finally:
        server.close()


def test_events_of_a_newer_engine_are_left_out_and_the_others_heard(tmp_path) -> None:
    store = seeded(tmp_path)
    note = b'{"event":"note","seq":%d,"at":"","level":"info","says":"%s"}\n'
    lines = [note % (1, b"first"), b'{"event":"omen","seq":2}\n', note % (3, b"last")]

    async def heard() -> list[str]:
        found = []
        client = SessionClient(store.folder)
        async for batch in client._batches(0):
            found += [event.says for event in batch]
        return found

    says = asyncio.run(talking(store, lines, heard()))
    assert says == ["first", "last"]


def test_an_answer_of_a_newer_engine_is_no_traceback(tmp_path) -> None:
    store = seeded(tmp_path)
    with (
        EngineLock(store.state / "engine.lock", session="softmax-1"),
        pytest.raises(WorkbenchError, match="another version runs it"),
    ):
        asyncio.run(talking(store, [b'{"reply":"perhaps"}\n'], SessionClient(store.folder).pause()))


def test_a_wish_of_a_newer_screen_is_refused_with_what_to_do(tmp_path: Path) -> None:
    async def asked() -> dict:
        async def grant(_wish) -> Granted:
            return Granted()

        server = EventServer(tmp_path / "s", lambda _after: [], grant)
        await server.open()
        try:
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
            writer.write(b'{"wish":"levitate"}\n')
            line = await reader.readline()
            writer.close()
            return msgspec.json.decode(line)
        finally:
            await server.close()

    reply = asyncio.run(asked())
    assert reply["reply"] == "refused"
    assert "another version" in reply["todo"]


@pytest.mark.parametrize("data", [b"\xff\x00", b"", b'["one"]', None])
def test_a_seed_of_a_person_that_cannot_be_read_is_told_with_what_to_do(tmp_path, data) -> None:
    store = new_store(tmp_path)
    note_seed(store, kernel(0), Path("mine.py"))
    assert noted_seed(store) == (kernel(0), "mine.py")
    path = seed_path(store)
    path.unlink()
    path.mkdir() if data is None else path.write_bytes(data)
    with pytest.raises(WorkbenchError, match="was to start from cannot be read") as told:
        noted_seed(store)
    assert told.value.todo.endswith("workbench run PROBLEM --kernel FILE")
    store.record(transition(0, None), kernel(0))
    assert noted_seed(store) == (kernel(0), str(path)), "git has its text once it was gated"


def test_a_torn_expert_of_a_walk_is_told_with_the_walks_command(tmp_path) -> None:
    store = new_store(tmp_path)
    store.save_settings(structs.replace(store.settings(), kind="lineage"))
    note_seed(store, kernel(0), Path("mine.py"))
    store.record(transition(0, None), kernel(1))
    seed_path(store).write_bytes(b"")
    with pytest.raises(WorkbenchError, match="was to start from cannot be read") as told:
        noted_seed(store)
    assert told.value.todo.endswith("workbench learn EXPERT --problem PROBLEM")

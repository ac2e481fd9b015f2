"""The engine's socket: events go out to every follower, wishes come in and are answered."""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from workbench.engine.events import AnyEvent
from workbench.engine.wishes import AnyReply, AnyWish, Follow, Refused
from workbench.errors import WorkbenchError

_LINE_LIMIT = 1 << 20
_FAREWELL_SECONDS = 2.0
_FOLLOWER_QUEUE = 4096
"""Events a slow screen may lag behind; past that it is cut off and reads the log again."""

History = Callable[[int], list[AnyEvent]]
"""Events of the log after a `seq`."""
Grant = Callable[[AnyWish], Awaitable[AnyReply]]


class EventServer:
    """Serves one session on a Unix socket that only its owner can open.

    `history` reads the log, `grant` carries out a wish. Raises WorkbenchError when the socket
    cannot be made.
    """

    def __init__(self, path: Path, history: History, grant: Grant) -> None:
        self._path = path
        self._history = history
        self._grant = grant
        self._followers: set[asyncio.Queue[bytes | None]] = set()
        self._alone = asyncio.Event()
        self._alone.set()
        self._server: asyncio.Server | None = None
        self._encoder = msgspec.json.Encoder()
        self._wishes = msgspec.json.Decoder(AnyWish)

    async def open(self) -> None:
        """Listen. A stale socket of a dead engine is replaced: the caller holds the lock."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()
            self._server = await asyncio.start_unix_server(
                self._serve, sock=_private_socket(self._path), limit=_LINE_LIMIT
            )
        except OSError as fault:
            raise WorkbenchError(
                f"the engine's socket cannot be opened ({fault.strerror or fault})",
                where=str(self._path),
                todo="set XDG_RUNTIME_DIR to a short folder that you own, then resume",
            ) from fault

    async def close(self) -> None:
        """Send what is queued, hang up on everybody and remove the socket."""
        for queue in self._followers:
            with contextlib.suppress(asyncio.QueueFull):
                queue.put_nowait(None)
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._alone.wait(), _FAREWELL_SECONDS)
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()

    def publish(self, event: AnyEvent) -> None:
        """Hand an event to every follower; never waits."""
        line = self._encoder.encode(event) + b"\n"
        for queue in tuple(self._followers):
            try:
                queue.put_nowait(line)
            except asyncio.QueueFull:
                self._followers.discard(queue)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not _same_owner(writer):
                return
            while line := await reader.readline():
                try:
                    wish = self._wishes.decode(line)
                except msgspec.DecodeError as fault:
                    todo = "another version of the workbench runs the session: `workbench stop`,"
                    todo += " then resume with this one"
                    await self._reply(writer, Refused(what=f"not understood: {fault}", todo=todo))
                    return
                if isinstance(wish, Follow):
                    await self._follow(wish, writer)
                    return
                try:
                    reply = await self._grant(wish)
                except WorkbenchError as fault:
                    reply = Refused(what=fault.what, todo=fault.todo)
                await self._reply(writer, reply)
        except (ConnectionError, ValueError, asyncio.CancelledError):
            # A client that went away or sent an endless line ends its own connection only.
            pass
        finally:
            writer.close()

    async def _reply(self, writer: asyncio.StreamWriter, reply: AnyReply) -> None:
        writer.write(self._encoder.encode(reply) + b"\n")
        await writer.drain()

    async def _follow(self, wish: Follow, writer: asyncio.StreamWriter) -> None:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_FOLLOWER_QUEUE)
        # Subscribed before the log is read, so no event falls between; doubles are cut by `seq`.
        self._followers.add(queue)
        self._alone.clear()
        try:
            for event in self._history(wish.after):
                writer.write(self._encoder.encode(event) + b"\n")
            await writer.drain()
            while queue in self._followers:
                line = await queue.get()
                if line is None:
                    return
                writer.write(line)
                await writer.drain()
        finally:
            self._followers.discard(queue)
            if not self._followers:
                self._alone.set()


def _private_socket(path: Path) -> socket.socket:
    """A socket bound to `path` that only its owner may open, closed to all until it listens.

    Not by the umask: that is the whole process's, and folders that other threads make meanwhile
    would be closed to the workers that they are for.
    """
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(str(path))
        path.chmod(0o600)
    except OSError:
        made.close()
        raise
    return made


def _same_owner(writer: asyncio.StreamWriter) -> bool:
    """Whether the other end runs as us; the folder's mode says so too, this does not rest on it."""
    sock: socket.socket = writer.get_extra_info("socket")
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    return bool(uid == os.getuid())

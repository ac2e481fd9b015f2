"""The judge's handle on one zygote: start it, ask it for workers, see it end."""

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from workbench.errors import WorkbenchError
from workbench.isolation.zygote import Fork, Setup

_START_SECONDS = 180.0
"""Importing torch from a cold network disk takes minutes."""
_LOOK_SECONDS = 0.2
"""Between two looks at whether a start is still wanted (ours)."""
_FORK_SECONDS = 60.0
_STOP_SECONDS = 10.0
_LOG_TAIL = 2000


class ForkserverGone(Exception):
    """The zygote ended (killed for memory, say); another can be started."""


class Forkserver:
    """One zygote. Raises WorkbenchError, with the end of its log, when it does not start."""

    def __init__(
        self,
        setup: Setup,
        *,
        environment: dict[str, str],
        prefix: Sequence[str],
        log: Path,
        closing: Callable[[], bool] = lambda: False,
    ) -> None:
        """`closing` says that its start is no longer wanted."""
        self.setup = setup
        self._door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = _zygote(theirs, environment, prefix, log)
        ready = b""
        with contextlib.suppress(OSError):
            self._door.send(msgspec.msgpack.encode(setup))
            ready = self._ready(closing)
        if closing():
            # It has forked nobody yet, and would load torch for seconds before it heard us.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self.close()
            raise WorkbenchError("the workshop is closed")
        if not ready:
            self.close()
            said = log.read_text(errors="replace")[-_LOG_TAIL:].strip()
            raise WorkbenchError(
                f"the forkserver for {setup.flavor} workers did not start",
                where=said,
                todo="run `workbench doctor`",
            )
        self._door.settimeout(_FORK_SECONDS)

    def _ready(self, closing: Callable[[], bool]) -> bytes:
        """Its word that it has started; nothing once `closing`. Raises OSError: it never comes."""
        self._door.settimeout(_LOOK_SECONDS)
        deadline = time.monotonic() + _START_SECONDS
        while not closing():
            try:
                return self._door.recv(1 << 10)
            except TimeoutError:
                if time.monotonic() > deadline:
                    raise
        return b""

    def fork(self, wanted: Fork, descriptors: Sequence[int]) -> int:
        """A pidfd of a new worker's keeper, which holds `descriptors`. Raises ForkserverGone."""
        request = msgspec.msgpack.encode(wanted)
        try:
            with self._lock:
                socket.send_fds(self._door, [request], descriptors)
                raw, received, _, _ = socket.recv_fds(self._door, 1 << 10, 1)
        except OSError as fault:
            raise ForkserverGone from fault
        if not raw or not received:
            raise ForkserverGone
        return received[0]

    def close(self) -> None:
        """Hang up and wait for its end; its workers have sockets of their own to notice by."""
        self._door.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _zygote(
    door: socket.socket, environment: dict[str, str], prefix: Sequence[str], log: Path
) -> "subprocess.Popen[bytes]":
    """A zygote that has its end of the socket, in a session of its own."""
    python = [sys.executable, "-s", "-P", "-X", "faulthandler", "-m"]
    with log.open("wb") as output:
        return subprocess.Popen(
            [*prefix, *python, "workbench.isolation.zygote", str(door.fileno())],
            pass_fds=[door.fileno()],
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def pid_behind(pidfd: int) -> int:
    """The pid, as this process would see it, that a pidfd from another namespace stands for.

    -1 when it has ended.
    """
    told = re.search(
        r"^Pid:\s*(-?\d+)$", Path(f"/proc/self/fdinfo/{pidfd}").read_text(), re.MULTILINE
    )
    return int(told[1]) if told else -1


def ended(pidfd: int, seconds: float) -> bool:
    """Wait until the process has ended; False when it has not within `seconds`."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))

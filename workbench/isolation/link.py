"""The judge's ends of one worker: a channel, two output pipes to drain, and word of its death."""

import contextlib
import os
import selectors
import socket
import time
from collections.abc import Callable, Sequence

from workbench.isolation.keeper import STATUS
from workbench.isolation.watch import Excess
from workbench.isolation.wire import HEADER, WireFault, read_header

_WATCH_SECONDS = 0.05
_DEATH_SECONDS = 5.0
"""How long a closed channel may precede the keeper's word: the kernel frees memory in between."""


class Ended(Exception):
    """The worker is gone; exit code and signal as its keeper told them, None where it did not."""

    def __init__(self, exit_code: int | None, signal: int | None) -> None:
        super().__init__()
        self.exit_code = exit_code
        self.signal = signal


class Late(Exception):
    """The deadline passed."""


class OverLimit(Exception):
    """The watchdog objected to `excess`."""

    def __init__(self, excess: Excess) -> None:
        super().__init__(excess.how)
        self.excess = excess


class Link:
    """Non-blocking ends of a worker's pipes. Every wait drains its output and has a deadline."""

    def __init__(
        self,
        channel: socket.socket,
        out: int,
        err: int,
        leash: socket.socket,
        *,
        keep_bytes: int,
    ) -> None:
        self._channel = channel
        self._leash = leash
        self.closed = False
        self.waited = 0.0
        """Seconds from the first byte of the last question to the last one of its answer; the looks
        that were due before it are none of the worker's."""
        self._keep = keep_bytes
        # Of all exchanges together: short ones in a row are not slowed down by a look each.
        self._next_watch = 0.0
        self._output = {out: bytearray(), err: bytearray()}
        self._err = err
        self._out = out
        channel.setblocking(False)
        self._selector = selectors.DefaultSelector()
        leash.setblocking(False)
        for pipe in (out, err):
            os.set_blocking(pipe, False)
            self._selector.register(pipe, selectors.EVENT_READ)
        self._selector.register(leash, selectors.EVENT_READ)
        self._selector.register(channel, selectors.EVENT_READ)

    def exchange(
        self,
        pieces: Sequence[bytes | memoryview],
        nonce: bytes,
        *,
        data_cap: int,
        left: Callable[[], float],
        watch: Callable[[], Excess | None],
    ) -> tuple[bytearray, bytearray]:
        """Send `pieces`, return head and data of the one frame that answers with `nonce`.

        `left` says for how many seconds to wait before it is asked again, and 0 when it is late.
        Raises Ended, Late, OverLimit (what `watch` returned, asked some ten times a second) or
        WireFault. The worker is of no more use after any of them.
        """
        self._nothing_was_said()
        until = time.monotonic() + left()
        outgoing = _Outgoing(pieces)
        incoming = _Incoming(nonce, data_cap)
        self._selector.modify(self._channel, selectors.EVENT_READ | selectors.EVENT_WRITE)
        self._look(time.monotonic(), watch)
        began = time.monotonic()
        while not incoming.complete:
            now = time.monotonic()
            late = False
            if now >= until:
                late = (more := left()) <= 0
                until = now + more
            self._look(now, watch)
            self._step(outgoing, incoming, min(until, self._next_watch) - now)
            # This process may have been kept waiting too, and the answer lie there.
            if late and not incoming.complete:
                raise Late
        self.waited = time.monotonic() - began
        return incoming.head, incoming.data

    def _look(self, now: float, watch: Callable[[], Excess | None]) -> None:
        if now < self._next_watch:
            return
        if (excess := watch()) is not None:
            raise OverLimit(excess)
        self._next_watch = now + _WATCH_SECONDS

    def _step(self, outgoing: "_Outgoing", incoming: "_Incoming", seconds: float) -> None:
        dead = False
        for key, events in self._selector.select(max(seconds, 0.0)):
            if key.fileobj is self._leash:
                dead = True
            elif key.fileobj is self._channel:
                if events & selectors.EVENT_WRITE and outgoing.send(self._channel):
                    self._selector.modify(self._channel, selectors.EVENT_READ)
                if events & selectors.EVENT_READ and not incoming.receive(self._channel):
                    raise self._closed()
            else:
                self._drain(key.fd)
        if dead and not incoming.complete:
            # What it said before it died may still lie in the socket.
            incoming.receive(self._channel)
            if not incoming.complete:
                raise self._death()

    def _nothing_was_said(self) -> None:
        """Between two turns the worker has nothing to say."""
        with contextlib.suppress(BlockingIOError):
            if self._channel.recv(1, socket.MSG_PEEK):
                raise WireFault("spoke out of turn")
            raise self._closed()

    def _closed(self) -> Exception:
        """Why the channel came to its end: death, or a worker that lives on without it."""
        until = time.monotonic() + _DEATH_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self._leash, selectors.EVENT_READ)
            for pipe in self._output:
                selector.register(pipe, selectors.EVENT_READ)
            while (left := until - time.monotonic()) > 0:
                for key, _ in selector.select(left):
                    if key.fileobj is self._leash:
                        return self._death()
                    if not self._drain(key.fd):
                        selector.unregister(key.fd)
        return WireFault("closed its channel and lived on")

    def _death(self) -> Ended:
        raw = b""
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            raw = self._leash.recv(STATUS.size)
        if len(raw) != STATUS.size:
            return Ended(None, None)
        exit_code, signal = STATUS.unpack(raw)
        return Ended(exit_code if exit_code >= 0 else None, signal or None)

    def _drain(self, pipe: int) -> bool:
        """Read what one pipe holds, keep the tail; False at its end."""
        try:
            data = os.read(pipe, 1 << 16)
        except BlockingIOError:
            return True
        if not data:
            with contextlib.suppress(KeyError):
                self._selector.unregister(pipe)
            return False
        kept = self._output[pipe]
        kept += data
        del kept[: -self._keep]
        return True

    def output(self) -> tuple[str, str]:
        """The kept tails of stdout and stderr."""
        for pipe in self._output:
            # Bounded: a living worker can refill the pipe for ever.
            for _ in range(64):
                before = len(self._output[pipe])
                if not self._drain(pipe) or len(self._output[pipe]) == before:
                    break
        out, err = self._output[self._out], self._output[self._err]
        return out.decode(errors="replace"), err.decode(errors="replace")

    def let_go(self) -> None:
        """Tell the keeper to end the worker and itself. Safe while another thread exchanges."""
        with contextlib.suppress(OSError):
            self._leash.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close every end."""
        self.closed = True
        self._selector.close()
        self._channel.close()
        self._leash.close()
        for pipe in self._output:
            os.close(pipe)


class _Outgoing:
    """Pieces still to be sent."""

    def __init__(self, pieces: Sequence[bytes | memoryview]) -> None:
        self._views = [memoryview(piece) for piece in pieces]

    def send(self, channel: socket.socket) -> bool:
        """Send what fits; True when nothing is left. A dead reader is noticed when reading."""
        while self._views:
            try:
                sent = channel.send(self._views[0])
            except BlockingIOError:
                return False
            except (BrokenPipeError, ConnectionResetError):
                self._views.clear()
                return True
            if sent == self._views[0].nbytes:
                self._views.pop(0)
            else:
                self._views[0] = self._views[0][sent:]
        return True


class _Incoming:
    """One frame, read no further than its end."""

    def __init__(self, nonce: bytes, data_cap: int) -> None:
        self._nonce = nonce
        self._cap = data_cap
        self._header = bytearray(HEADER.size)
        self.head = bytearray()
        self.data = bytearray()
        self._parts = [memoryview(self._header)]
        self._sized = False

    @property
    def complete(self) -> bool:
        return self._sized and not self._parts

    def receive(self, channel: socket.socket) -> bool:
        """Read what is there; False at the end of the stream."""
        while self._parts:
            try:
                count = channel.recv_into(self._parts[0])
            except BlockingIOError:
                return True
            except ConnectionResetError:
                return False
            if not count:
                return False
            self._parts[0] = self._parts[0][count:]
            if not self._parts[0].nbytes:
                self._parts.pop(0)
            if not self._parts and not self._sized:
                self._size()
        return True

    def _size(self) -> None:
        head_bytes, data_bytes = read_header(bytes(self._header), self._nonce, self._cap)
        self.head, self.data = bytearray(head_bytes), bytearray(data_bytes)
        self._parts = [memoryview(part) for part in (self.head, self.data) if part]
        self._sized = True
